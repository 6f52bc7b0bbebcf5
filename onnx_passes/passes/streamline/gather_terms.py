"""Move factors and terms together, factors first."""

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.passes.base import Op, Value
from onnx_passes.passes.common.matches import keeps_digits
from onnx_passes.passes.common.rules import RulePass, TermCall, TermRule, Values, call, law
from onnx_passes.passes.common.shapes import dims_of
from onnx_passes.passes.streamline._integer_ranges import (
    cancels,
    feeds_product,
    integer_range,
    needs_zero,
)
from onnx_passes.passes.streamline._rule_constants import constant, floats


@passes.verify.tolerance
@passes.register("algebraic")
class GatherTerms(RulePass):
    """Move factors and terms together, factors first.

    Before: ``Mul(Add(x, a), b)``, ``Add(Add(x, a), b)``, ``Mul(Mul(x, a), b)``,
            ``Mul(Div(x, a), b)``, ``Div(Add(x, a), b)``, ``Div(Mul(x, a), b)``,
            ``Sub(x, a)``, ``Add(a, x)``, ``Mul(a, x)``; ``Div(x, a)`` by a power of two, or
            in front of a product;
            ``Neg(x)``, ``Neg(Sub(x, y))``; ``Add(Mul(x, a), Mul(x, b))``,
            ``Add(Mul(x, a), x)``; ``Add(x, 0)``
    After:  ``Add(Mul(x, b), a * b)``, ``Add(x, a + b)``, ``Mul(x, a * b)``,
            ``Mul(x, b / a)``, ``Add(Mul(x, 1 / b), a / b)``, ``Mul(x, a / b)``,
            ``Add(x, -a)``, ``Add(x, a)``, ``Mul(x, a)``; ``Mul(x, 1 / a)``;
            ``Mul(x, -1)``, ``Sub(y, x)``; ``Mul(x, a + b)``, ``Mul(x, a + 1)``; ``x``

    Sound because the laws of fields hold over the reals. The contract is a tolerance: sums
    and products of floats round at other places.

    Leaves alone: constants that are computed, that are not finite, or that callers may
    override; factors of 0; results that leave the range of float32; other types; other
    divisions alone, and those in front of a rounding, where the quotient decides ties; a
    factor behind a term that is padded with zeros, which factors alone pass; pairs in front of
    Equal, which each rounding decides; terms over 2^12 that cancel each other, as those that
    round, and like terms that do; a term that cancels most of an integer, as -128 does
    behind 8 bits, in front of a factor. Of terms of integers that cancel each other nothing
    is left.
    """

    needs = ("shape-inference",)

    def table(self) -> list[TermRule]:
        return _RULES


_Constants = tuple[Array | None, Array | None]


def _gather(before: TermCall, find: Callable[[Values], _Constants | None]) -> TermRule:
    """Return the rule that an expression is ``x * factor + term``, if ``x`` is computed."""

    def make(op: Op, values: Values, found: _Constants) -> Value:
        made = values["x"]
        for kind, array in zip(("Mul", "Add"), found, strict=True):
            if array is not None and not _is_neutral(kind, array, values["x"]):
                made = getattr(op, kind)(made, constant(op, array))
        return made

    return TermRule(before, lambda v: find(v) if floats(v["x"]) is None else None, make)


def _is_neutral(kind: str, array: Array, x: Value) -> bool:
    """Whether a term is 0 or a factor is 1, and gives the value no other shape."""
    dims = dims_of(x)
    if dims is None or array.ndim > len(dims) or (array != (kind == "Mul")).any():
        return False
    pairs = zip(reversed(array.shape), reversed(dims), strict=False)
    return all(size in (1, dim) for size, dim in pairs)


def _pair(inner: str, outer: str) -> TermRule:
    """Merge two operators with constants."""

    def find(v: Values) -> _Constants | None:
        if (outer == "Div" and _is_rounded(v["y"])) or _is_tested(v["y"]):
            return None
        if inner == "Add" and needs_zero(v["y"]):
            return None
        first, second = _wide(v["a"], inner), _wide(v["b"], outer)
        both = _together(np.add if outer == "Add" else np.multiply, first, second)
        if both is None or first is None or second is None:
            return None
        if inner == "Add" and _loses(v, outer, first, second):
            return None
        factor = None if outer == "Add" else second if inner == "Add" else both
        term = both if inner == "Add" else None
        return _in_range(factor, term)

    return _gather(call(outer, call(inner, "x", "a", result="t"), "b", result="y"), find)


_ROUNDS = 2.0**12
"""Terms over which a sum keeps a few bits of a fraction: some round by it on purpose."""


def _loses(v: Values, outer: str, first: Array, second: Array) -> bool:
    """Whether a term cancels integers, or brings back what another has rounded off."""
    if outer != "Add":
        return cancels(v["x"], first)
    between = integer_range(v["t"])
    if between is not None and between.exact and integer_range(v["b"]) is not None:
        return False
    size = max(float(np.abs(term).max(initial=0)) for term in (first, second))
    rounds = size > _ROUNDS and not keeps_digits(first + second, first, second)
    return rounds or cancels(v["x"], first)


def _nothing(v: Values) -> _Constants | None:
    array = floats(v["a"])
    is_nothing = array is not None and _is_neutral("Add", array, v["x"])
    return (None, None) if is_nothing else None


def _together(
    combine: Callable[[Array, Array], Array], first: Array | None, second: Array | None
) -> Array | None:
    """Combine two constants; None if they become bigger, or do not broadcast."""
    if first is None or second is None:
        return None
    try:
        both: Array = combine(first, second)
    except ValueError:
        return None
    return both if both.size <= max(first.size, second.size) else None


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


def _single(kind: str) -> TermRule:
    """Write a difference as a sum, and an exact quotient as a product."""

    def find(v: Values) -> _Constants | None:
        array = _wide(v["a"], kind)
        if array is None or kind == "Sub":
            return None if array is None else (None, array)
        # The quotient by a power of two is the product by another one.
        powers = np.abs(np.frexp(array)[0]) == 0.5
        return _in_range(array, None) if powers.all() or feeds_product(v["y"]) else None

    return _gather(call(kind, "x", "a", result="y"), find)


def _swap(kind: str) -> TermRule:
    """Put the constant second."""

    def find(v: Values) -> _Constants | None:
        array = floats(v["a"])
        if array is None:
            return None
        return (array, None) if kind == "Mul" else (None, array)

    return _gather(call(kind, "a", "x"), find)


def _negative(v: Values) -> _Constants | None:
    return (np.array(-1), None) if v["x"].dtype == ir.DataType.FLOAT else None


def _merge_like(left: str, right: str) -> TermRule:
    """Merge two terms of one value, each a product (``a`` or ``b``) or the value itself."""

    def find(v: Values) -> _Constants | None:
        known = [floats(v[name]) for name in (left, right) if name]
        wide = [array.astype(np.float64) for array in known if array is not None]
        if len(wide) < len(known) or any(array.size == 0 for array in wide):
            return None
        first, second = (*wide, np.ones(()))[:2]
        both = _together(np.add, first, second)
        if both is None:
            return None
        kept = keeps_digits(both, first, second) and both.all()
        return _in_range(both, None) if kept else None

    terms = (call("Mul", "x", name) if name else "x" for name in (left, right))
    return _gather(call("Add", *terms), find)


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
    _swap("Add"),
    _swap("Mul"),
    _pair("Mul", "Div"),
    law(call("Neg", call("Sub", "x", "y")), call("Sub", "y", "x")),
    _gather(call("Neg", "x"), _negative),
    _merge_like("a", "b"),
    _merge_like("a", ""),
    _merge_like("", "a"),
    _gather(call("Add", "x", "a"), _nothing),
]
