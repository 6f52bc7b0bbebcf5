"""Lower Softplus to Exp and Log, without overflow."""

from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var
from onnx_passes.passes.lowering._lowering_pass import LoweringPass, Primitives, Site


@passes.verify.tolerance
@passes.register("lower")
class LowerSoftplus(LoweringPass):
    """Lower Softplus to Exp and Log, without overflow.

    Before: ``Softplus(x)``
    After:  ``Max(x, 0) + Log(1 + Exp(-Abs(x)))``

    Sound because ``log(1 + exp(x))`` equals ``x + log(1 + exp(-x))``, and Exp is only asked
    for what is at most 0. The digits that the sum with 1 loses are put back. Half precision is
    computed in single precision, since sums cancel. The contract is a tolerance: sums are
    rounded in another order.

    Leaves alone: nodes whose type is not known, as in functions; opsets before 11, whose
    Equal takes no floats.
    """

    since = 11

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Softplus(x, _outputs=["y"])

    def lowered(self, to: Primitives, site: Site) -> Value:
        wide = to.widened()
        x = wide.cast(site.given(0), to.dtype)
        return to.cast(wide.softplus(x), wide.dtype)
