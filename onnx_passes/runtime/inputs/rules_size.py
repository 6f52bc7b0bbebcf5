"""Inputs that hold counts, lengths, scales and sizes; chosen as in ``rules_shape``."""

from __future__ import annotations

import math

from onnx_passes.ops.hints import Hint, between, exactly
from onnx_passes.ops.use import Shape, Use, rule

_FEW = 3


@rule(0, "AffineGrid")
def _theta(use: Use) -> Hint:
    del use
    return between(-1, 1)


@rule(1, "AffineGrid")
def _grid_size(use: Use) -> Hint | None:
    theta, output = use.input_shape(0), use.output_shape()
    if theta is None:
        return None
    spatial = [_FEW] * (theta[1]) if output is None else list(output[1:-1])
    return exactly([theta[0], 1, *spatial])


@rule(1, "Col2Im")
def _image(use: Use) -> Hint | None:
    data, output, length = use.input_shape(0), use.output_shape(), use.length()
    if output is not None:
        return exactly(output[2:])
    if data is None or length is None:
        return None
    # One channel, and blocks of one row: as many places as there are columns.
    return exactly([1] * (length - 1) + [data[1] + data[2] - 1])


@rule(2, "Col2Im")
def _block(use: Use) -> Hint | None:
    data, output, length = use.input_shape(0), use.output_shape(), use.length()
    if data is None or length is None:
        return None
    size = data[1] // output[1] if output is not None else data[1]
    if length == 2:
        return exactly(_block_of(use, size, data[2], output))
    return exactly([1] * (length - 1) + [size])


def _block_of(use: Use, size: int, blocks: int, output: Shape | None) -> list[int]:
    strides = use.integers("strides") or [1, 1]
    dilations = use.integers("dilations") or [1, 1]
    pads = use.integers("pads") or [0, 0, 0, 0]
    for height in range(1, size + 1):
        block = [height, size // height]
        if size % height or output is None:
            continue
        counts = [
            (output[2 + a] + pads[a] + pads[a + 2] - dilations[a] * (block[a] - 1) - 1)
            // strides[a]
            + 1
            for a in range(2)
        ]
        if math.prod(counts) == blocks and min(counts) > 0:
            return block
    return [1, size]


@rule(2, "MaxUnpool")
def _unpooled(use: Use) -> Hint | None:
    output = use.output_shape()
    return None if output is None else exactly(output)


@rule(0, "HannWindow", "HammingWindow", "BlackmanWindow")
def _window(use: Use) -> Hint:
    output = use.output_shape()
    return exactly(8 if output is None else output[0])


@rule(1, "DFT")
def _dft_length(use: Use) -> Hint | None:
    data, output = use.input_shape(0), use.output_shape()
    if data is None:
        return None
    given = use.constant(2)
    axis = use.integer("axis", 1) if given is None else int(given.reshape(-1)[0])
    onesided = use.integer("onesided")
    return exactly(data[axis] if output is None or onesided else output[axis])


@rule(1, "STFT")
def _frame_step(use: Use) -> Hint | None:
    # Frames of the output: 1 + (signal - frame) // step.
    signal, output, frame = use.input_shape(0), use.output_shape(), _frame_size(use)
    if signal is None or output is None or frame is None or output[1] < 2:
        return exactly(2)
    return exactly(max(1, (signal[1] - frame) // (output[1] - 1)))


@rule(3, "STFT")
def _frame_length(use: Use) -> Hint | None:
    frame = _frame_size(use)
    return None if frame is None else exactly(frame)


def _frame_size(use: Use) -> int | None:
    window, output = use.input_shape(2), use.output_shape()
    if window is not None:
        return window[0]
    if output is None:
        return 4
    bins = output[2]
    return 2 * (bins - 1) if use.integer("onesided", 1) else bins


_MEL = (8, 16, 8192, 0.0, 4000.0)


def _mel_rule(index: int) -> None:
    @rule(index, "MelWeightMatrix")
    def _mel(use: Use) -> Hint:
        output = use.output_shape()
        if output is not None and index < 2:
            return exactly(output[1] if index == 0 else 2 * (output[0] - 1))
        return exactly(_MEL[index])


for _index in range(len(_MEL)):
    _mel_rule(_index)


def _resized_axes(use: Use) -> list[int]:
    data = use.input_shape(0)
    return use.integers("axes") or list(range(0 if data is None else len(data)))


@rule(1, "Resize")
def _region(use: Use) -> Hint | None:
    # In version 10, the second input holds the scales.
    if len(use.node.inputs) == 2:
        return _scales(use)
    count = len(_resized_axes(use))
    return exactly([0.0] * count + [1.0] * count) if use.length() else None


@rule(2, "Resize")
@rule(1, "Upsample")
def _scales(use: Use) -> Hint | None:
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
def _sizes(use: Use) -> Hint | None:
    data, output, axes = use.input_shape(0), use.output_shape(), _resized_axes(use)
    if data is None:
        return None
    target = output or tuple(2 * d if axis >= 2 else d for axis, d in enumerate(data))
    if use.node.attributes.get("keep_aspect_ratio_policy") is None:
        return exactly([target[axis] for axis in axes])
    # Any target with the declared ratio gives the declared size.
    ratio = min(target[axis] / data[axis] for axis in axes)
    return exactly([math.ceil(data[axis] * ratio) for axis in axes])
