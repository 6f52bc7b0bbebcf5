"""The operators that are described, a module for each family.

Importing this module makes them known.
"""

from onnx_passes.ops import (  # noqa: F401
    activations,
    control,
    convolution,
    elementwise,
    indexing,
    linear,
    movement,
    normalization,
    quantization,
    reduction,
    reshaping,
    resizing,
    unevaluated,
)
