"""Inputs that hold counts, lengths, scales and sizes."""

from __future__ import annotations

import math

from onnx_passes.ops.input_hints import ValueHint, between, exactly
from onnx_passes.ops.use import Use, rule


@rule(0, "AffineGrid")
def _theta(use: Use) -> ValueHint:
    del use
    return between(-1, 1)


@rule(0, "HannWindow", "HammingWindow", "BlackmanWindow")
def _window(use: Use) -> ValueHint:
    output = use.output_shape()
    return exactly(8 if output is None else output[0])


@rule(1, "DFT")
def _dft_length(use: Use) -> ValueHint | None:
    data, output = use.input_shape(0), use.output_shape()
    if data is None:
        return None
    given = use.constant(2)
    axis = use.integer("axis", 1) if given is None else int(given.reshape(-1)[0])
    onesided = use.integer("onesided")
    return exactly(data[axis] if output is None or onesided else output[axis])


def _resized_axes(use: Use) -> list[int]:
    data = use.input_shape(0)
    return use.integers("axes") or list(range(0 if data is None else len(data)))


@rule(1, "Resize")
def _region(use: Use) -> ValueHint | None:
    # In version 10, the second input holds the scales.
    if len(use.node.inputs) == 2:
        return _scales(use)
    count = len(_resized_axes(use))
    return exactly([0.0] * count + [1.0] * count) if use.length() else None


@rule(2, "Resize")
@rule(1, "Upsample")
def _scales(use: Use) -> ValueHint | None:
    data, output, axes = use.input_shape(0), use.output_shape(), _resized_axes(use)
    if data is None:
        return None
    if output is None:
        return exactly([2.0 if axis >= 2 else 1.0 for axis in axes])
    # Half a pixel more survives the rounding down of size times scale.
    return exactly([_scale(data[axis], output[axis]) for axis in axes])


def _scale(size: int, target: int) -> float:
    return target / size if target % size == 0 else (target + 0.5) / size


@rule(3, "Resize")
def _sizes(use: Use) -> ValueHint | None:
    data, output, axes = use.input_shape(0), use.output_shape(), _resized_axes(use)
    if data is None:
        return None
    target = output or tuple(2 * d if axis >= 2 else d for axis, d in enumerate(data))
    if use.node.attributes.get("keep_aspect_ratio_policy") is None:
        return exactly([target[axis] for axis in axes])
    # Any target with the declared ratio gives the declared size.
    ratio = min(target[axis] / data[axis] for axis in axes)
    return exactly([math.ceil(data[axis] * ratio) for axis in axes])
