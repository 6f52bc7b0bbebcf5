"""Replace a quantiser by rounding and arithmetic."""

from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.passes.base import Op, Value
from onnx_passes.passes.common.matches import node_of
from onnx_passes.passes.common.rules import RulePass, TermRule, Values
from onnx_passes.passes.hints import Hints
from onnx_passes.passes.quantised._quantised_hints import quantiser
from onnx_passes.passes.quantised._quantisers import Quantiser, quantiser_of, quantisers
from onnx_passes.passes.streamline._rule_constants import constant, floats
from onnx_passes.plain import PlainDict


@passes.verify.equality
@passes.register()
class InlineQonnx(RulePass):
    """Replace a quantiser by rounding and arithmetic.

    Before: ``Quant(x, scale, zero, bits)``, ``BipolarQuant(x, scale)``
    After:  ``(Round(Clip(x / scale + zero, low, high)) - zero) * scale``, without the sums if
            ``zero`` is 0; ``Where(x >= 0, 1, -1) * scale``; of a constant, its integers
            times ``scale``

    Sound because this is how QONNX defines them, in every rounding mode; the clamp comes
    before the rounding. A sum with 0 changes the sign of a zero only.

    Leaves alone: opsets before 12; parameters that are computed; fewer than two levels, as of
    0 bits; every other quantiser.
    """

    hints: ClassVar[Hints] = {"*": quantiser("s", "z", "b")}

    def table(self) -> list[TermRule]:
        return _RULES


def _find(v: Values) -> Quantiser | None:
    found = quantiser_of(node_of(v["y"]))
    fits = found is not None and found.mode in _ROUNDINGS and found.low < found.high
    return found if fits else None


def _inline(op: Op, v: Values, found: Quantiser) -> Value:
    weights = floats(v["x"])
    if weights is not None and found.mode in _ARRAYS:
        # Integers of weights are constants at once, with their factor behind.
        return op.Mul(constant(op, _levels(weights, found)), v["s"])
    if found.node.op_type == "BipolarQuant":
        return op.Mul(_two_levels(op, v["x"]), v["s"])
    shifted = bool(found.zero.any())
    q = op.Div(v["x"], v["s"])
    q = op.Add(q, v["z"]) if shifted else q
    level = _two_levels(op, q) if found.bipolar else _round(op, q, found)
    level = op.Sub(level, v["z"]) if shifted else level
    result = op.Mul(level, v["s"])
    return result


def _levels(weights: Array, found: Quantiser) -> Array:
    """Return the integers of weights less the zero point, as the operators round them."""
    q = weights / found.scale + found.zero
    if found.bipolar:
        return np.where(q >= 0, np.float32(1), np.float32(-1)) - found.zero
    low, high = np.float32(found.low), np.float32(found.high)
    rounded: Array = _ARRAYS[found.mode](np.clip(q, low, high)) - found.zero
    return rounded


def _round(op: Op, q: Value, found: Quantiser) -> Value:
    clipped = op.Clip(q, constant(op, found.low), constant(op, found.high))
    return _ROUNDINGS[found.mode](op, clipped)


def _two_levels(op: Op, q: Value) -> Value:
    return op.Where(op.GreaterOrEqual(q, constant(op, 0)), constant(op, 1), constant(op, -1))


def _make_sign(op: Op, x: Value, size: Value) -> Value:
    return op.Mul(op.Sign(x), size)


def _half(op: Op) -> Value:
    return constant(op, 0.5)


_ROUNDINGS: PlainDict = {
    "ROUND": lambda op, x: op.Round(x),
    "HALF_EVEN": lambda op, x: op.Round(x),
    "CEIL": lambda op, x: op.Ceil(x),
    "FLOOR": lambda op, x: op.Floor(x),
    "UP": lambda op, x: _make_sign(op, x, op.Ceil(op.Abs(x))),
    "DOWN": lambda op, x: _make_sign(op, x, op.Floor(op.Abs(x))),
    "ROUND_TO_ZERO": lambda op, x: _make_sign(op, x, op.Floor(op.Abs(x))),
    "HALF_UP": lambda op, x: _make_sign(op, x, op.Floor(op.Add(op.Abs(x), _half(op)))),
    "HALF_DOWN": lambda op, x: _make_sign(op, x, op.Ceil(op.Sub(op.Abs(x), _half(op)))),
}

_ARRAYS: Mapping[str, Callable[[Array], Array]] = {
    **dict.fromkeys(("ROUND", "HALF_EVEN"), np.rint),
    **dict.fromkeys(("DOWN", "ROUND_TO_ZERO"), np.trunc),
    "CEIL": np.ceil,
    "FLOOR": np.floor,
}
"""The modes that constants are rounded by."""

_RULES = [
    TermRule(place, _find, _inline, since=12) for place in quantisers("x", "s", "z", "b")
]
