"""Lower InstanceNormalization to means."""

from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var
from onnx_passes.passes.lowering._lowering_pass import LoweringPass, Primitives, Site


@passes.verify.tolerance
@passes.register("lower")
class LowerInstanceNormalization(LoweringPass):
    """Lower InstanceNormalization to means.

    Before: ``InstanceNormalization<epsilon>(x, scale, bias)``
    After:  ``(x - mean) / Sqrt(ReduceMean((x - mean) ** 2) + epsilon) * scale + bias``, over
    all axes but the first two; scale and bias lie along the second

    Sound because this is how the operator is defined. Half precision is computed in single
    precision. The contract is a tolerance: engines sum up in another order.

    Leaves alone: nodes whose type or rank is not known, as in functions.
    """

    def pattern(self, op: Op, x: Var, scale: Var, bias: Var) -> Var:
        return op.InstanceNormalization(x, scale, bias, _outputs=["y"])

    def obstacle(self, site: Site) -> str | None:
        if (site.rank() or 0) < 3:
            return "it has no spatial axes, or none that are known"
        rows = site.rank(1) == site.rank(2) == 1
        return None if rows else "its scale and bias are not known to be rows"

    def lowered(self, to: Primitives, site: Site) -> Value:
        wide, rank = to.widened(), site.rank()
        assert rank is not None, "an obstacle otherwise"
        x = wide.cast(site.given(0), to.dtype)
        result = wide.normalized(x, range(2, rank), site.number("epsilon", 1e-5))
        scale, bias = (
            to.unsqueeze(wide.cast(site.given(k), to.dtype), range(1, rank - 1))
            for k in (1, 2)
        )
        result = wide.node("Add", wide.node("Mul", result, scale), bias)
        return to.cast(result, wide.dtype)
