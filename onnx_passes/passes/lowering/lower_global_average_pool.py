"""Lower GlobalAveragePool to ReduceMean."""

from onnx_passes import passes
from onnx_passes.passes.base import Op, Var
from onnx_passes.passes.lowering._windows import GlobalPool


@passes.verify.tolerance
@passes.register("lower")
class LowerGlobalAveragePool(GlobalPool):
    """Lower GlobalAveragePool to ReduceMean.

    Before: ``GlobalAveragePool(x)``
    After:  ``ReduceMean(x)`` over all axes but the first two

    Sound because this is how the operator is defined. Half precision is computed in single
    precision. The contract is a tolerance: engines sum up in another order.

    Leaves alone: nodes whose type or rank is not known, as in functions; inputs without
    spatial axes, and those in which one is empty.
    """

    reduction = "ReduceMean"

    def pattern(self, op: Op, x: Var) -> Var:
        return op.GlobalAveragePool(x, _outputs=["y"])
