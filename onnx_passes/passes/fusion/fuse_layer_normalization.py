"""Replace the formula of LayerNormalization by the operator."""

from typing import ClassVar

from onnx_passes import passes
from onnx_passes.passes.common.matches import PRECISE
from onnx_passes.passes.common.normalization_matching import FORMS, NormalizationPass
from onnx_passes.passes.fusion._fusion_hints import CAST_NORMALIZATION, LAST, MEAN, SQUARES
from onnx_passes.passes.hints import Hint, Hints


@passes.verify.tolerance
@passes.register("fuse")
class FuseLayerNormalization(NormalizationPass):
    """Replace the formula of LayerNormalization by the operator.

    Before: ``(x - mean) / Sqrt(ReduceMean((x - mean) ** 2) + epsilon) * scale + bias`` with
            ``mean = ReduceMean(x)`` over the last axes
    After:  ``LayerNormalization(x, scale, bias)``

    Found with a square as a power or a product, with a product with the reciprocal for the
    quotient, without scale or bias, in any order of sums and products. A scale or bias behind
    a LayerNormalization without one is taken over; so are casts from and to float16 around
    one without scale, whose ``stash_type`` says the same.

    Sound because this is how the operator is defined. The contract is a tolerance: a kernel
    sums in another order.

    Leaves alone: models before opset 17; means over other axes, over axes of unknown size, or
    that drop axes; a formula in half precision; inner values that are read elsewhere; a scale
    or bias that differs between rows; an epsilon of 0, or one that callers may override.
    Functions, where shapes are unknown.
    """

    operator = "LayerNormalization"
    since = 17
    centred = True
    hints: ClassVar[Hints] = {
        **dict.fromkeys(FORMS, Hint({**SQUARES, "mean.1": LAST}, MEAN, PRECISE, 17)),
        "cast": CAST_NORMALIZATION,
    }
