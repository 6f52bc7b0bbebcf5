"""Values with two equal halves along the last axis."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.passes._support.shapes import INT_MAX, dims_of, ints_of
from onnx_passes.passes._support.tensors import constant_of

DEPTH = 20
POINTWISE = frozenset(("Cos", "Sin", "Cast", "Identity", "Neg"))


def is_doubled(value: ir.Value | None, depth: int = DEPTH) -> bool:
    """Whether the second half of a value along its last axis surely is the first again.

    Looks through operators that treat all elements alike, and those that leave the last axis
    alone, for a constant or a Concat of one value with itself.

    Args:
        value: The value; None for an input that is left out.
        depth: How many nodes are looked through.
    """
    dims, tensor = dims_of(value), constant_of(value)
    if tensor is not None:
        return _array_is_doubled(tensor)
    node = value.producer() if value is not None else None
    if node is None or node.domain or not depth or not dims:
        return False
    first = node.inputs[0] if node.inputs else None
    last = len(dims) - 1
    match node.op_type:
        case "Concat":
            joined = node.attributes.get_int("axis", 0) in (-1, last)
            return joined and len(node.inputs) == 2 and first is node.inputs[1]
        case "Mul" | "Div":
            one, other = node.inputs
            factor = constant_of(other)
            if factor is None and node.op_type == "Mul":
                one, factor = other, constant_of(one)
            return factor is not None and factor.size == 1 and is_doubled(one, depth - 1)
        case "Unsqueeze":
            axes = ints_of(node.inputs[1])
            kept = axes is not None and not {-1, last} & {*axes}
            return kept and is_doubled(first, depth - 1)
        case "Gather":
            axis, rank = node.attributes.get_int("axis", 0), len(dims_of(first) or ())
            return (
                rank > 1 and axis not in (None, -1, rank - 1) and is_doubled(first, depth - 1)
            )
        case "Slice":
            axes = ints_of(node.inputs[3]) if len(node.inputs) > 3 else None
            kept = axes is not None and not {-1, last} & {*axes}
            return kept and is_doubled(first, depth - 1)
    return node.op_type in POINTWISE and is_doubled(first, depth - 1)


def _array_is_doubled(tensor: ir.TensorProtocol) -> bool:
    array = tensor.numpy()
    if not array.ndim or array.shape[-1] % 2:
        return False
    one, other = np.split(array, 2, axis=-1)
    return bool(np.array_equal(one, other))


def takes_half(node: ir.Node, axis: int, size: int, second: bool) -> bool:
    """Whether a Slice takes the first or second half of an axis of that size and no less.

    Args:
        node: The Slice.
        axis: The axis.
        size: Its size.
        second: Whether the second half is meant.
    """
    starts, ends, axes = (ints_of(value) for value in node.inputs[1:4])
    steps = ints_of(node.inputs[4]) if len(node.inputs) > 4 else [1]
    if starts is None or ends is None or steps != [1] or size % 2:
        return False
    if axes not in ([axis], [-1]) or len(starts) != 1 or len(ends) != 1:
        return False
    (start,), (end,) = starts, ends
    start, end = (n + size if -size <= n < 0 else n for n in (start, end))
    if second:
        return start == size // 2 and size <= end
    return start == 0 and end == size // 2 < INT_MAX
