"""Bring factors and terms together, factors first."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from onnx_passes import passes
from onnx_passes.passes._support.matches import node_of
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value, Var
from onnx_passes.passes.streamline._terms import Array, constant, floats

_KINDS = ("Add", "Sub", "Mul", "Div")


@passes.verify.tolerance
@passes.register()
@passes.register("algebraic")
class GatherTerms(Transformation, RewriteRuleSetPass):
    """Bring factors and terms together, factors first.

    Before: ``Mul(Add(x, a), b)``, ``Add(Add(x, a), b)``, ``Mul(Mul(x, a), b)``; Sub and Div of
            constants count as sums and products
    After:  ``Add(Mul(x, b), a * b)``, ``Add(x, a + b)``, ``Mul(x, a * b)``

    Sound over the reals by the laws of fields. The contract is a tolerance: sums and products
    of floats round at other places.

    Leaves alone: constants that are computed, that are not finite, or that callers may
    override; a division by 0; products that leave the range of float32; other types.
    """

    commute: ClassVar[bool] = False

    def pattern(self) -> list[Any]:
        return [_Pair(*pair) for pair in _PAIRS]

    def check(self) -> list[Any]:
        return [_can_be_merged for _ in _PAIRS]

    def rewrite(self) -> list[Any]:
        return [_merged for _ in _PAIRS]


_ORDERS = {"Add": (True, False), "Mul": (True, False), "Sub": (True,), "Div": (True,)}
_PAIRS = [
    (inner, outer, first, second)
    for inner in _KINDS
    for outer in _KINDS
    for first in _ORDERS[inner]
    for second in _ORDERS[outer]
    # A sum behind a product is in order.
    if not (inner in ("Mul", "Div") and outer in ("Add", "Sub"))
]


class _Pair:
    def __init__(self, inner: str, outer: str, first: bool, second: bool) -> None:
        self.inner, self.outer, self.first, self.second = inner, outer, first, second

    def __call__(self, op: Op, x: Var, a: Var, b: Var) -> Var:
        inner = getattr(op, self.inner)(*((x, a) if self.first else (a, x)), _outputs=["t"])
        outer = (inner, b) if self.second else (b, inner)
        return getattr(op, self.outer)(*outer, _outputs=["y"])


def _can_be_merged(context: Any, x: Value, a: Value, b: Value, t: Value, y: Value) -> bool:
    return floats(x) is None and _constants(a, b, t, y) is not None


def _constants(a: Value, b: Value, t: Value, y: Value) -> tuple[Array | None, Array | None] | None:
    """Return the factor and the term of ``x * factor + term``."""
    first, second = _known(a, t), _known(b, y)
    if first is None or second is None:
        return None
    kinds = node_of(t).op_type, node_of(y).op_type
    sums = [kind in ("Add", "Sub") for kind in kinds]
    with np.errstate(all="ignore"):
        try:
            found = first + second if all(sums) else first * second
        except ValueError:
            return None  # they do not broadcast with each other
    factor = None if all(sums) else second if sums[0] else found
    term = found if sums[0] else None
    for array in (factor, term):
        if array is not None and not np.isfinite(array.astype(np.float32)).all():
            return None
    bigger = found.size > max(first.size, second.size)
    return None if bigger else (factor, term)


def _known(value: Value, result: Value) -> Array | None:
    """Return what is added or multiplied, in double precision."""
    array, kind = floats(value), node_of(result).op_type
    if array is None or (kind == "Div" and not array.all()):
        return None
    wide = array.astype(np.float64)
    return -wide if kind == "Sub" else 1 / wide if kind == "Div" else wide


def _merged(op: Op, x: Value, a: Value, b: Value, t: Value, y: Value) -> Value:
    found = _constants(a, b, t, y)
    assert found is not None, "check has seen to it"
    factor, term = found
    if factor is not None:
        x = op.Mul(x, constant(op, factor))
    return x if term is None else op.Add(x, constant(op, term))
