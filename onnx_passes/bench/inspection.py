"""Describe a model as text or JSON: its parts, and statistics of its arrays."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array, DType
from onnx_passes.contracts.scores import blocks, kind_of, shape_text, widen
from onnx_passes.model.tensor_bytes import string_data
from onnx_passes.plain import Plain, PlainDict

_BINS, _WIDTH = 10, 40
_DIGIT = 16
"""Bits of elements that are counted together to find the median."""


def statistics(array: Array) -> PlainDict:
    """Return mean, std, variance, median, min and max, and the NaN and Inf counts.

    All but the counts are of the finite elements; ``None`` if there are none, or the elements
    have no order. Min and max come with their positions. The median of an even number of
    elements is the mean of the two in the middle.
    """
    kind = kind_of(array.dtype)
    found: PlainDict = {"elements": int(array.size), "nan": 0, "inf": 0}
    found |= dict.fromkeys(
        ("mean", "std", "variance", "median", "min", "min_at", "max", "max_at")
    )
    if kind in ("string", "complex", "other"):
        return found
    count, mean, squares = 0, 0.0, 0.0
    leading = np.zeros(1 << _DIGIT, np.int64)
    for start, block in _ordered_blocks(array):
        finite = np.isfinite(block)
        kept, low, high = block, block, block
        if not finite.all():
            found["nan"] += int(np.isnan(block).sum())
            found["inf"] += int(np.isinf(block).sum())
            kept = block[finite]
            low, high = (np.where(finite, block, end) for end in (np.inf, -np.inf))
        if not kept.size:
            continue
        wide = widen(kept)
        with np.errstate(over="ignore", invalid="ignore"):
            own = float(wide.mean())
            step, total = own - mean, count + kept.size
            # Chan's update: sums of squares of large numbers would cancel.
            squares += (
                float(((wide - own) ** 2).sum()) + step * step * count * kept.size / total
            )
            mean += step * kept.size / total
        count = total
        for name, index in (("min", int(low.argmin())), ("max", int(high.argmax()))):
            value, known = block[index].item(), found[name]
            if known is None or (value < known if name == "min" else value > known):
                found[name] = value
                where = np.unravel_index(start + index, array.shape)
                found[f"{name}_at"] = [int(i) for i in where]
        keys = _keys(kept)
        np.add.at(leading, keys >> max(0, 8 * keys.itemsize - _DIGIT), 1)
    if count:
        found |= {"mean": mean, "std": math.sqrt(squares / count), "variance": squares / count}
        ranks = {(count - 1) // 2, count // 2}
        middle = [_ranked(array, rank, leading) for rank in ranks]
        found["median"] = sum(value / len(middle) for value in middle)
    return found


def _ordered_blocks(array: Array) -> Iterator[tuple[int, Array]]:
    """Yield blocks with their first index, in a type of numpy's that keeps the order."""
    own = array.dtype
    if own.kind not in "biuf":  # the types of ml_dtypes have up to 16 bits
        own = np.dtype(np.int16 if kind_of(own) == "int" else np.float32)
    elif own.itemsize > 8:
        own = np.dtype(np.float64)
    for start, (block,) in blocks(array):
        yield start, block.astype(own.newbyteorder("="), copy=False)


def _keys(block: Array) -> Array:
    """Return unsigned integers of the same width, in the order of the finite elements."""
    bits: Array = block.view(f"u{block.itemsize}")
    if block.dtype.kind in "bu":
        return bits
    width = 8 * block.itemsize - 1
    sign: Array = np.array(1 << width, bits.dtype)
    if block.dtype.kind == "f":
        # Of a negative float all bits change, of another one the sign.
        sign = (block.view(f"i{block.itemsize}") >> width).view(bits.dtype) | sign
    return np.bitwise_xor(bits, sign)


def _element(key: int, dtype: DType) -> float:
    """Return the element of a key of :func:`_keys`."""
    bits = np.array([key], f"u{dtype.itemsize}")
    if dtype.kind in "if":
        sign = bits.dtype.type(1 << (8 * dtype.itemsize - 1))
        bits = bits ^ sign if dtype.kind == "i" or key & int(sign) else ~bits
    return float(bits.view(dtype)[0])


def _ranked(array: Array, rank: int, counts: Array) -> float:
    """Return the finite element of a rank, counted from 0 in ascending order.

    It is found 16 bits at a time, so that no more than counts are held. ``counts`` are the
    numbers of elements by the leading bits of their keys, int64.
    """
    key, rank = _digit(counts, rank)
    dtype = next(_ordered_blocks(array))[1].dtype
    for shift in range(8 * dtype.itemsize - 2 * _DIGIT, -1, -_DIGIT):
        counts = np.zeros(1 << _DIGIT, np.int64)
        for _, block in _ordered_blocks(array):
            keys = _keys(block[np.isfinite(block)])
            keys = keys[keys >> (shift + _DIGIT) == key] >> shift
            np.add.at(counts, keys & ((1 << _DIGIT) - 1), 1)
        digit, rank = _digit(counts, rank)
        key = key << _DIGIT | digit
    return _element(key, dtype)


def _digit(counts: Array, rank: int) -> tuple[int, int]:
    """Return the digit of the element of a rank, and its rank among those with this digit."""
    digit = int(np.searchsorted(np.cumsum(counts), rank, side="right"))
    return digit, rank - int(counts[:digit].sum())


def histogram(array: Array, bins: int = _BINS) -> list[tuple[float, float, int]]:
    """Count the finite elements in bins of equal width: low end, high end, count.

    Args:
        array: Numbers of any shape and type.
        bins: How many bins there are.
    """
    known = statistics(array)
    if known["min"] is None:
        return []
    low, high = float(known["min"]), float(known["max"])
    if low == high or not math.isfinite(high - low):
        return [(low, high, known["elements"] - known["nan"] - known["inf"])]
    counts = np.zeros(bins, np.int64)
    for _, (block,) in blocks(array):
        wide = widen(block)
        counts += np.histogram(wide[np.isfinite(wide)], bins, (low, high))[0]
    edges = np.linspace(low, high, bins + 1).tolist()
    return list(zip(edges, edges[1:], counts.tolist(), strict=False))


def statistics_text(known: PlainDict) -> str:
    """Write statistics on one line."""
    parts = [f"NaN {known['nan']}", f"Inf {known['inf']}"]
    if known["min"] is not None:
        low, high = (shape_text(tuple(known[f"{end}_at"])) for end in ("min", "max"))
        parts = [
            f"mean {known['mean']:.6g}",
            f"median {known['median']:.6g}",
            f"std {known['std']:.6g}",
            f"variance {known['variance']:.6g}",
            f"min {known['min']:.6g} at {low}",
            f"max {known['max']:.6g} at {high}",
            *parts,
        ]
    return ", ".join(parts)


def histogram_lines(rows: list[tuple[float, float, int]]) -> list[str]:
    """Draw a histogram for a terminal."""
    most = max((count for *_, count in rows), default=0) or 1
    return [
        f"{low:>12.5g} .. {high:<12.5g} {count:>9} ".ljust(40)
        + "#" * round(_WIDTH * count / most)
        for low, high, count in rows
    ]


SHOWN = ("layers", "attrs", "weights", "values")
_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def inspect_model(model: ir.Model, show: Collection[str] = ()) -> PlainDict:
    """Describe a model.

    Args:
        model: The model; it is not changed.
        show: ``layers`` for nodes, ``attrs`` for their attributes too, ``weights`` for dtype
            and shape of initializers, ``values`` for their statistics too, which reads them.

    Returns:
        What ``--json`` prints.
    """
    shown = set(show) | ({"layers"} if "attrs" in show else set())
    shown |= {"weights"} if "values" in show else set()
    return {
        "ir_version": model.ir_version,
        "producer": " ".join(filter(None, (model.producer_name, model.producer_version))),
        "opsets": {
            domain or "ai.onnx": v for domain, v in sorted(model.opset_imports.items())
        },
        "graph": _graph(model.graph, shown),
        "functions": [
            {
                "name": "::".join(filter(None, identifier)),
                "attributes": [str(name) for name in function.attributes],
                "graph": _graph(function.graph, shown),
            }
            for identifier, function in sorted(model.functions.items())
        ],
    }


def unbounded(model: ir.Model) -> list[str]:
    """List the inputs' and outputs' dimensions without a fixed size: ``x[0] = batch``."""
    return [
        f"{value.name}[{axis}] = {dim.value or '?'}"
        for value in (*model.graph.inputs, *model.graph.outputs)
        if value.shape is not None
        for axis, dim in enumerate(value.shape)
        if not isinstance(dim, int)
    ] + [
        f"{value.name} has no known rank"
        for value in (*model.graph.inputs, *model.graph.outputs)
        if value.shape is None
    ]


def _graph(graph: ir.Graph, shown: set[str]) -> PlainDict:
    told: PlainDict = {
        "name": graph.name or "",
        "inputs": [_value(value) for value in graph.inputs],
        "outputs": [_value(value) for value in graph.outputs],
        "node_count": len(graph),
        "initializer_count": len(graph.initializers),
    }
    if "layers" in shown:
        told["nodes"] = [_node(node, shown) for node in graph]
    if "weights" in shown:
        told["initializers"] = [
            _weight(value, shown) for _, value in sorted(graph.initializers.items())
        ]
    return told


def _value(value: ir.Value) -> PlainDict:
    shape = None
    if value.shape is not None:
        shape = [d if isinstance(d, int) else d.value or "?" for d in value.shape]
    kind = value.type
    dtype = kind.dtype.name if isinstance(kind, ir.TensorType) else str(kind or "?")
    return {"name": value.name or "", "dtype": dtype, "shape": shape}


def _node(node: ir.Node, shown: set[str]) -> PlainDict:
    told: PlainDict = {
        "name": node.name or "",
        "op": "::".join(filter(None, (node.domain, node.op_type, node.overload))),
        "inputs": ["" if v is None else v.name or "" for v in node.inputs],
        "outputs": [v.name or "" for v in node.outputs],
    }
    attributes = [node.attributes[name] for name in sorted(node.attributes)]
    inner = {}
    for attribute in attributes:
        if attribute.type in _GRAPHS and not attribute.is_ref():
            single = attribute.type == ir.AttributeType.GRAPH
            held = (attribute.as_graph(),) if single else attribute.as_graphs()
            inner[attribute.name] = [_graph(graph, shown) for graph in held]
    if "attrs" in shown:
        told["attributes"] = {
            a.name: _attribute(a, shown) for a in attributes if a.name not in inner
        }
    if inner:
        told["subgraphs"] = inner
    return told


def _attribute(attribute: ir.Attr, shown: set[str]) -> Plain:
    if attribute.is_ref():
        return f"@{attribute.ref_attr_name}"
    if attribute.type == ir.AttributeType.TENSOR:
        return _tensor(attribute.as_tensor(), shown)
    if attribute.type == ir.AttributeType.TENSORS:
        return [_tensor(tensor, shown) for tensor in attribute.as_tensors()]
    value = attribute.value
    if isinstance(value, int | float | str) or value is None:
        return value
    if isinstance(value, list | tuple) and all(
        isinstance(v, int | float | str) for v in value
    ):
        return list(value)
    return str(value)


def _weight(value: ir.Value, shown: set[str]) -> PlainDict:
    told: PlainDict = {"name": value.name or ""}
    return told | (_tensor(value.const_value, shown) if value.const_value is not None else {})


def _tensor(tensor: ir.TensorProtocol, shown: set[str]) -> PlainDict:
    told: PlainDict = {
        "dtype": tensor.dtype.name,
        "shape": [d if isinstance(d, int) else str(d) for d in tensor.shape],
    }
    if "values" in shown:
        if tensor.dtype == ir.DataType.STRING:
            told["first"] = [repr(text) for text in string_data(tensor)[:3]]
        else:
            told["statistics"] = statistics(tensor.numpy())
    return told


def inspect_lines(told: PlainDict) -> list[str]:
    """Write what ``inspect_model`` returned, one fact a line."""
    lines = [f"ir_version {told['ir_version']}"]
    lines += [f"producer {told['producer']}"] if told["producer"] else []
    lines += [f"opset {domain} {version}" for domain, version in told["opsets"].items()]
    lines += _graph_lines(told["graph"], "")
    for function in told["functions"]:
        attributes = ", ".join(function["attributes"])
        lines.append(f"function {function['name']}<{attributes}>")
        lines += _graph_lines(function["graph"], "  ")
    return lines


def _graph_lines(graph: PlainDict, indent: str) -> Iterator[str]:
    for role in ("input", "output"):
        for value in graph[f"{role}s"]:
            yield f"{indent}{role} {value['name']}: {_kind(value)}"
    nodes, initializers = graph["node_count"], graph["initializer_count"]
    yield (
        f"{indent}{nodes} node{'s' * (nodes != 1)}, "
        f"{initializers} initializer{'s' * (initializers != 1)}"
    )
    for weight in graph.get("initializers", ()):
        yield f"{indent}initializer {weight['name']}: {_constant(weight)}"
    for node in graph.get("nodes", ()):
        made, taken = (", ".join(n or "_" for n in node[k]) for k in ("outputs", "inputs"))
        yield f"{indent}{node['op']} {node['name']}({taken}) -> {made}".replace(" (", "(")
        for name, value in node.get("attributes", {}).items():
            text = _constant(value) if isinstance(value, dict) else repr(value)
            yield f"{indent}  @{name} = {text}"
        for name, inner in node.get("subgraphs", {}).items():
            for each in inner:
                yield f"{indent}  {name}:"
                yield from _graph_lines(each, indent + "    ")


def _kind(value: PlainDict) -> str:
    shape = value["shape"]
    return f"{value['dtype']}[{'...' if shape is None else ','.join(map(str, shape))}]"


def _constant(weight: PlainDict) -> str:
    if "dtype" not in weight:
        return "no value"
    text = _kind(weight)
    if "statistics" in weight:
        text += f", {statistics_text(weight['statistics'])}"
    return text + (f", {', '.join(weight['first'])}" if "first" in weight else "")
