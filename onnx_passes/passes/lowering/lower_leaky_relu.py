"""Lower LeakyRelu to a choice."""

from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var
from onnx_passes.passes.lowering._lowering_pass import LoweringPass, Primitives, Site


@passes.verify.tolerance
@passes.register("lower")
class LowerLeakyRelu(LoweringPass):
    """Lower LeakyRelu to a choice.

    Before: ``LeakyRelu<alpha>(x)``
    After:  ``x * Where(x < 0, alpha, 1)``

    Sound because a product by 1 changes nothing. The product comes last: ONNX Runtime's
    Where turns the -0 of ``0 * x`` into 0. The contract is a tolerance: engines
    may hold alpha in another precision.

    Leaves alone: nodes whose type is not known, as in functions; opsets before 9, which
    have no Where.
    """

    since = 9

    def pattern(self, op: Op, x: Var) -> Var:
        return op.LeakyRelu(x, _outputs=["y"])

    def lowered(self, to: Primitives, site: Site) -> Value:
        alpha = site.number("alpha", 0.01)
        wide = to.exact(alpha)
        x = wide.cast(site.given(0), to.dtype)
        negative = wide.node("Less", x, wide.number(0.0))
        slope = wide.node("Where", negative, wide.number(alpha), wide.number(1.0))
        return to.cast(wide.node("Mul", x, slope), wide.dtype)
