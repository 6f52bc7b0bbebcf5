"""Replace the formula of HardSwish by the operator."""

from collections.abc import Iterator

from onnx_passes import passes
from onnx_passes.passes.base import MatchContext, Op, Rule, Value, Var
from onnx_passes.passes.common.matches import (
    about,
    holds,
    node_of,
    operand,
    opset_at,
    single_or_half,
)


@passes.verify.tolerance
@passes.register("fuse")
class FuseHardSwish(passes.Transformation, passes.RewriteRuleSetPass):
    """Replace the formula of HardSwish by the operator.

    Before: ``Mul(x, HardSigmoid<alpha = 1/6, beta = 0.5>(x))``,
            ``Div(Mul(x, Clip(Add(x, 3), 0, 6)), 6)``
    After:  ``HardSwish(x)``

    Sound because that is how opset 14 defines HardSwish. The contract is a tolerance: the
    division by 6 is done at another place, and exporters write 1/6 with seven digits.

    Leaves alone: opsets before 14; other slopes, offsets and bounds; numbers that are
    computed, that callers may override, or that make the tensor bigger; types for which
    engines have no HardSwish, or that are not known; values between that something else reads.
    """

    needs = ("shape-inference",)
    exclusive = True
    commute = True

    def rules(self) -> Iterator[Rule]:
        def divided(op: Op, x: Var, b: Var, low: Var, high: Var, s: Var) -> Var:
            return op.Div(op.Mul(x, op.Clip(op.Add(x, b), low, high)), s)

        def scaled(op: Op, x: Var, b: Var, low: Var, high: Var, s: Var) -> Var:
            return op.Mul(op.Mul(x, op.Clip(op.Add(x, b), low, high)), s)

        yield Rule(
            lambda op, x: op.Mul(x, op.HardSigmoid(x, _outputs=["t"])),
            _hard_swish,
            _is_product,
        )
        yield Rule(divided, _hard_swish, _is_divided)
        yield Rule(scaled, _hard_swish, _is_scaled)


def _is_product(context: MatchContext, x: Value, t: Value, **_: object) -> bool:
    get = node_of(t).attributes.get_float
    line = about(get("alpha", 0.2), 1 / 6) and about(get("beta", 0.5), 0.5)
    return opset_at(context) >= 14 and line and single_or_half(x)


def _is_divided(
    context: MatchContext, x: Value, b: Value, low: Value, high: Value, s: Value, **_: object
) -> bool:
    numbers = holds(b, 3) and holds(low, 0) and holds(high, 6) and holds(s, 6)
    return numbers and opset_at(context) >= 14 and _meets(x, b, s)


def _is_scaled(
    context: MatchContext, x: Value, b: Value, low: Value, high: Value, s: Value, **_: object
) -> bool:
    # 1/6 as the source spells it: certificates read the numbers of a guard there.
    numbers = holds(b, 3) and holds(low, 0) and holds(high, 6) and holds(s, 0.16666667)
    return numbers and opset_at(context) >= 14 and _meets(x, b, s)


def _meets(x: Value, b: Value, s: Value) -> bool:
    return None not in (operand(x, b), operand(x, s)) and single_or_half(b, x)


def _hard_swish(op: Op, x: Value, **_: object) -> Value:
    return op.HardSwish(x)
