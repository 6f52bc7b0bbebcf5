"""Replace a line and a Clip by one HardSigmoid."""

from collections.abc import Iterator

import numpy as np

from onnx_passes import passes
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Rule, Transformation, Value, Var
from onnx_passes.passes.common.matches import holds, operand, scalar_of, single_or_half


@passes.verify.tolerance
@passes.register("fuse")
class FuseHardSigmoid(Transformation, RewriteRuleSetPass):
    """Replace a line and a Clip by one HardSigmoid.

    Before: ``Div(Clip(Add(x, 3), 0, 6), 6)``, ``Clip(Add(Mul(x, 0.2), 0.5), 0, 1)``
    After:  ``HardSigmoid<alpha = 1/6, beta = 0.5>(x)``, ``HardSigmoid<0.2, 0.5>(x)``

    Sound because a HardSigmoid is a line between 0 and 1. The contract is a tolerance: slope
    and offset are divided by the scale beforehand, and rounded to 32 bits.

    Leaves alone: a Clip between other bounds than 0 and 6 (1 without a division), or with
    bounds as attributes, before opset 11; numbers that are computed, that callers may
    override, or that make the tensor bigger; types for which engines have no HardSigmoid, or
    that are not known; values between that something else reads.
    """

    needs = ("shape-inference",)
    exclusive = True
    commute = True

    def rules(self) -> Iterator[Rule]:
        def divided(op: Op, x: Var, b: Var, low: Var, high: Var, s: Var) -> Var:
            return op.Div(op.Clip(op.Add(x, b), low, high), s)

        def scaled(op: Op, x: Var, b: Var, low: Var, high: Var, s: Var) -> Var:
            return op.Mul(op.Clip(op.Add(x, b), low, high), s)

        def line(op: Op, x: Var, b: Var, low: Var, high: Var, s: Var) -> Var:
            return op.Clip(op.Add(op.Mul(x, s), b), low, high)

        yield Rule(divided, _sixth, _is_divided)
        yield Rule(scaled, _sixth, _is_scaled)
        yield Rule(line, _line, _is_line)


def _is_divided(
    context: object, x: Value, b: Value, low: Value, high: Value, s: Value, **_: object
) -> bool:
    return _meets(x, b, s) and holds(low, 0) and holds(high, 6) and holds(s, 6)


def _is_scaled(
    context: object, x: Value, b: Value, low: Value, high: Value, s: Value, **_: object
) -> bool:
    # 1/6 as the source spells it: certificates read the numbers of a guard there.
    return _meets(x, b, s) and holds(low, 0) and holds(high, 6) and holds(s, 0.16666667)


def _is_line(
    context: object, x: Value, b: Value, low: Value, high: Value, s: Value, **_: object
) -> bool:
    return _meets(x, b, s) and holds(low, 0) and holds(high, 1)


def _meets(x: Value, b: Value, s: Value) -> bool:
    numbers = operand(x, b), operand(x, s)
    finite = all(number is not None and np.isfinite(number) for number in numbers)
    return finite and single_or_half(b, x)


def _sixth(op: Op, x: Value, b: Value, **_: object) -> Value:
    return op.HardSigmoid(x, alpha=1 / 6, beta=(scalar_of(b) or 0) / 6)


def _line(op: Op, x: Value, b: Value, s: Value, **_: object) -> Value:
    return op.HardSigmoid(x, alpha=scalar_of(s), beta=scalar_of(b))
