"""Semantics of the operators of the default domain, a file per family.

Importing this package fills ``onnx_passes.verify.rules.call.OPERATORS``.
"""

from onnx_passes.verify.rules.operators import (
    activations,
    attention,
    indexing,
    linear,
    neural,
    pointwise,
    reduction,
    structural,
)

__all__ = [
    "activations",
    "attention",
    "indexing",
    "linear",
    "neural",
    "pointwise",
    "reduction",
    "structural",
]
