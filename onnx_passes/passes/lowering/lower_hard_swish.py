"""Compute HardSwish by Min and Max."""

from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var
from onnx_passes.passes.lowering._base import LoweringPass, Site
from onnx_passes.passes.lowering._primitives import Primitives


@passes.verify.tolerance
@passes.register()
@passes.register("lower")
class LowerHardSwish(LoweringPass):
    """Compute HardSwish by Min and Max.

    Before: ``HardSwish(x)``
    After:  ``x * Max(0, Min(1, x / 6 + 0.5))``

    Sound because this is how the operator is defined. The contract is a tolerance: 1/6 is
    rounded, and engines may round in another way.

    Leaves alone: nodes whose type is not known, as in functions.
    """

    def pattern(self, op: Op, x: Var) -> Var:
        return op.HardSwish(x, _outputs=["y"])

    def lowered(self, to: Primitives, site: Site) -> Value:
        x = site.given(0)
        return to.node("Mul", x, to.hard_sigmoid(x, 1 / 6, 0.5))
