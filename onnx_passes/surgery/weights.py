"""Models without their weights and back, and weights pruned to 2:4 sparsity."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.errors import ModelError, UsageError
from onnx_passes.model.digest import tensor_digest
from onnx_passes.model.walk import all_graphs, all_tensors, graphs_within
from onnx_passes.passes.common.large_tensors import Scratch
from onnx_passes.passes.constants import constant_of
from onnx_passes.plain import PlainDict

KEY = "onnx_passes.stripped_weights"
"""Metadata of a model that says what its weights were."""

LEAST = 1024
"""Bytes from which a weight is removed: smaller ones are shapes, axes and scales."""

_AT_ONCE = 1 << 20
"""Elements that are computed with at once."""

_IN_MEMORY = 1 << 26
"""Bytes of random weights that stay in memory; more go to a temporary file."""

_SUPPORTED = frozenset(
    {
        *(ir.DataType.FLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.BOOL),
        *(ir.DataType.INT8, ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64),
        *(ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64),
    }
)


def strip_weights(model: ir.Model, least: int = LEAST) -> list[str]:
    """Replace each large weight by a ConstantOfShape that gives the mean.

    Weights are initializers and Constant nodes, in bodies and functions too. The model stays
    valid and can be run. Its metadata notes type, shape, digest, mean, standard deviation and
    range of each weight, and :func:`restore_weights` reads them.

    Args:
        model: The model, changed in place.
        least: Bytes from which a weight is removed.

    Returns:
        The names of the weights.

    Raises:
        UsageError: The model was stripped before.
        ModelError: Weights cannot be read.
    """
    if KEY in model.metadata_props:
        raise UsageError("the weights of this model were removed before")
    noted: dict[str, PlainDict] = {}
    for key, value, tensor in list(_weights(model)):
        # An input with a default is for callers to override.
        plain = tensor.dtype in _SUPPORTED and not value.is_graph_input()
        if plain and tensor.nbytes >= least:
            noted[key] = _describe(tensor)
            if value.producer() is not None:
                noted[key]["node"] = True
            _replace(value, tensor, noted[key]["mean"])
    model.metadata_props[KEY] = json.dumps(noted)
    return list(noted)


def large_tensors(model: ir.Model, least: int = LEAST) -> list[str]:
    """Return the names of tensors of a number of bytes or more that a file would hold."""
    found = (tensor for tensor in all_tensors(model) if tensor.nbytes >= least)
    return [tensor.name or "a tensor without a name" for tensor in found]


def restore_weights(
    model: ir.Model, source: ir.Model | None = None, *, seed: int = 0
) -> list[str]:
    """Put weights back: those of the model that was stripped, or random ones like them.

    Args:
        model: The stripped model, changed in place.
        source: Where the weights are; None for random ones of the same mean, standard
            deviation and range.
        seed: Of the random ones.

    Returns:
        The names of the weights.

    Raises:
        UsageError: The model was not stripped.
        ModelError: The source has other weights.
    """
    text = model.metadata_props.get(KEY)
    if text is None:
        raise UsageError(
            "no weights were removed from this model", help="onnx-passes strip-weights does"
        )
    noted: dict[str, PlainDict] = json.loads(text)
    held = {} if source is None else {key: tensor for key, _, tensor in _weights(source)}
    rng = np.random.default_rng(seed)
    # Weights of the source stay in its files.
    scratch = Scratch(model, always=source is None and _bytes(noted) > _IN_MEMORY)
    for owner, graph in _graphs(model):
        for node in list(graph):
            key = f"{owner}{node.outputs[0].name}" if node.op_type == "ConstantOfShape" else ""
            if key in noted:
                array = (
                    _drawn(noted[key], rng)
                    if source is None
                    else _check(key, noted[key], held.get(key))
                )
                tensor = scratch.keep(ir.tensor(array, name=node.outputs[0].name))
                _restore(graph, node, tensor, as_node="node" in noted[key])
    del model.metadata_props[KEY]
    return list(noted)


def _graphs(model: ir.Model) -> Iterator[tuple[str, ir.Graph]]:
    """Yield all graphs, each with a prefix for names of functions."""
    for graph in graphs_within(model.graph):
        yield "", graph
    for function in model.functions.values():
        for graph in graphs_within(function.graph):
            yield f"{'::'.join(function.identifier())}/", graph


def _weights(model: ir.Model) -> Iterator[tuple[str, ir.Value, ir.TensorProtocol]]:
    """Yield initializers and results of Constant nodes, each with a key and its tensor."""
    for owner, graph in _graphs(model):
        values = [*graph.initializers.values(), *(v for n in graph for v in n.outputs[:1])]
        for value in values:
            node = value.producer()
            tensor = value.const_value if node is None else None
            if node is not None and (node.domain, node.op_type) == ("", "Constant"):
                tensor = constant_of(value)
            if tensor is not None:
                yield f"{owner}{value.name}", value, tensor


def _describe(tensor: ir.TensorProtocol) -> PlainDict:
    array = tensor.numpy()
    some = array.reshape(-1)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        some = some[np.isfinite(some)]
    some = some if some.size else np.zeros(1)
    exact = _sum(some, lambda part: part) / some.size
    spread = _sum(some, lambda part: np.square(part - exact)) / some.size
    mean = round(float(exact)) if array.dtype.kind in "iub" else float(exact)
    return {
        "dtype": tensor.dtype.name,
        "shape": list(array.shape),
        "sha256": tensor_digest(tensor).hex(),
        "mean": mean,
        "std": float(np.sqrt(spread)),
        "min": float(some.min()),
        "max": float(some.max()),
    }


def _sum(array: Array, term: Callable[[Array], Array]) -> np.float64:
    """Add up terms in double precision, of some elements at a time.

    The halves are those of numpy's own sums, so that the result is the same to the last bit.
    ``array`` is [n]; ``term`` returns the terms of elements.
    """
    count = len(array)
    if count <= _AT_ONCE:
        return np.float64(np.add.reduce(term(array.astype(np.float64))))
    half = count // 2 - count // 2 % 8
    return _sum(array[:half], term) + _sum(array[half:], term)


def _replace(value: ir.Value, tensor: ir.TensorProtocol, mean: float) -> None:
    name, node, graph = str(value.name), value.producer(), value.graph
    shape = np.array(tensor.shape.numpy(), np.int64)
    filled = np.array([mean]).astype(tensor.dtype.numpy())
    sizes = ir.node("Constant", [], {"value": ir.tensor(shape)})
    made = ir.node("ConstantOfShape", [sizes.outputs[0]], {"value": ir.tensor(filled)})
    sizes.outputs[0].name = f"{name}_shape"
    made.outputs[0].type, made.outputs[0].shape = value.type, value.shape
    value.replace_all_uses_with(made.outputs[0], replace_graph_outputs=True)
    home = graph if node is None else node.graph
    assert home is not None, "it stands somewhere"
    if node is not None:
        home.remove(node, safe=True)
    elif graph is not None:
        del graph.initializers[name]
    made.outputs[0].name = name
    for new in (made, sizes):
        if len(home):
            home.insert_before(home[0], new)
        else:
            home.append(new)


def _restore(
    graph: ir.Graph, node: ir.Node, tensor: ir.TensorProtocol, *, as_node: bool
) -> None:
    old = node.outputs[0]
    name, old.name = old.name, None
    if as_node:
        constant = ir.node("Constant", [], {"value": tensor})
        graph.insert_before(node, constant)
        new = constant.outputs[0]
        new.name, new.type = name, ir.TensorType(tensor.dtype)
    else:
        new = ir.Value(name=name, const_value=tensor, type=ir.TensorType(tensor.dtype))
        graph.register_initializer(new)
    new.shape = ir.Shape(tensor.shape.numpy())
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    sizes = node.inputs[0]
    graph.remove(node, safe=True)
    maker = None if sizes is None else sizes.producer()
    if maker is not None and sizes is not None and not sizes.uses():
        graph.remove(maker, safe=True)


def _check(name: str, noted: PlainDict, tensor: ir.TensorProtocol | None) -> Array:
    if tensor is None:
        raise ModelError(f"the source has no weight {name!r}")
    if tensor_digest(tensor).hex() != noted["sha256"]:
        raise ModelError(
            f"the weight {name!r} of the source is not the one that was removed",
            help="restore from the model that was stripped, or leave the source out",
        )
    found: Array = tensor.numpy()
    return found


def _drawn(noted: PlainDict, rng: np.random.Generator) -> Array:
    dtype = ir.DataType[noted["dtype"]].numpy()
    found = np.empty(math.prod(noted["shape"]), dtype)
    for start in range(0, len(found), _AT_ONCE):
        part = found[start : start + _AT_ONCE]
        drawn = rng.normal(noted["mean"], noted["std"], len(part))
        drawn = np.clip(drawn, noted["min"], noted["max"])
        part[:] = np.rint(drawn) if dtype.kind in "iub" else drawn
    return found.reshape(noted["shape"])


def _bytes(noted: dict[str, PlainDict]) -> int:
    return sum(
        math.prod(one["shape"]) * ir.DataType[one["dtype"]].bitwidth // 8
        for one in noted.values()
    )


GROUP, KEPT = 4, 2
_SAME = ("Identity", "Cast")


@dataclass(frozen=True)
class Pruned:
    """What was pruned.

    Attributes:
        weights: Elements that were set to zero, by weight; those that were zero before are
            not counted.
        left: Weights that were left as they are, and why.
    """

    weights: dict[str, int] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)


@dataclass
class _Weight:
    """A constant that is multiplied.

    Products are summed along ``axes``. ``reads`` are the readers on the way to the products,
    with the index of the input; ``values`` are it and what is made of it on the way.
    """

    axes: set[int] = field(default_factory=set)
    reads: set[tuple[ir.Node, int]] = field(default_factory=set)
    values: set[ir.Value] = field(default_factory=set)


def prune(model: ir.Model) -> Pruned:
    """Keep the two largest of each four weights along the axis that is summed over.

    The pattern is the one that NVIDIA's sparse tensor cores read: along input channels of
    Conv, along the inner dimension of Gemm and MatMul. Weights are followed through Identity,
    Cast, Transpose and a DequantizeLinear without zero point. What the model computes
    changes: train it on, or measure what it costs. Nothing is verified.

    Args:
        model: The model, changed in place; the tensors that it had are left as they are.

    Returns:
        What was pruned, and what was not: an axis that is not a multiple of four, a weight
        that something else reads as well, one that callers may override.
    """
    found, scratch = Pruned(), Scratch(model)
    weights: dict[ir.Value, _Weight] = {}
    for graph in all_graphs(model):
        for node in graph:
            for index, axis in _factors(node):
                _follow(node, index, axis, weights)
    for value, weight in weights.items():
        name, tensor = str(value.name), _constant(value)
        if reason := _obstacle(value, tensor, weight):
            found.left[name] = reason
            continue
        (axis,) = weight.axes
        array = tensor.numpy()
        sparse = _sparse(array, axis)
        found.weights[name] = int(np.count_nonzero(array != sparse))
        made = ir.tensor(sparse, dtype=tensor.dtype, name=tensor.name)
        _store(value, scratch.keep(made))
    return found


def _factors(node: ir.Node) -> Iterator[tuple[int, int]]:
    """Yield inputs of a node that are factors, with the axis that is summed over."""
    if node.domain:
        return
    if node.op_type == "Conv":
        yield 1, 1
    elif node.op_type == "MatMul":
        yield 1, -2
        yield 0, -1
    elif node.op_type == "Gemm":
        yield 1, 1 if node.attributes.get_int("transB", 0) else 0
        yield 0, 0 if node.attributes.get_int("transA", 0) else 1


def _follow(node: ir.Node, index: int, axis: int, weights: dict[ir.Value, _Weight]) -> None:
    """Go from a factor up to the constant that it is made of, if it is made of one."""
    way = _Weight()
    value = node.inputs[index]
    while value is not None:
        way.reads.add((node, index))
        way.values.add(value)
        if (tensor := _tensor(value)) is not None:
            rank = len(tensor.shape)
            # A vector has its one axis summed over, on either side of MatMul.
            axis = 0 if rank == 1 else axis
            if -rank <= axis < rank:
                weight = weights.setdefault(value, _Weight())
                weight.axes.add(axis % rank)
                weight.reads |= way.reads
                weight.values |= way.values
            return
        maker = value.producer()
        turned = None if maker is None else _through(maker, axis)
        if maker is None or turned is None:
            return
        node, index, axis, value = maker, 0, turned, maker.inputs[0]


def _through(maker: ir.Node, axis: int) -> int | None:
    """Return the axis of a node's input that an axis of its output is; None for none."""
    if maker.domain or not maker.inputs or maker.inputs[0] is None:
        return None
    if maker.op_type in _SAME:
        return axis
    tensor = _tensor(maker.inputs[0])
    shape = maker.inputs[0].shape if tensor is None else tensor.shape
    rank = None if shape is None else len(shape)
    if maker.op_type == "Transpose" and rank is not None:
        order = maker.attributes.get_ints("perm", None) or range(rank)[::-1]
        return order[axis] if -rank <= axis < rank else None
    if maker.op_type == "DequantizeLinear" and rank is not None:
        return axis if _scales_evenly(maker, axis % rank, rank) else None
    return None


def _scales_evenly(node: ir.Node, axis: int, rank: int) -> bool:
    """Return whether the largest of a group are the largest before they are scaled."""
    scale = node.inputs[1]
    zero = node.inputs[2] if len(node.inputs) > 2 else None
    if zero is not None:
        tensor = _tensor(zero)
        if tensor is None or np.any(tensor.numpy().astype(np.int32)):
            return False
    if scale is None or scale.shape is None or node.attributes.get_int("block_size"):
        return False
    return len(scale.shape) == 0 or node.attributes.get_int("axis", 1) % rank != axis


def _tensor(value: ir.Value) -> ir.TensorProtocol | None:
    if value.is_initializer():
        return value.const_value
    maker = value.producer()
    if maker is None or maker.op_type != "Constant" or maker.domain:
        return None
    attribute = maker.attributes.get("value")
    return None if attribute is None or attribute.is_ref() else attribute.as_tensor()


def _constant(value: ir.Value) -> ir.TensorProtocol:
    tensor = _tensor(value)
    assert tensor is not None
    return tensor


def _obstacle(value: ir.Value, tensor: ir.TensorProtocol, weight: _Weight) -> str:
    """Say why a weight cannot be pruned; empty where it can."""
    if value.is_graph_input():
        return "callers may override it"
    reads = {(use.node, use.idx) for each in weight.values for use in each.uses()}
    if reads - weight.reads or any(each.is_graph_output() for each in weight.values):
        return "something else reads it as well"
    if len(weight.axes) > 1:
        return "products are summed along several of its axes"
    (axis,) = weight.axes
    size = int(tensor.shape.numpy()[axis])
    if size % GROUP:
        return f"{size} along axis {axis} is not a multiple of {GROUP}"
    return ""


def _sparse(array: Array, axis: int) -> Array:
    last = np.moveaxis(array, axis, -1)
    kept = last.copy(order="C").reshape(-1, GROUP)
    wide = np.float64 if array.dtype.itemsize > 4 else np.float32
    for start in range(0, len(kept), _AT_ONCE):
        groups = kept[start : start + _AT_ONCE]
        order = np.argsort(np.abs(groups.astype(wide)), axis=1, kind="stable")
        np.put_along_axis(groups, order[:, : GROUP - KEPT], np.zeros(1, array.dtype), axis=1)
    return np.ascontiguousarray(np.moveaxis(kept.reshape(last.shape), -1, axis))


def _store(weight: ir.Value, tensor: ir.TensorProtocol) -> None:
    maker = weight.producer()
    if maker is not None:
        maker.attributes["value"] = ir.AttrTensor("value", tensor)
    if maker is None or weight.const_value is not None:
        weight.const_value = tensor
