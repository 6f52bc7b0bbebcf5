"""Bring factors and terms together, factors first."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value, Var
from onnx_passes.passes.streamline._terms import Array, constant, floats


@passes.verify.tolerance
@passes.register()
@passes.register("algebraic")
class GatherTerms(Transformation, RewriteRuleSetPass):
    """Bring factors and terms together, factors first.

    Before: ``Mul(Add(x, a), b)``, ``Add(Add(x, a), b)``, ``Mul(Mul(x, a), b)``,
            ``Mul(Div(x, a), b)``, ``Div(Add(x, a), b)``, ``Div(Mul(x, a), b)``,
            ``Sub(x, a)``, ``Add(a, x)``, ``Mul(a, x)``; ``Div(x, a)`` by a power of two;
            ``Neg(x)``, ``Neg(Sub(x, y))``; ``Add(Mul(x, a), Mul(x, b))``,
            ``Add(Mul(x, a), x)``
    After:  ``Add(Mul(x, b), a * b)``, ``Add(x, a + b)``, ``Mul(x, a * b)``,
            ``Mul(x, b / a)``, ``Add(Mul(x, 1 / b), a / b)``, ``Mul(x, a / b)``,
            ``Add(x, -a)``, ``Add(x, a)``, ``Mul(x, a)``; ``Mul(x, 1 / a)``;
            ``Mul(x, -1)``, ``Sub(y, x)``; ``Mul(x, a + b)``, ``Mul(x, a + 1)``

    Sound because the laws of fields hold over the reals. The contract is a tolerance: sums
    and products of floats round at other places.

    Leaves alone: constants that are computed, that are not finite, or that callers may
    override; factors of 0; results that leave the range of float32; other types; other
    divisions alone, and those in front of a rounding, where the quotient decides ties; pairs
    in front of Equal, which each rounding decides; like terms that cancel each other, of
    which other digits would be left.
    """

    def pattern(self) -> list[Any]:
        return [rule[0] for rule in _RULES]

    def check(self) -> list[Any]:
        return [rule[1] for rule in _RULES]

    def rewrite(self) -> list[Any]:
        return [rule[2] for rule in _RULES]


_Constants = tuple[Array | None, Array | None]


def _pair(inner: str, outer: str) -> tuple[Any, Any, Any]:
    """Merge two operators with constants; the result is ``x * factor + term``."""

    def pattern(op: Op, x: Var, a: Var, b: Var) -> Var:
        return getattr(op, outer)(getattr(op, inner)(x, a), b, _outputs=["y"])

    def found(a: Value, b: Value, y: Value) -> _Constants | None:
        if (outer == "Div" and _is_rounded(y)) or _is_tested(y):
            return None
        first, second = _wide(a, inner), _wide(b, outer)
        if first is None or second is None:
            return None
        try:
            both = first + second if outer == "Add" else first * second
        except ValueError:
            return None  # they do not broadcast with each other
        if both.size > max(first.size, second.size):
            return None
        factor = None if outer == "Add" else second if inner == "Add" else both
        return _in_range(factor, both if inner == "Add" else None)

    return pattern, *_merge(found)


def _is_rounded(value: Value, steps: int = 2) -> bool:
    """Whether a quotient decides ties: it is rounded, at most a zero point later."""
    for node in value.consumers():
        if node.op_type in ("Clip", "Round", "Ceil", "Floor"):
            return True
        if steps > 1 and node.op_type in ("Add", "Sub") and _is_rounded(node.outputs[0], 1):
            return True
    return False


def _is_tested(value: Value, steps: int = 8) -> bool:
    """Whether floats are held against others for equality, which any rounding decides."""
    return any(
        node.op_type == "Equal"
        or (steps > 1 and node.op_type in _AFFINE and _is_tested(node.outputs[0], steps - 1))
        for node in value.consumers()
    )


def _single(kind: str) -> tuple[Any, Any, Any]:
    """Write a difference as a sum, and an exact quotient as a product."""

    def pattern(op: Op, x: Var, a: Var) -> Var:
        return getattr(op, kind)(x, a)

    def found(a: Value) -> _Constants | None:
        array = _wide(a, kind)
        if array is None or kind == "Sub":
            return None if array is None else (None, array)
        # The quotient by a power of two is the product by another one.
        powers = np.abs(np.frexp(array)[0]) == 0.5
        return _in_range(array, None) if powers.all() else None

    return pattern, *_merge(found)


def _swapped(kind: str) -> tuple[Any, Any, Any]:
    """Put the constant second."""

    def pattern(op: Op, x: Var, a: Var) -> Var:
        return getattr(op, kind)(a, x)

    def found(a: Value) -> _Constants | None:
        array = floats(a)
        if array is None:
            return None
        return (array, None) if kind == "Mul" else (None, array)

    return pattern, *_merge(found)


def _negation() -> tuple[Any, Any, Any]:
    """Write a negation as a product."""

    def pattern(op: Op, x: Var) -> Var:
        return op.Neg(x)

    def check(context: Any, x: Value) -> bool:
        return x.dtype == ir.DataType.FLOAT and floats(x) is None

    def rewrite(op: Op, x: Value) -> Value:
        made: Value = op.Mul(x, constant(op, np.array(-1)))
        return made

    return pattern, check, rewrite


def _difference() -> tuple[Any, Any, Any]:
    """Write the negation of a difference as the other difference."""

    def pattern(op: Op, x: Var, y: Var) -> Var:
        return op.Neg(op.Sub(x, y))

    def check(context: Any, **_: Any) -> bool:
        return True

    def rewrite(op: Op, x: Value, y: Value) -> Value:
        made: Value = op.Sub(y, x)
        return made

    return pattern, check, rewrite


def _like(left: str, right: str) -> tuple[Any, Any, Any]:
    """Merge two terms of one value, each a product (``a`` or ``b``) or the value itself."""

    def pattern(op: Op, x: Var, a: Var, b: Var) -> Var:
        factors = {"a": a, "b": b}
        return op.Add(*(op.Mul(x, factors[n]) if n else x for n in (left, right)))

    def found(**factors: Value | None) -> _Constants | None:
        known = [floats(value) for value in factors.values() if value is not None]
        wide = [array.astype(np.float64) for array in known if array is not None]
        if len(wide) < len(known) or any(array.size == 0 for array in wide):
            return None
        first, second = (*wide, np.ones(()))[:2]
        try:
            both = first + second
        except ValueError:
            return None  # they do not broadcast with each other
        large = np.abs(both) >= np.maximum(np.abs(first), np.abs(second)) / 2
        fits = both.size <= max(first.size, second.size)
        return _in_range(both, None) if fits and large.all() and both.all() else None

    return pattern, *_merge(found)


def _merge(found: Any) -> tuple[Any, Any]:
    def check(context: Any, x: Value, **constants: Value) -> bool:
        return floats(x) is None and found(**constants) is not None

    def rewrite(op: Op, x: Value, **constants: Value) -> Value:
        factor, term = found(**constants)
        if factor is not None:
            x = op.Mul(x, constant(op, factor))
        return x if term is None else op.Add(x, constant(op, term))

    return check, rewrite


def _wide(value: Value, kind: str) -> Array | None:
    """Return what is added or multiplied, in double precision."""
    array = floats(value)
    if array is None or array.size == 0 or (kind in ("Mul", "Div") and not array.all()):
        return None
    wide = array.astype(np.float64)
    return -wide if kind == "Sub" else 1 / wide if kind == "Div" else wide


def _in_range(factor: Array | None, term: Array | None) -> _Constants | None:
    """Return constants that float32 holds with all of its digits."""
    for array in (factor, term):
        if array is not None:
            sizes = np.abs(array)
            if ((sizes > _LARGEST) | ((sizes < 1 / _LARGEST) & (array != 0))).any():
                return None
    return factor, term


_LARGEST = 2.0**100
_AFFINE = frozenset(("Add", "Div", "Mul", "Neg", "Sub"))

_RULES = [
    _pair("Add", "Add"),
    _pair("Mul", "Mul"),
    _pair("Add", "Mul"),
    _pair("Div", "Mul"),
    _pair("Add", "Div"),
    _single("Sub"),
    _single("Div"),
    _swapped("Add"),
    _swapped("Mul"),
    _pair("Mul", "Div"),
    _difference(),
    _negation(),
    _like("a", "b"),
    _like("a", ""),
    _like("", "a"),
]
