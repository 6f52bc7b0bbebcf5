"""Measurements of ``onnx-passes tune``."""
