"""What the name of an input says where the graph says nothing."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.input_hints import ValueHint, exactly
from onnx_passes.ops.use import Shape


def hint_of_name(
    name: str, dtype: ir.DataType | None, shape: Shape, rng: np.random.Generator
) -> ValueHint:
    """Return a padding mask for an input of integers called one, else the empty hint.

    A mask is ones, then zeros: the graph turns it into large negative numbers, and any other
    integers into infinities, beside which nothing shows.

    Args:
        name: Name of the input.
        dtype: Its element type; None if it is not known.
        shape: The shape of the sample.
        rng: Draws how much of each row the mask keeps.
    """
    is_mask = "mask" in name.lower() and dtype is not None and dtype.is_integer()
    if not is_mask or not shape or not shape[-1]:
        return ValueHint()
    rows, length = shape[:-1], shape[-1]
    kept = rng.integers((length + 1) // 2, length, rows, endpoint=True)
    return exactly(np.arange(length) < kept[..., None])
