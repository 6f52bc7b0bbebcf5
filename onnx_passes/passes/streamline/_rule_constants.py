"""Constants of rules, as arrays and scalars along axes, and conditions of algebraic laws."""

from collections.abc import Iterator
from math import prod

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops import elementwise  # noqa: F401 (makes operators known)
from onnx_passes.ops.bodies.operator_bodies import CUSTOM
from onnx_passes.ops.elementwise import Variadic
from onnx_passes.ops.operator_class import Operator, kind_of, operators
from onnx_passes.passes.base import Op, Value
from onnx_passes.passes.common.shapes import dims_of
from onnx_passes.passes.constants import constant_of

LATTICES = (("And", "Or"), ("BitwiseAnd", "BitwiseOr"), ("Min", "Max"))
"""Operators that distribute over each other, and absorb each other."""

NEGATIONS = (("Not", *LATTICES[0], "Xor"), ("BitwiseNot", *LATTICES[1], "BitwiseXor"))
"""Negations, with the conjunction, disjunction and exclusive disjunction beside them."""


def commuting() -> Iterator[Operator]:
    """Yield elementwise operators of two operands whose order and grouping do not matter."""
    for operator in operators():
        commutes = operator.algebra.commutative or isinstance(operator, Variadic)
        if operator.elementwise and commutes and operator.algebra.associative:
            yield operator


def is_kind(kinds: str, *values: Value) -> bool:
    """Whether a value is known to be of one of some kinds of types, as ``kind_of`` names."""
    dtype = next((v.dtype for v in values if v.dtype is not None), None)
    return dtype is not None and kind_of(dtype) in kinds


def numbers(value: Value) -> Array | None:
    """Return a constant that is not empty; None for anything else."""
    tensor = constant_of(value)
    if tensor is None or not tensor.size or tensor.dtype == ir.DataType.STRING:
        return None
    return tensor.numpy()


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
    """Make a constant of float32."""
    return op.Constant(value=ir.tensor(np.array(array, np.float32)))


def along(array: Array, axis: int, rank: int) -> Array | None:
    """Return a constant as a row along one axis of a value of some rank.

    The axis is counted from the front. None if the constant differs along another axis.
    """
    if array.ndim > rank:
        return None
    shape = [1] * (rank - array.ndim) + list(array.shape)
    if any(size != 1 for place, size in enumerate(shape) if place != axis):
        return None
    return array.reshape(-1)


def at_axis(row: Array, axis: int, rank: int) -> Array:
    """Return a row in the shape in which it is broadcast along one axis of a rank."""
    shape = [1] * rank
    shape[axis] = row.size
    return row.reshape(shape)


_LARGEST = 2**16
"""Elements above which no constant is spread over a shape."""

_POOLS = frozenset({"MaxPool", "GlobalMaxPool", "AveragePool", "GlobalAveragePool"})
_VIEWS = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})


def move_row(node: ir.Node, array: Array) -> Array | None:
    """Return a constant as it is combined with the result of an operator.

    The node moves elements of its first operand, pools them, or is Relu; ``array`` does not
    widen that. None if no constant does the same behind it.
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
    if prod(sizes[0]) != prod(sizes[1]) or not prod(sizes[0]):
        return None
    spread, view = list(wide.shape), [1] * len(outer)
    for first, second in _blocks(*sizes):
        if any(wide.shape[axis] > 1 for axis in first):
            spread[first.start : first.stop] = sizes[0][first.start : first.stop]
            view[second.start : second.stop] = sizes[1][second.start : second.stop]
    if prod(spread) > _LARGEST:
        return None
    return narrow(np.broadcast_to(wide, spread).reshape(view))


def _blocks(inner: list[int], outer: list[int]) -> Iterator[tuple[range, range]]:
    """Yield the fewest axes of two shapes that hold the same elements, from the front."""
    i = j = 0
    while i < len(inner) or j < len(outer):
        start, first, second = (i, j), 1, 1
        while start == (i, j) or first != second:
            if j == len(outer) or (i < len(inner) and first <= second):
                first, i = first * inner[i], i + 1
            else:
                second, j = second * outer[j], j + 1
        yield range(start[0], i), range(start[1], j)


def narrow(array: Array, *, kept: int = 0) -> Array:
    """Drop repeated elements along axes, and axes of size 1 in front; keep the last axes.

    The last ``kept`` axes stay as they are.
    """
    for axis in range(array.ndim - kept):
        first = np.take(array, [0], axis=axis)
        if np.array_equal(np.broadcast_to(first, array.shape), array):
            array = first
    while array.ndim > kept and array.shape[0] == 1:
        array = array[0]
    return np.array(array, order="C")
