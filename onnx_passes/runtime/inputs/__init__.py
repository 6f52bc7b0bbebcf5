"""Inputs for a model of which nothing is known but its graph."""

from onnx_passes.runtime.inputs.describe import describe_feeds
from onnx_passes.runtime.inputs.generate import generate

__all__ = ["describe_feeds", "generate"]
