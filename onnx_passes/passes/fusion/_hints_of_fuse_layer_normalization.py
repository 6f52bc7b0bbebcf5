"""Hints for the certificate of fuse-layer-normalization: operands that its guards admit."""

from __future__ import annotations

from onnx_passes.passes.fusion._hints_of_normalizations import (
    CAST_NORMALIZATION,
    LAST,
    MEAN,
    PRECISE,
    SQUARES,
)
from onnx_passes.passes.hints import Hint

_OF_DEVIATIONS = Hint({**SQUARES, "mean.1": LAST}, MEAN, PRECISE, 17)
HINTS: dict[str, Hint] = {
    "fuse-layer-normalization[0]": _OF_DEVIATIONS,
    "fuse-layer-normalization[1]": _OF_DEVIATIONS,
    "fuse-layer-normalization[2]": _OF_DEVIATIONS,
    "fuse-layer-normalization[7]": CAST_NORMALIZATION,
}
