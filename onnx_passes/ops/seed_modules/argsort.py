"""Operators of our own domain, under the module name of the seed system."""

from onnx_passes.ops.scripted import named

ArgSort = named("ArgSort")
