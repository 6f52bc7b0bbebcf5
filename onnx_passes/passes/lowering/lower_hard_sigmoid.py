"""Lower HardSigmoid to Min and Max."""

from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var
from onnx_passes.passes.lowering._lowering_pass import LoweringPass, Primitives, Site


@passes.verify.tolerance
@passes.register("lower")
class LowerHardSigmoid(LoweringPass):
    """Lower HardSigmoid to Min and Max.

    Before: ``HardSigmoid<alpha, beta>(x)``
    After:  ``Max(0, Min(1, alpha * x + beta))``

    Sound because this is how the operator is defined. Half precision is computed in single
    precision, since sums cancel. The contract is a tolerance: engines may round the product
    and the sum at once.

    Leaves alone: nodes whose type is not known, as in functions; opsets before 8, whose Min
    and Max do not broadcast.
    """

    since = 8

    def pattern(self, op: Op, x: Var) -> Var:
        return op.HardSigmoid(x, _outputs=["y"])

    def lowered(self, to: Primitives, site: Site) -> Value:
        alpha, beta = site.number("alpha", 0.2), site.number("beta", 0.5)
        wide = to.widened()
        x = wide.cast(site.given(0), to.dtype)
        line = wide.node("Add", wide.node("Mul", x, wide.number(alpha)), wide.number(beta))
        bent = wide.node("Max", wide.node("Min", line, wide.number(1.0)), wide.number(0.0))
        return to.cast(bent, wide.dtype)
