"""Verified passes over ONNX models."""

__version__ = "1.0.0.dev0"
"""The version, from which the build takes that of the package."""
