"""Compute GlobalMaxPool by ReduceMax."""

from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var
from onnx_passes.passes.lowering._base import LoweringPass, Site
from onnx_passes.passes.lowering._primitives import Primitives


@passes.verify.tolerance
@passes.register()
@passes.register("lower")
class LowerGlobalMaxPool(LoweringPass):
    """Compute GlobalMaxPool by ReduceMax.

    Before: ``GlobalMaxPool(x)``
    After:  ``ReduceMax(x)`` over all axes but the first two

    Sound because this is how the operator is defined. Half precision is computed in single
    precision. The contract is a tolerance: engines do not agree on the maximum of a NaN.

    Leaves alone: nodes whose type or rank is not known, as in functions; inputs without
    spatial axes, and those in which one is empty.
    """

    def pattern(self, op: Op, x: Var) -> Var:
        return op.GlobalMaxPool(x, _outputs=["y"])

    def obstacle(self, site: Site) -> str | None:
        spatial = (site.dims() or [])[2:]
        return "it has no spatial axes" if not spatial or 0 in spatial else None

    def lowered(self, to: Primitives, site: Site) -> Value:
        wide, rank = to.widened(), site.rank()
        assert rank is not None, "an obstacle otherwise"
        x = wide.cast(site.given(0), to.dtype)
        return to.cast(wide.reduce("ReduceMax", x, range(2, rank)), wide.dtype)
