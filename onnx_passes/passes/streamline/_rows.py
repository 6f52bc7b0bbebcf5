"""Constants of several numbers, as they are combined with moved elements."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops.bodies.operator_bodies import CUSTOM
from onnx_passes.passes._support.shapes import dims_of

_LARGEST = 2**16
"""Elements above which no constant is spread over a shape."""

_POOLS = frozenset({"MaxPool", "GlobalMaxPool", "AveragePool", "GlobalAveragePool"})
_VIEWS = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})


def move_row(node: ir.Node, array: Array) -> Array | None:
    """Return a constant as it is combined with the result of an operator.

    Args:
        node: An operator that moves elements of its first operand, pools them, or is Relu.
        array: What is combined with each element of that operand; does not widen it.

    Returns:
        What does the same behind the operator; None if no constant does.
    """
    x, rank = node.inputs[0], None
    if x is not None and x.shape is not None:
        rank = len(x.shape)
    if x is None or rank is None or array.ndim > rank:
        return None
    wide = array.reshape([1] * (rank - array.ndim) + list(array.shape))
    if (node.domain, node.op_type) in (("", "Transpose"), (CUSTOM, "LayoutConverter")):
        perm = node.attributes.get_ints("perm") or tuple(reversed(range(rank)))
        return narrow(np.transpose(wide, perm))
    if node.domain != "":
        return None
    if node.op_type == "Relu":
        return narrow(wide)
    if node.op_type in _POOLS:
        same = all(size == 1 for size in wide.shape[2:]) and wide.shape[0] == 1
        return narrow(wide) if same else None
    return _view(x, node.outputs[0], wide) if node.op_type in _VIEWS else None


def _view(x: ir.Value, y: ir.Value, wide: Array) -> Array | None:
    """Return a constant in another shape; its first dimension may be dynamic."""
    before, after = dims_of(x), dims_of(y)
    if before is None or after is None:
        return None
    inner, outer = list(before), list(after)
    if inner and outer and inner[0] == outer[0] and wide.shape[0] == 1:
        inner[0] = outer[0] = 1
    sizes = [d for d in inner if isinstance(d, int)], [d for d in outer if isinstance(d, int)]
    if len(sizes[0]) < len(inner) or len(sizes[1]) < len(outer):
        return None
    count = int(np.prod(sizes[0]))
    if count != int(np.prod(sizes[1])) or not 0 < count <= _LARGEST:
        return None
    return narrow(np.broadcast_to(wide, sizes[0]).reshape(sizes[1]))


def narrow(array: Array, *, kept: int = 0) -> Array:
    """Drop repeated elements along axes, and axes of size 1 in front; keep the last axes.

    Args:
        array: An array of any shape and type.
        kept: How many of the last axes stay as they are.
    """
    for axis in range(array.ndim - kept):
        first = np.take(array, [0], axis=axis)
        if np.array_equal(np.broadcast_to(first, array.shape), array):
            array = first
    while array.ndim > kept and array.shape[0] == 1:
        array = array[0]
    return np.array(array, order="C")
