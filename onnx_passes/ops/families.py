"""The operators that are described, a module for each family.

Importing this module makes them known.
"""

from onnx_passes.ops import (
    activations,
    attention,
    control,
    elementwise,
    indexing,
    linear,
    logic,
    movement,
    normalization,
    norms,
    quantization,
    recurrent,
    reduction,
    sources,
    windows,
)

__all__ = [
    "activations",
    "attention",
    "control",
    "elementwise",
    "indexing",
    "linear",
    "logic",
    "movement",
    "normalization",
    "norms",
    "quantization",
    "recurrent",
    "reduction",
    "sources",
    "windows",
]
