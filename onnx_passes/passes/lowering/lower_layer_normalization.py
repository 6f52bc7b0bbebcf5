"""Lower LayerNormalization to means."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var
from onnx_passes.passes.lowering._lowering_pass import LoweringPass, Primitives, Site


@passes.verify.tolerance
@passes.register("lower")
class LowerLayerNormalization(LoweringPass):
    """Lower LayerNormalization to means.

    Before: ``LayerNormalization<axis, epsilon>(x, scale, bias)``
    After:  ``(x - mean) / Sqrt(ReduceMean((x - mean) ** 2) + epsilon) * scale + bias`` with
            ``mean = ReduceMean(x)``, both over the axes from ``axis`` on

    Sound because this is how the operator is defined. The mean of the squared deviations is
    the variance; half precision is computed in single precision, double in double, whatever
    ``stash_type`` says. The contract is a tolerance: engines sum up in another order.

    Leaves alone: nodes whose mean or deviation is read, which ``lower-functions`` lowers;
    types or ranks that are not known, as in functions.
    """

    def pattern(self, op: Op, x: Var, scale: Var) -> Var:
        return op.LayerNormalization(x, scale, _allow_other_inputs=True, _outputs=["y"])

    def obstacle(self, site: Site) -> str | None:
        return "its rank is not known" if site.rank() is None else None

    def lowered(self, to: Primitives, site: Site) -> Value:
        wide = to.widened(ir.DataType(site.integer("stash_type", 1)))
        rank, axis = site.rank(), site.axis(-1)
        assert rank is not None, "an obstacle otherwise"
        assert axis is not None, "an obstacle otherwise"
        x = wide.cast(site.given(0), to.dtype)
        result = wide.normalized(x, range(axis, rank), site.number("epsilon", 1e-5))
        result = wide.node("Mul", result, wide.cast(site.given(1), to.dtype))
        bias = site.input(2)
        if bias is not None:
            result = wide.node("Add", result, wide.cast(bias, to.dtype))
        return to.cast(result, wide.dtype)
