"""Operators of our own domain, under the module name of the seed system."""

from onnx_passes.ops.scripted import named

Any = named("Any")
Log2 = named("Log2")
Ulp = named("Ulp")
