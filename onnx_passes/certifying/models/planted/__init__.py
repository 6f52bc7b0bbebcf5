"""Forms that passes look for, and near misses of them."""

from collections.abc import Callable

import numpy as np

from onnx_passes.certifying.models.planted import formulas, movable_forms, shape_forms
from onnx_passes.certifying.models.planted.plant import FormBuilder, make_step
from onnx_passes.certifying.models.scope import GraphScope

Step = Callable[[GraphScope, np.random.Generator], None]

STEPS = (
    *formulas.ACTIVATION_STEPS,
    *formulas.ATTENTION_STEPS,
    *formulas.COMPOSITE_STEPS,
    *formulas.LAYER_STEPS,
    *formulas.NORMALIZATION_STEPS,
    *shape_forms.STEPS,
)
"""Steps that go anywhere, bodies of branches and loops included."""


FORMS: dict[str, Step] = {
    "halves": make_step(movable_forms.halves, sealed=False),
    "lent": make_step(movable_forms.lent, sealed=False),
    "pair": make_step(movable_forms.pair, sealed=True),
    "parted": make_step(movable_forms.parted, sealed=False),
    "pruned": make_step(movable_forms.pruned, sealed=True),
    "sliced": make_step(movable_forms.sliced, sealed=False),
    "smoothed": make_step(movable_forms.smoothed, sealed=True),
    "transposed": make_step(movable_forms.transposed, sealed=False),
}
"""Steps that models are asked to have, by name. Few passes look for them."""


__all__ = ["FORMS", "STEPS", "FormBuilder", "make_step"]
