"""Lower LogSoftmax to Exp, without overflow."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var
from onnx_passes.passes.lowering._lowering_pass import FLOATS, Primitives, Site, SoftmaxPass


@passes.verify.tolerance
@passes.register("lower")
class LowerLogSoftmax(SoftmaxPass):
    """Lower LogSoftmax to Exp, without overflow.

    Before: ``LogSoftmax<axis>(x)``
    After:  ``s - Log(ReduceSum(Exp(s)))`` with ``s = x - ReduceMax(x)``, along ``axis``

    Sound because the operator does not change when a number is added to all that it is over,
    and less their maximum Exp is at most 1. Before opset 13 it is over all axes from ``axis``
    on. Half precision is computed in single precision. The contract is a tolerance: engines
    sum up in another order.

    Leaves alone: doubles, which ``lower-functions`` lowers, since ONNX Runtime's kernel makes
    numbers of NaN; nodes whose type is not known, as in functions, and before opset 13 those
    whose rank is not known or 0, or which are over no axis.
    """

    dtypes = FLOATS - {ir.DataType.DOUBLE}

    def pattern(self, op: Op, x: Var) -> Var:
        return op.LogSoftmax(x, _outputs=["y"])

    def lowered(self, to: Primitives, site: Site) -> Value:
        wide = to.widened()
        low, _, total = self.shifted(wide, site)
        return to.cast(to.node("Sub", low, to.node("Log", total)), wide.dtype)
