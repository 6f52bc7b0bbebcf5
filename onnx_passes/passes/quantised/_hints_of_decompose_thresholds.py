"""Hints for the certificate of decompose-thresholds: operands that its guards admit."""

from __future__ import annotations

from onnx_passes.passes.hints import Hint
from onnx_passes.passes.quantised._hints_of_thresholds import THRESHOLDS

HINTS: dict[str, Hint] = {
    "decompose-thresholds": THRESHOLDS,
}
