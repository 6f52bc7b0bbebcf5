"""Constants of several numbers behind operators that cut an operand into parts."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.passes._support.shapes import ints_of
from onnx_passes.passes.streamline._rows import move_row, narrow
from onnx_passes.passes.streamline._terms import rank_of


def move_rows(node: ir.Node, array: Array) -> list[Array] | None:
    """Return a constant as it is combined with each result of an operator.

    Args:
        node: An operator that moves elements of its first operand, cuts or pools them.
        array: What is combined with each element of that operand; does not widen it.

    Returns:
        What does the same behind the operator, for each output; None if no constants do.
    """
    rank = rank_of(node.inputs[0])
    if node.domain != "" or node.op_type not in ("Slice", "Split"):
        row = move_row(node, array)
        return None if row is None else [row]
    if rank is None or array.ndim > rank:
        return None
    wide = array.reshape([1] * (rank - array.ndim) + list(array.shape))
    if node.op_type == "Split":
        return _split(node, wide)
    sliced = _slice(node, wide)
    return None if sliced is None else [narrow(sliced)]


def _split(node: ir.Node, wide: Array) -> list[Array] | None:
    axis = node.attributes.get_int("axis", 0) or 0
    if wide.shape[axis] == 1:
        return [narrow(wide) for _ in node.outputs]
    sizes = [None if out.shape is None else out.shape[axis] for out in node.outputs]
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) < len(sizes) or sum(known) != wide.shape[axis]:
        return None
    return [narrow(part) for part in np.split(wide, np.cumsum(known)[:-1], axis)]


def _slice(node: ir.Node, wide: Array) -> Array | None:
    """Cut a constant as a Slice with known places cuts what it is combined with."""
    given = [None if value is None else ints_of(value) for value in node.inputs[1:]]
    starts, ends, axes, steps = (*given, None, None, None, None)[:4]
    lacks = [v is not None and g is None for v, g in zip(node.inputs[1:], given, strict=True)]
    if starts is None or ends is None or any(lacks):
        return None
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if wide.shape[axis] != 1:
            places = range(*slice(start, end, step).indices(wide.shape[axis]))
            wide = np.take(wide, list(places), axis=axis)
    return wide


__all__ = ["move_rows"]
