"""Compute LeakyRelu by a choice."""

from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var
from onnx_passes.passes.lowering._base import LoweringPass, Site
from onnx_passes.passes.lowering._primitives import Primitives


@passes.verify.tolerance
@passes.register()
@passes.register("lower")
class LowerLeakyRelu(LoweringPass):
    """Compute LeakyRelu by a choice.

    Before: ``LeakyRelu<alpha>(x)``
    After:  ``Where(x < 0, alpha * x, x)``

    Sound because this is how the operator is defined. The contract is a tolerance: engines
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
        result = wide.node("Where", negative, wide.node("Mul", x, wide.number(alpha)), x)
        return to.cast(result, wide.dtype)
