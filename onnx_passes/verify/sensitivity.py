"""How much rounding alone moves the outputs of a model that rounds to steps.

A quantiser turns a difference in the last place into a whole step where a value lies near a
tie, and what follows may make that larger. Tolerances for sums say nothing of this.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.model.copy import copy_model
from onnx_passes.model.walk import all_nodes
from onnx_passes.ops.decisions import RESIZING, makes_steps

_MOVED = frozenset(
    (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
)
"""Types of weights that are moved: scales of 16 bits round no less than those of 32."""


def makes_any_steps(model: ir.Model) -> bool:
    """Whether a model holds an operator whose result jumps where an operand moves a little."""
    return any(map(makes_steps, all_nodes(model)))


def move_weights(model: ir.Model, seed: int) -> ir.Model:
    """Return a model whose float weights are each moved by one unit in the last place.

    What Resize reads beside its operand stays: it decides sizes.

    Args:
        model: The model; left as it is.
        seed: Decides which are moved up, and which down.
    """
    moved = copy_model(model)
    rng = np.random.default_rng(seed)
    resized = [n for n in all_nodes(moved) if n.op_type in RESIZING]
    sizes = {value for node in resized for value in node.inputs[1:]}
    for value in moved.graph.initializers.values():
        tensor = value.const_value
        if value in sizes or tensor is None or tensor.dtype not in _MOVED:
            continue
        array = tensor.numpy()
        far = np.where(rng.random(array.shape) < 0.5, np.inf, -np.inf).astype(array.dtype)
        new = np.where(np.isfinite(array) & (array != 0), np.nextafter(array, far), array)
        value.const_value = ir.tensor(np.asarray(new, array.dtype), name=value.name)
    return moved
