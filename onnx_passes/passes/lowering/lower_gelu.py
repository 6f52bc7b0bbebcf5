"""Lower Gelu to Erf, or to Tanh."""

import math

import numpy as np

from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var
from onnx_passes.passes.lowering._lowering_pass import LoweringPass, Primitives, Site

# ONNX's definition holds these in single precision, also where it is for doubles.
CUBIC = float(np.float32(0.044715))
SLOPE = math.sqrt(float(np.float32(2 / math.pi)))


@passes.verify.tolerance
@passes.register("lower")
class LowerGelu(LoweringPass):
    """Lower Gelu to Erf, or to Tanh.

    Before: ``Gelu(x)``, or ``Gelu<approximate = "tanh">(x)``
    After:  ``x * 0.5 * (1 + Erf(x / sqrt(2)))``, or
            ``x * 0.5 * (1 + Tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)))``

    Sound because this is how the operator is defined. Half precision is computed in single
    precision, since sums cancel. The contract is a tolerance: engines round their kernels in
    another way, and the formula of minus infinity is NaN.

    Leaves alone: nodes whose type is not known, as in functions.
    """

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Gelu(x, _outputs=["y"])

    def lowered(self, to: Primitives, site: Site) -> Value:
        wide = to.widened()
        x = wide.cast(site.given(0), to.dtype)
        if site.text("approximate", "none") == "none":
            curve = wide.node("Erf", wide.node("Div", x, wide.number(math.sqrt(2))))
        else:
            square = wide.node("Mul", wide.node("Mul", x, x), wide.number(CUBIC))
            inner = wide.node("Add", x, wide.node("Mul", square, x))
            curve = wide.node("Tanh", wide.node("Mul", inner, wide.number(SLOPE)))
        raised = wide.node("Add", curve, wide.number(1.0))
        return to.cast(
            wide.node("Mul", wide.node("Mul", x, wide.number(0.5)), raised), wide.dtype
        )
