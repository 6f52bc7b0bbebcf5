"""Inputs that hold shapes, axes, sizes and counts.

The declared shape of the output says what they must be; where it is not known, they are
chosen so that the operator does as little as possible.
"""

from __future__ import annotations

from onnx_passes.ops.hints import Hint, exactly
from onnx_passes.ops.use import Use, rule

_FEW = 3


@rule(1, "SplitToSequence")
def _split_to_sequence(use: Use) -> Hint | None:
    data, length = use.input_shape(0), use.length()
    if data is None or length is None:
        return exactly(1)
    whole, rest = divmod(data[use.integer("axis")], max(1, length))
    return exactly([whole + (index < rest) for index in range(length)])


@rule(1, "CenterCropPad")
def _crop(use: Use) -> Hint | None:
    data, output = use.input_shape(0), use.output_shape()
    target = data if output is None else output
    if target is None:
        return None
    axes = use.integers("axes")
    return exactly(target if axes is None else [target[axis] for axis in axes])
