"""Lower Mish to Tanh, Exp and Log, without overflow."""

from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var
from onnx_passes.passes.lowering._lowering_pass import LoweringPass, Primitives, Site


@passes.verify.tolerance
@passes.register("lower")
class LowerMish(LoweringPass):
    """Lower Mish to Tanh, Exp and Log, without overflow.

    Before: ``Mish(x)``
    After:  ``x * Tanh(Max(x, 0) + Log(1 + Exp(-Abs(x))))``

    Sound because Mish is ``x * tanh(softplus(x))``, and the sum is Softplus, whose
    lost digits are put back. Half precision
    is computed in single precision, since sums cancel. The contract is a tolerance: engines
    may round their kernel in another way.

    Leaves alone: nodes whose type is not known, as in functions.
    """

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Mish(x, _outputs=["y"])

    def lowered(self, to: Primitives, site: Site) -> Value:
        wide = to.widened()
        x = wide.cast(site.given(0), to.dtype)
        result = wide.node("Mul", x, wide.node("Tanh", wide.softplus(x)))
        return to.cast(result, wide.dtype)
