"""Lower Swish (SiLU) to Sigmoid."""

from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var
from onnx_passes.passes.lowering._lowering_pass import LoweringPass, Primitives, Site


@passes.verify.tolerance
@passes.register("lower")
class LowerSwish(LoweringPass):
    """Lower Swish (SiLU) to Sigmoid.

    Before: ``Swish<alpha>(x)``
    After:  ``x * Sigmoid(alpha * x)``

    Sound because this is how the operator is defined. The contract is a tolerance: engines
    may round their kernel in another way.

    Leaves alone: nodes whose type is not known, as in functions.
    """

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Swish(x, _outputs=["y"])

    def lowered(self, to: Primitives, site: Site) -> Value:
        alpha = site.number("alpha", 1.0)
        wide = to.exact(alpha)
        x = wide.cast(site.given(0), to.dtype)
        scaled = x if alpha == 1.0 else wide.node("Mul", x, wide.number(alpha))
        return to.cast(wide.node("Mul", x, wide.node("Sigmoid", scaled)), wide.dtype)
