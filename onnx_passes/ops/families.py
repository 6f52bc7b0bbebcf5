"""Semantics of the operators of the default domain, a file per family.

Importing this package fills ``onnx_passes.ops.call.OPERATORS``.
"""

from onnx_passes.ops import (
    activations,
    attention,
    elementwise,
    indexing,
    linear,
    movement,
    normalization,
    reduction,
)

__all__ = [
    "activations",
    "attention",
    "elementwise",
    "indexing",
    "linear",
    "movement",
    "normalization",
    "reduction",
]
