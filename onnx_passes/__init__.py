"""Verified passes over ONNX models."""

__version__ = "0.1.0"
