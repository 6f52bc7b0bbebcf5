"""Forms that passes look for, and near misses of them."""

from collections.abc import Callable

import numpy as np

from onnx_passes.verify.models.planted import (
    activation_forms,
    attention_forms,
    composites,
    layer_forms,
    movable,
    normalizations,
    precision_forms,
    quantized_forms,
    shape_forms,
)
from onnx_passes.verify.models.planted.plant import Plant, planted
from onnx_passes.verify.models.scope import GraphScope

Step = Callable[[GraphScope, np.random.Generator], None]

STEPS = (
    *activation_forms.STEPS,
    *attention_forms.STEPS,
    *composites.STEPS,
    *layer_forms.STEPS,
    *normalizations.STEPS,
    *shape_forms.STEPS,
)
"""Steps that go anywhere, bodies of branches and loops included."""


FORMS: dict[str, Step] = {
    "halves": planted(movable.halves, sealed=False),
    "lent": planted(movable.lent, sealed=False),
    "pair": planted(movable.pair, sealed=True),
    "parted": planted(movable.parted, sealed=False),
    "pruned": planted(movable.pruned, sealed=True),
    "sliced": planted(movable.sliced, sealed=False),
    "smoothed": planted(movable.smoothed, sealed=True),
    "transposed": planted(movable.transposed, sealed=False),
}
"""Steps that models are asked to have, by name. Few passes look for them."""


def low_steps(scope: GraphScope) -> tuple[Step, ...]:
    """Return the steps of low precision that a model of this kind has."""
    return quantized_forms.STEPS if scope.precision.quantized else precision_forms.STEPS


__all__ = ["FORMS", "STEPS", "Plant", "low_steps", "planted"]
