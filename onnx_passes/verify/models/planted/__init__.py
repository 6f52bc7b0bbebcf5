"""Forms that passes look for, and near misses of them."""

from collections.abc import Callable

import numpy as np

from onnx_passes.verify.models.planted import (
    activations,
    attention,
    composites,
    layers,
    movable,
    normalizations,
    precision,
    quantization,
    shapes,
)
from onnx_passes.verify.models.planted.plant import Plant, planted
from onnx_passes.verify.models.scope import GraphScope

Step = Callable[[GraphScope, np.random.Generator], None]

STEPS = (
    *activations.STEPS,
    *attention.STEPS,
    *composites.STEPS,
    *layers.STEPS,
    *normalizations.STEPS,
    *shapes.STEPS,
)
"""Steps that go anywhere, bodies of branches and loops included."""


FORMS: dict[str, Step] = {
    "pair": planted(movable.pair, sealed=True),
    "parted": planted(movable.parted, sealed=False),
    "pruned": planted(movable.pruned, sealed=True),
    "smoothed": planted(movable.smoothed, sealed=True),
    "transposed": planted(movable.transposed, sealed=False),
}
"""Steps that models are asked to have, by name. Few passes look for them."""


def low_steps(scope: GraphScope) -> tuple[Step, ...]:
    """Return the steps of low precision that a model of this kind has."""
    return quantization.STEPS if scope.precision.quantized else precision.STEPS


__all__ = ["FORMS", "STEPS", "Plant", "low_steps", "planted"]
