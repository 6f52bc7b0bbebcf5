"""Put one HardSigmoid in the place of a line and a Clip."""

from typing import Any, ClassVar

from onnx_passes import passes
from onnx_passes.passes._support.activations import about, clips_between, operand
from onnx_passes.passes._support.activations import single_or_half as has_kernel
from onnx_passes.passes._support.matches import opset_at
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value, Var


@passes.verify.tolerance
@passes.register()
@passes.register("fuse")
class FuseHardSigmoid(Transformation, RewriteRuleSetPass):
    """Put one HardSigmoid in the place of a line and a Clip.

    Before: ``Div(Clip(Add(x, 3), 0, 6), 6)``, ``Clip(Add(Mul(x, 0.2), 0.5), 0, 1)``
    After:  ``HardSigmoid<alpha = 1/6, beta = 0.5>(x)``, ``HardSigmoid<0.2, 0.5>(x)``

    Sound because a HardSigmoid is a line between 0 and 1. The contract is a tolerance: slope
    and offset are divided by the scale beforehand, and rounded to 32 bits.

    Leaves alone: a Clip between other bounds than 0 and the scale; numbers that are computed,
    that callers may override, or that make the tensor bigger; types for which engines have no
    HardSigmoid, or that are not known; values between that something else reads.
    """

    requires: ClassVar[Any] = ("shape-inference",)
    exclusive = True
    commute = True

    def pattern(self) -> list[Any]:
        def divided(op: Op, x: Var, b: Var, s: Var) -> Var:
            t = op.Clip(op.Add(x, b), _allow_other_inputs=True, _outputs=["t"])
            return op.Div(t, s)

        def scaled(op: Op, x: Var, b: Var, s: Var) -> Var:
            t = op.Clip(op.Add(x, b), _allow_other_inputs=True, _outputs=["t"])
            return op.Mul(t, s)

        def line(op: Op, x: Var, s: Var, b: Var) -> Var:
            sum_ = op.Add(op.Mul(x, s), b)
            return op.Clip(sum_, _allow_other_inputs=True, _outputs=["t"])

        return [divided, scaled, line]

    def check(self) -> list[Any]:
        return [_check(line) for line in _LINES]

    def rewrite(self) -> list[Any]:
        return [_rewrite(line) for line in _LINES]


Line = tuple[float, float] | None


def _divided(b: float, s: float, high: float) -> Line:
    return (1 / s, b / s) if s > 0 and about(high, s) else None


def _scaled(b: float, s: float, high: float) -> Line:
    return (s, b * s) if s > 0 and about(high * s, 1) else None


def _plain(b: float, s: float, high: float) -> Line:
    return (s, b) if high == 1 else None


_LINES = (_divided, _scaled, _plain)


def _found(line: Any, x: Value, b: Value, s: Value, t: Value) -> Line:
    offset, scale, bounds = operand(x, b), operand(x, s), clips_between(t, b)
    if offset is None or scale is None or bounds is None or bounds[0] != 0:
        return None
    found: Line = line(offset, scale, bounds[1])
    return found


def _check(line: Any) -> Any:
    def check(context: Any, x: Value, b: Value, s: Value, t: Value, **_: Any) -> bool:
        if opset_at(context) < 6 or not has_kernel(b, x):
            return False
        return _found(line, x, b, s, t) is not None

    return check


def _rewrite(line: Any) -> Any:
    def rewrite(op: Op, x: Value, b: Value, s: Value, t: Value, **_: Any) -> Any:
        found = _found(line, x, b, s, t)
        assert found is not None, "check has seen to it"
        return op.HardSigmoid(x, alpha=found[0], beta=found[1])

    return rewrite
