"""Lower Sigmoid to Exp."""

from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var
from onnx_passes.passes.lowering._lowering_pass import LoweringPass, Primitives, Site


@passes.verify.tolerance
@passes.register("lower")
class LowerSigmoid(LoweringPass):
    """Lower Sigmoid to Exp.

    Before: ``Sigmoid(x)``
    After:  ``1 / (1 + Exp(-x))``

    Sound because this is how the operator is defined; where Exp overflows, the quotient is
    0. Half precision is computed in single precision: its Exp overflows from 11.1 on, where
    Sigmoid still has digits. The contract is a tolerance: engines approximate Sigmoid with a
    kernel of its own.

    Leaves alone: nodes whose type is not known, as in functions.
    """

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Sigmoid(x, _outputs=["y"])

    def lowered(self, to: Primitives, site: Site) -> Value:
        wide = to.widened()
        return to.cast(wide.sigmoid(wide.cast(site.given(0), to.dtype)), wide.dtype)
