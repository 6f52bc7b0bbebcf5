"""Replace Softplus, Tanh and their product by one Mish."""

from onnx_passes import passes
from onnx_passes.passes.base import MatchContext, Op, Value, Var
from onnx_passes.passes.common.matches import opset_at


@passes.verify.tolerance
@passes.register("fuse")
class FuseMish(passes.Transformation, passes.RewriteRulePass):
    """Replace Softplus, Tanh and their product by one Mish.

    Before: ``Mul(x, Tanh(Softplus(x)))``
    After:  ``Mish(x)``

    Sound because that is how opset 18 defines Mish. The contract is a tolerance: an engine
    may have a kernel of its own for it.

    Leaves alone: opsets before 18; a Softplus that is spelt out as ``Log(Exp(x) + 1)``, which
    overflows where Softplus does not; values between that something else reads.
    """

    exclusive = True
    commute = True

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Mul(x, op.Tanh(op.Softplus(x)))

    def check(self, context: MatchContext, x: Value) -> bool:
        return opset_at(context) >= 18

    def rewrite(self, op: Op, x: Value) -> Value:
        return op.Mish(x)
