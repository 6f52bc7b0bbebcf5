"""Constants of rules: as arrays and scalars, and placed along axes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.base import Op, Value


def floats(value: ir.Value | None) -> Array | None:
    """Return a finite constant of float32; None for anything else."""
    tensor = constant_of(value)
    if tensor is None or tensor.dtype != ir.DataType.FLOAT:
        return None
    array = tensor.numpy()
    return array if np.isfinite(array).all() else None


def scalar(value: ir.Value | None) -> float | None:
    """Return the one number that a constant of float32 repeats; None for anything else."""
    array = floats(value)
    if array is None or array.size == 0 or (array != array.flat[0]).any():
        return None
    return float(array.flat[0])


def is_single(value: ir.Value | None) -> bool:
    """Whether a value is a constant of one element that makes no operand bigger."""
    array = floats(value)
    return array is not None and array.size == 1


def rank_of(value: ir.Value | None) -> int | None:
    """Return the rank of a value, if it is known."""
    return None if value is None or value.shape is None else len(value.shape)


def constant(op: Op, array: Array | float) -> Value:
    """Make a constant of float32.

    Args:
        op: Builds nodes.
        array: Numbers of any shape.
    """
    made: Value = op.Constant(value=ir.tensor(np.array(array, np.float32)))
    return made


def along(array: Array, axis: int, rank: int) -> Array | None:
    """Return a constant as a row along one axis of a value of some rank.

    Args:
        array: The constant, of any shape.
        axis: The axis, counted from the front.
        rank: Rank of the value that the constant is broadcast with.

    Returns:
        The row, or one element; None if the constant differs along another axis.
    """
    if array.ndim > rank:
        return None
    shape = [1] * (rank - array.ndim) + list(array.shape)
    if any(size != 1 for place, size in enumerate(shape) if place != axis):
        return None
    return array.reshape(-1)


def at_axis(row: Array, axis: int, rank: int) -> Array:
    """Return a row in the shape in which it is broadcast along one axis.

    Args:
        row: An array with one element for each place of the axis.
        axis: The axis.
        rank: Rank of the result.
    """
    shape = [1] * rank
    shape[axis] = row.size
    return row.reshape(shape)
