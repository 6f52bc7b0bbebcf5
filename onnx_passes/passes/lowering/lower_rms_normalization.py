"""Lower RMSNormalization to a mean."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var
from onnx_passes.passes.lowering._lowering_pass import LoweringPass, Primitives, Site


@passes.verify.tolerance
@passes.register("lower")
class LowerRMSNormalization(LoweringPass):
    """Lower RMSNormalization to a mean.

    Before: ``RMSNormalization<axis, epsilon>(x, scale)``
    After:  ``x / Sqrt(ReduceMean(x * x) + epsilon) * scale``, over the axes from ``axis`` on

    Sound because this is how the operator is defined. Half precision is computed in single
    precision, double in double, whatever ``stash_type`` says. The contract is a tolerance:
    engines sum up in another order.

    Leaves alone: nodes whose types or rank are not known, as in functions.
    """

    def pattern(self, op: Op, x: Var, scale: Var) -> Var:
        return op.RMSNormalization(x, scale, _outputs=["y"])

    def obstacle(self, site: Site) -> str | None:
        if site.rank() is None or site.given(1).dtype is None:
            return "its rank or the type of its scale is not known"
        return None

    def lowered(self, to: Primitives, site: Site) -> Value:
        wide = to.widened(ir.DataType(site.integer("stash_type", 1)))
        rank, axis = site.rank(), site.axis(-1)
        assert rank is not None, "an obstacle otherwise"
        assert axis is not None, "an obstacle otherwise"
        x, scale = wide.cast(site.given(0), to.dtype), site.given(1)
        epsilon = site.number("epsilon", 1e-5)
        result = wide.normalized(x, range(axis, rank), epsilon, centred=False)
        # The result has the type of the scale.
        given = Primitives(to.op, to.opset, scale.dtype)
        return to.node("Mul", given.cast(result, wide.dtype), scale)
