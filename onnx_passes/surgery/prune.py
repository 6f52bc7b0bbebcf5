"""2:4 structured sparsity: of each four weights that are summed, two are zero."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from onnx_passes.model.walk import all_graphs
from onnx_passes.passes._support.scratch import Scratch
from onnx_passes.runtime.engine_base import Array

GROUP, KEPT = 4, 2
_SAME = ("Identity", "Cast")
_AT_ONCE = 1 << 20
"""Groups that are sorted at once: their order takes more memory than they do."""


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

    Attributes:
        axes: The axes along which its products are summed.
        reads: The readers on the way from it to the products: node, and index of the input.
        values: It, and what is made of it on the way.
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
