"""Lower Softmax to Exp, without overflow."""

from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var
from onnx_passes.passes.lowering._lowering_pass import Primitives, Site, SoftmaxPass


@passes.verify.tolerance
@passes.register("lower")
class LowerSoftmax(SoftmaxPass):
    """Lower Softmax to Exp, without overflow.

    Before: ``Softmax<axis>(x)``
    After:  ``e / ReduceSum(e)`` with ``e = Exp(x - ReduceMax(x))``, along ``axis``

    Sound because the operator does not change when a number is added to all that it is over,
    and less their maximum Exp is at most 1. Before opset 13 it is over all axes from ``axis``
    on. Half precision is computed in single precision. The contract is a tolerance: engines
    sum up in another order.

    Leaves alone: nodes whose type is not known, as in functions, and before opset 13 those
    whose rank is not known or 0, or which are over no axis.
    """

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Softmax(x, _outputs=["y"])

    def lowered(self, to: Primitives, site: Site) -> Value:
        wide = to.widened()
        _, exponentials, total = self.shifted(wide, site)
        return to.cast(to.node("Div", exponentials, total), wide.dtype)
