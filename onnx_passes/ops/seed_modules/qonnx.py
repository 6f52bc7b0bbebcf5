"""Domains of QONNX and its quantiser, under the module name of the seed system."""

from onnx_passes.ops.bodies.operator_bodies import QONNX_ALIASES
from onnx_passes.ops.scripted import named

DOMAIN, BREVITAS_DOMAIN = QONNX_ALIASES
Quant = named("Quant")
