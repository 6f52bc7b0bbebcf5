"""Merge two products with constants into one, and two sums."""

from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Rule, Transformation, Value, Var
from onnx_passes.passes.common.matches import (
    is_moderate,
    keeps_digits,
    narrowed,
    node_of,
    wide,
)
from onnx_passes.passes.constants import constant_of

FAMILIES = (("Mul", "Div"), ("Add", "Sub"))
INTEGERS = (ir.DataType.INT32, ir.DataType.INT64)


@passes.verify.tolerance
@passes.register("fuse")
class MergeConstantArithmetic(Transformation, RewriteRuleSetPass):
    """Merge two products with constants into one, and two sums.

    Before: ``Mul(Div(x, a), b)``, ``Sub(Add(x, a), b)``
    After:  ``Mul(x, b / a)``, ``Add(x, a - b)``

    Sound because products and sums are associative but for rounding, which the tolerance is
    for; integers of 32 and 64 bits wrap around the same way.

    Leaves alone: Div of integers, and Sub and Div of a constant by something; sums of floats
    that cancel each other, after which the digits that the first one lost would be back;
    factors so big or small that the product between could leave the range of the type; zero
    and what is not finite; constants that are computed, that callers may override, or that
    are bigger together; a value between that something else reads.
    """

    exclusive = True
    commute = True

    def rules(self) -> Iterator[Rule]:
        for family in FAMILIES:
            for pair in product(family, repeat=2):
                yield Rule(partial(_pair, *pair), _merged, _can_be_merged)


def _pair(inner: str, outer: str, op: Op, x: Var, a: Var, b: Var) -> Var:
    t = getattr(op, inner)(x, a, _outputs=["t"])
    return getattr(op, outer)(t, b, _outputs=["y"])


def _can_be_merged(context: object, x: Value, a: Value, b: Value, t: Value, y: Value) -> bool:
    return constant_of(x) is None and _constant(a, b, t, y) is not None


def _merged(op: Op, x: Value, a: Value, b: Value, t: Value, y: Value) -> Value:
    array = _constant(a, b, t, y)
    assert array is not None, "check has seen to it"
    name = "Mul" if node_of(t).op_type in FAMILIES[0] else "Add"
    return getattr(op, name)(x, op.Constant(value=ir.tensor(array)))


def _constant(a: Value, b: Value, t: Value, y: Value) -> Array | None:
    first, second = constant_of(a), constant_of(b)
    if first is None or second is None or first.dtype != second.dtype:
        return None
    inner, outer = node_of(t).op_type, node_of(y).op_type
    if first.dtype in INTEGERS:
        found = _of_integers(first.numpy(), second.numpy(), inner, outer)
    else:
        left, right = wide(a), wide(b)
        if left is None or right is None:
            return None
        found = _of_floats(left, right, inner, outer, first.dtype)
    if found is None or found.size > max(first.size, second.size):
        return None
    return found


def _of_integers(left: Array, right: Array, inner: str, outer: str) -> Array | None:
    if "Div" in (inner, outer) or not _fit(left, right):
        return None
    with np.errstate(over="ignore"):
        if inner == "Mul":
            return np.asarray(left * right, left.dtype)
        signed = [n if op == "Add" else -n for n, op in ((left, inner), (right, outer))]
        return np.asarray(signed[0] + signed[1], left.dtype)


def _of_floats(
    left: Array, right: Array, inner: str, outer: str, dtype: ir.DataType
) -> Array | None:
    if not _fit(left, right) or not (np.isfinite(left).all() and np.isfinite(right).all()):
        return None
    if inner in FAMILIES[1]:
        left, right = (n if op == "Add" else -n for n, op in ((left, inner), (right, outer)))
        found = np.asarray(left + right)
        return narrowed(found, dtype) if keeps_digits(found, left, right) else None
    both = np.concatenate([left.reshape(-1), right.reshape(-1)])
    if not (both.all() and is_moderate(both, dtype, 4)):
        return None
    factors = [n if op == "Mul" else 1 / n for n, op in ((left, inner), (right, outer))]
    return narrowed(np.asarray(factors[0] * factors[1]), dtype)


def _fit(left: Array, right: Array) -> bool:
    """Whether two constants broadcast with each other."""
    pairs = zip(reversed(left.shape), reversed(right.shape), strict=False)
    return all(m == n or 1 in (m, n) for m, n in pairs)
