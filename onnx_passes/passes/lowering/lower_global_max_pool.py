"""Lower GlobalMaxPool to ReduceMax."""

from onnx_passes import passes
from onnx_passes.passes.base import Op, Var
from onnx_passes.passes.lowering._windows import GlobalPool, Maximum


@passes.verify.tolerance
@passes.register("lower")
class LowerGlobalMaxPool(Maximum, GlobalPool):
    """Lower GlobalMaxPool to ReduceMax.

    Before: ``GlobalMaxPool(x)``
    After:  ``ReduceMax(x)`` over all axes but the first two

    Sound because this is how the operator is defined. Half precision is computed in single
    precision. The contract is a tolerance: of nothing but minus infinity the maximum is minus
    infinity, and ONNX Runtime's kernel for single precision gives the lowest finite number.

    Leaves alone: nodes without ``assume_no_nan``, except where the pipeline has keys of the
    seed system; those whose type or rank is not known, as in
    functions; inputs without spatial axes, and those in which one is empty.

    Attributes:
        assume_no_nan: Whether nodes may be lowered, since no float is NaN. ReduceMax hands NaN
            on; ONNX Runtime's GlobalMaxPool passes over it, or yields the lowest number.
    """

    reduction = "ReduceMax"

    def pattern(self, op: Op, x: Var) -> Var:
        return op.GlobalMaxPool(x, _outputs=["y"])
