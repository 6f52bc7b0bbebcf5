"""Hints for the certificate of fuse-rms-normalization: operands that its guards admit."""

from __future__ import annotations

from onnx_passes.passes.fusion._hints_of_normalizations import (
    CAST_NORMALIZATION,
    MEAN,
    PRECISE,
    SQUARES,
)
from onnx_passes.passes.hints import Hint

_OF_SQUARES = Hint(SQUARES, MEAN, PRECISE, 23)
HINTS: dict[str, Hint] = {
    "fuse-rms-normalization[0]": _OF_SQUARES,
    "fuse-rms-normalization[1]": _OF_SQUARES,
    "fuse-rms-normalization[2]": _OF_SQUARES,
    "fuse-rms-normalization[5]": CAST_NORMALIZATION,
}
