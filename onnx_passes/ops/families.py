"""The operators that are told of, a module for each family.

Importing this module makes them known.
"""

from onnx_passes.ops import (
    activations,
    attention,
    elementwise,
    indexing,
    linear,
    logic,
    movement,
    normalization,
    reduction,
    sources,
    windows,
)

__all__ = [
    "activations",
    "attention",
    "elementwise",
    "indexing",
    "linear",
    "logic",
    "movement",
    "normalization",
    "reduction",
    "sources",
    "windows",
]
