"""Replace a quantiser by rounding and arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes._support.matches import node_of, opset_at
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value, Var
from onnx_passes.passes.quantised._attributes import CALLS, Quantiser, quantiser_of


@passes.verify.equality
@passes.register()
class InlineQonnx(Transformation, RewriteRuleSetPass):
    """Replace a quantiser by rounding and arithmetic.

    Before: ``Quant(x, scale, zero, bits)``, ``BipolarQuant(x, scale)``
    After:  ``(Round(Clip(x / scale + zero, low, high)) - zero) * scale``, without the sums if
            ``zero`` is 0; ``Where(x >= 0, 1, -1) * scale``

    Sound because this is how QONNX defines them, in every rounding mode; the clamp comes
    before the rounding. A sum with 0 changes the sign of a zero only.

    Leaves alone: opsets before 12; parameters that are computed; every other quantiser.
    """

    def pattern(self) -> list[Any]:
        return [_Call(*place) for place in CALLS]

    def check(self) -> list[Any]:
        return [_is_known for _ in CALLS]

    def rewrite(self) -> list[Any]:
        return [_inlined for _ in CALLS]


class _Call:
    def __init__(self, kind: str, domain: str) -> None:
        self.kind, self.domain = kind, domain

    def __call__(self, op: Op, x: Var, s: Var, z: Var, b: Var) -> Var:
        inputs = (x, s) if self.kind == "BipolarQuant" else (x, s, z, b)
        return getattr(op, self.kind)(*inputs, _domain=self.domain, _outputs=["y"])


def _is_known(context: Any, y: Value, **_: Any) -> bool:
    found = quantiser_of(node_of(y))
    return found is not None and found.mode in _ROUNDINGS and opset_at(context) >= 12


def _inlined(op: Op, x: Value, s: Value, y: Value, z: Value | None = None, **_: Any) -> Value:
    found = quantiser_of(node_of(y))
    assert found is not None, "check has seen to it"
    if found.node.op_type == "BipolarQuant":
        result: Value = op.Mul(_two_levels(op, x), s)
        return result
    shifted = bool(found.zero.any())
    q = op.Div(x, s)
    q = op.Add(q, z) if shifted else q
    level = _two_levels(op, q) if found.bipolar else _rounded(op, q, found)
    level = op.Sub(level, z) if shifted else level
    result = op.Mul(level, s)
    return result


def _rounded(op: Op, q: Value, found: Quantiser) -> Value:
    clipped = op.Clip(q, _number(op, found.low), _number(op, found.high))
    made: Value = _ROUNDINGS[found.mode](op, clipped)
    return made


def _two_levels(op: Op, q: Value) -> Value:
    made: Value = op.Where(
        op.GreaterOrEqual(q, _number(op, 0)), _number(op, 1), _number(op, -1)
    )
    return made


def _number(op: Op, value: float) -> Value:
    made: Value = op.Constant(value=ir.tensor(np.float32(value)))
    return made


def _signed(op: Op, x: Value, size: Value) -> Value:
    made: Value = op.Mul(op.Sign(x), size)
    return made


def _half(op: Op) -> Value:
    return _number(op, 0.5)


_ROUNDINGS: dict[str, Any] = {
    "ROUND": lambda op, x: op.Round(x),
    "HALF_EVEN": lambda op, x: op.Round(x),
    "CEIL": lambda op, x: op.Ceil(x),
    "FLOOR": lambda op, x: op.Floor(x),
    "UP": lambda op, x: _signed(op, x, op.Ceil(op.Abs(x))),
    "DOWN": lambda op, x: _signed(op, x, op.Floor(op.Abs(x))),
    "ROUND_TO_ZERO": lambda op, x: _signed(op, x, op.Floor(op.Abs(x))),
    "HALF_UP": lambda op, x: _signed(op, x, op.Floor(op.Add(op.Abs(x), _half(op)))),
    "HALF_DOWN": lambda op, x: _signed(op, x, op.Ceil(op.Sub(op.Abs(x), _half(op)))),
}
