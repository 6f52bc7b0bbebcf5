"""Operators outside of the standard, as functions of standard operators.

An engine has no kernel for the operators of QONNX, nor for those of ``onnx_passes.ops``. Each
is described here once, as the body of a function. :func:`attach_bodies` adds the bodies that a
model needs to the protobuf that an engine or inference is given; the model stays as it is.
"""

from onnx_passes.ops.bodies import operator_bodies
from onnx_passes.ops.bodies.attach import (
    BodyCall,
    attach_bodies,
    attach_to_model,
    bodies_attached,
    body_of,
    body_writer,
    has_body,
)
from onnx_passes.ops.bodies.operator_bodies import CUSTOM, QONNX, QONNX_ALIASES, is_quantiser

__all__ = [
    "CUSTOM",
    "QONNX",
    "QONNX_ALIASES",
    "BodyCall",
    "attach_bodies",
    "attach_to_model",
    "bodies_attached",
    "body_of",
    "body_writer",
    "has_body",
    "is_quantiser",
    "operator_bodies",
]
