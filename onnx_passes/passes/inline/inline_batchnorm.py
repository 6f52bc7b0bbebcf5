"""Replace a BatchNormalization by four operators of arithmetic."""

from onnx_passes import passes
from onnx_passes.passes.base import Value
from onnx_passes.passes.lowering._lowering_pass import BatchNormalizationPass, Primitives, Site


@passes.verify.tolerance
@passes.register()
class InlineBatchnorm(BatchNormalizationPass):
    """Replace a BatchNormalization by four operators of arithmetic.

    Before: ``BatchNormalization<epsilon>(x, scale, bias, mean, variance)``
    After:  ``(x - mean) / Sqrt(variance + epsilon) * scale + bias``, each over the axis of
            channels; what depends on parameters alone is left to constant folding

    ``lower-batch-normalization`` makes a product and a sum of it at once; here mean,
    deviation, scale and bias stay apart, as the seed system has them.

    Sound because this is how the operator is defined. The contract is a tolerance: kernels
    merge the factors first.

    Leaves alone: training mode and what has its outputs; parameters that are not rows of the
    input's type; nodes whose type or rank is not known, as in functions; ranks below 2.
    """

    def obstacle_of_types(self, site: Site) -> str | None:
        if any(site.given(k).dtype is not site.dtype for k in range(1, 5)):
            return "its parameters have another type"
        return None

    def lowered(self, to: Primitives, site: Site) -> Value:
        rank = site.rank()
        assert rank is not None, "an obstacle otherwise"
        scale, bias, mean, variance = (
            to.unsqueeze(site.given(k), range(1, rank - 1)) for k in range(1, 5)
        )
        shifted = to.node("Add", variance, to.number(site.number("epsilon", 1e-5)))
        centred = to.node("Sub", site.given(0), mean)
        normal = to.node("Div", centred, to.node("Sqrt", shifted))
        return to.node("Add", to.node("Mul", normal, scale), bias)
