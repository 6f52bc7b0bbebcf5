"""Describe a model as text or JSON: its parts, and statistics of its arrays."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.contracts.scores import kind_of, shape_text, widen
from onnx_passes.model.diff import operator
from onnx_passes.model.tensor_bytes import string_data
from onnx_passes.model.walk import graphs_of
from onnx_passes.plain import Plain, PlainDict


def statistics(array: Array) -> PlainDict:
    """Return mean, std, variance, median, min and max, and the NaN and Inf counts.

    All but the counts are of the finite elements; ``None`` if there are none, or the elements
    have no order. Min and max come with their positions.
    """
    kind = kind_of(array.dtype)
    found: PlainDict = {"elements": int(array.size), "nan": 0, "inf": 0}
    found |= dict.fromkeys(
        ("mean", "std", "variance", "median", "min", "min_at", "max", "max_at")
    )
    if kind in ("string", "complex", "other"):
        return found
    own = array.dtype
    if own.kind not in "biuf":  # the types of ml_dtypes have up to 16 bits
        own = np.dtype(np.int16 if kind == "int" else np.float32)
    flat = array.astype(own, copy=False).reshape(-1)
    finite = np.isfinite(flat)
    found["nan"] = int(np.isnan(flat).sum())
    found["inf"] = int(flat.size - finite.sum()) - found["nan"]
    kept = flat[finite]
    if not kept.size:
        return found
    places = np.flatnonzero(finite)
    for name, place in (("min", kept.argmin()), ("max", kept.argmax())):
        found[name] = kept[place].item()
        where = np.unravel_index(places[place], array.shape)
        found[f"{name}_at"] = [int(i) for i in where]
    wide = widen(kept)
    with np.errstate(over="ignore", invalid="ignore"):
        found |= {"mean": float(wide.mean()), "variance": float(wide.var())}
    found |= {"std": math.sqrt(found["variance"]), "median": float(np.median(wide))}
    return found


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


SHOWN = ("layers", "attrs", "weights", "values")


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
        "op": operator(node),
        "inputs": ["" if v is None else v.name or "" for v in node.inputs],
        "outputs": [v.name or "" for v in node.outputs],
    }
    attributes = [node.attributes[name] for name in sorted(node.attributes)]
    inner = {}
    for attribute in attributes:
        if held := graphs_of(attribute):
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
