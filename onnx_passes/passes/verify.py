"""Decorators with which a pass declares its contract; the pipeline enforces it."""

from onnx_passes.contracts import equality, metric, metrics, tolerance
from onnx_passes.errors import VerificationError

__all__ = ["VerificationError", "equality", "metric", "metrics", "tolerance"]
