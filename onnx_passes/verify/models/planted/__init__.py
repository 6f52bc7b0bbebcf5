"""Forms that passes look for, and near misses of them."""

from onnx_passes.verify.models.planted import (
    activations,
    attention,
    composites,
    layers,
    normalizations,
    shapes,
)
from onnx_passes.verify.models.planted.plant import Plant, planted

STEPS = (
    *activations.STEPS,
    *attention.STEPS,
    *composites.STEPS,
    *layers.STEPS,
    *normalizations.STEPS,
    *shapes.STEPS,
)
"""Steps that go anywhere, bodies of branches and loops included."""

__all__ = ["STEPS", "Plant", "planted"]
