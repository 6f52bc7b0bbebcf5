"""Operators outside of the standard, as functions of standard operators.

An engine has no kernel for the operators of QONNX, nor for those of ``onnx_passes.ops``. Each
is described here once, as the body of a function. :func:`attach_bodies` adds the bodies that a
model needs to the protobuf that an engine or inference is given; the model stays as it is.
"""

from onnx_passes.ops.bodies import (
    channels_last_bodies,
    custom,
    multithreshold,
    qonnx_pooling,
    quantisers,
)
from onnx_passes.ops.bodies.added_bodies import attach_to_model, bodies_attached
from onnx_passes.ops.bodies.attach import attach_bodies, body_of, body_writer, has_body
from onnx_passes.ops.bodies.domains import CUSTOM, QONNX, QONNX_ALIASES, is_quantiser
from onnx_passes.ops.bodies.writer import BodyCall

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
    "channels_last_bodies",
    "custom",
    "has_body",
    "is_quantiser",
    "multithreshold",
    "qonnx_pooling",
    "quantisers",
]
