"""Replace the formula of RMSNormalization by the operator."""

from typing import ClassVar

from onnx_passes import passes
from onnx_passes.passes.common.matches import PRECISE
from onnx_passes.passes.common.normalization_matching import FORMS, NormalizationPass
from onnx_passes.passes.fusion._fusion_hints import CAST_NORMALIZATION, MEAN, SQUARES
from onnx_passes.passes.hints import Hint, Hints


@passes.verify.tolerance
@passes.register("fuse")
class FuseRmsNormalization(NormalizationPass):
    """Replace the formula of RMSNormalization by the operator.

    Before: ``x / Sqrt(ReduceMean(x ** 2) + epsilon) * scale``, the mean over the last axes
    After:  ``RMSNormalization(x, scale)``

    Found with a square as a power or a product, with a product with the reciprocal for the
    quotient, without scale, in any order of products. A scale behind an RMSNormalization
    without one is taken over; so are casts from and to float16 around one without scale,
    whose ``stash_type`` says the same.

    Sound because this is how the operator is defined. The contract is a tolerance: a kernel
    sums in another order.

    Leaves alone: models before opset 23; means over other axes, over axes of unknown size, or
    that drop axes; a formula in half precision; inner values that are read elsewhere; a scale
    that differs between rows; an epsilon of 0, or one that callers may override. Functions,
    where shapes are unknown.
    """

    operator = "RMSNormalization"
    since = 23
    hints: ClassVar[Hints] = {
        **dict.fromkeys(FORMS, Hint(SQUARES, MEAN, PRECISE, 23)),
        "cast": CAST_NORMALIZATION,
    }
