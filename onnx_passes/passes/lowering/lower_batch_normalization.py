"""Lower BatchNormalization to a product and a sum."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import Value
from onnx_passes.passes.lowering._lowering_pass import BatchNormalizationPass, Primitives, Site


@passes.verify.tolerance
@passes.register("lower")
class LowerBatchNormalization(BatchNormalizationPass):
    """Lower BatchNormalization to a product and a sum.

    Before: ``BatchNormalization<epsilon>(x, scale, bias, mean, variance)``
    After:  ``x * f + (bias - mean * f)`` with ``f = scale / Sqrt(variance + epsilon)``, along
            the second axis

    Sound because in inference the statistics are given, and normalising by them is affine.
    Half precision is computed in single precision. ``f`` and the sum become constants where
    the parameters are. The contract is a tolerance: engines may subtract the mean first.

    Leaves alone: training mode; opsets before 9, where attributes choose other modes; nodes
    whose types or rank are not known, as in functions; ranks below 2.
    """

    def lowered(self, to: Primitives, site: Site) -> Value:
        wide, rank = to.widened(self._widest(site)), site.rank()
        assert rank is not None, "an obstacle otherwise"
        x, scale, bias, mean, variance = (
            wide.cast(site.given(k), site.given(k).dtype) for k in range(5)
        )
        shifted = wide.node("Add", variance, wide.number(site.number("epsilon", 1e-5)))
        factor = wide.node("Div", scale, wide.node("Sqrt", shifted))
        offset = wide.node("Sub", bias, wide.node("Mul", mean, factor))
        factor, offset = (to.unsqueeze(v, range(1, rank - 1)) for v in (factor, offset))
        return to.cast(wide.node("Add", wide.node("Mul", x, factor), offset), wide.dtype)

    def _widest(self, site: Site) -> ir.DataType | None:
        found = [site.given(k).dtype for k in range(5)]
        return ir.DataType.DOUBLE if ir.DataType.DOUBLE in found else site.dtype
