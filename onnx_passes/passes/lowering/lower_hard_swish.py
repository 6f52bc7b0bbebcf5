"""Lower HardSwish to Min and Max."""

from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var
from onnx_passes.passes.lowering._lowering_pass import LoweringPass, Primitives, Site


@passes.verify.tolerance
@passes.register("lower")
class LowerHardSwish(LoweringPass):
    """Lower HardSwish to Min and Max.

    Before: ``HardSwish(x)``
    After:  ``x * (Max(0, Min(6, x + 3)) / 6)``

    Sound because this is how the operator is defined; the sum is exact where the result comes
    near 0. The contract is a tolerance: engines may round in another way.

    Leaves alone: nodes whose type is not known, as in functions.
    """

    def pattern(self, op: Op, x: Var) -> Var:
        return op.HardSwish(x, _outputs=["y"])

    def lowered(self, to: Primitives, site: Site) -> Value:
        x = site.given(0)
        capped = to.node("Min", to.node("Add", x, to.number(3.0)), to.number(6.0))
        bent = to.node("Max", capped, to.number(0.0))
        return to.node("Mul", x, to.node("Div", bent, to.number(6.0)))
