"""Operators of our own domain, under the module name of the seed system."""

from onnx_passes.ops.scripted import named

Im2Col = named("Im2Col")
