"""Operators that read images at computed places, as far as their inputs go."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.input_hints import ValueHint, between, exactly
from onnx_passes.ops.operator_class import Operator
from onnx_passes.ops.suggestions import Choices, Known, Operand, Shape, first
from onnx_passes.ops.use import Use, below


class _Sampling(Operator, abstract=True):
    """An operator whose operands have shapes of their own.

    Attributes:
        shapes: Shapes of data that fit one another, by operand.
        numbers: Integers that must be known, by operand.
        values: What attributes may be, by name.
    """

    images = True
    shapes: ClassVar[tuple[Shape, ...]]
    numbers: ClassVar[dict[int, tuple[int, ...]]] = {}
    values: ClassVar[dict[str, Sequence[object]]] = {}

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        shape = self.shapes[min(index, len(self.shapes) - 1)]
        if index in self.numbers:
            return Operand(shape, ir.DataType.INT64, self.numbers[index], constant=True)
        return c.data(shape)

    def options(self, name: str, known: Known) -> Sequence[object]:
        return self.values.get(name, ())


class GridSample(_Sampling):
    """An image at the places that a grid names."""

    shapes = ((1, 2, 3, 4),)

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        x = first(known, self.shapes[0])
        axes = max(len(x) - 2, 1)
        return c.data((*x[:1], *(2, 3, 4)[:axes], axes) if index else x)

    values: ClassVar = {
        "mode": (None, "linear", "nearest", "cubic"),
        "padding_mode": (None, "zeros", "border", "reflection"),
    }

    def admits(self, use: Use) -> ValueHint | None:
        return between(-1, 1) if use.index == 1 else None


class AffineGrid(_Sampling):
    """The grid of an affine map."""

    steers, images = (1,), False
    shapes, numbers = ((2, 2, 3), (4,)), {1: (2, 3, 4, 5)}

    def admits(self, use: Use) -> ValueHint | None:
        theta, output = use.input_shape(0), use.output_shape()
        if use.index != 1 or theta is None:
            return None
        spatial = [3] * theta[1] if output is None else list(output[1:-1])
        return exactly([theta[0], 1, *spatial])


class RoiAlign(_Sampling):
    """Regions of an image, in one size."""

    steers = (2,)
    shapes, numbers = ((2, 3, 4, 4), (2, 4), (2,)), {2: (0, 1)}
    values: ClassVar = {
        "mode": (None, "avg", "max"),
        "coordinate_transformation_mode": (None, "half_pixel", "output_half_pixel"),
        "output_height": (1, 2),
        "output_width": (1, 3),
        "spatial_scale": (None, 1.0, 0.5),
    }

    def admits(self, use: Use) -> ValueHint | None:
        if use.index == 2:  # which image of the batch
            return below(use.dimension(0, 0))
        return boxes(use) if use.index == 1 else None


class MaxRoiPool(_Sampling):
    """The greatest elements of regions of an image."""

    shapes = ((2, 3, 4, 4), (2, 5))
    values: ClassVar = {"pooled_shape": ((1, 1), (2, 2))}


class MaxUnpool(_Sampling):
    """An image with the elements that MaxPool has kept, each at its place."""

    steers = (1, 2)
    shapes, numbers = ((1, 1, 2, 2), (1, 1, 2, 2)), {1: (0, 2, 6, 8)}
    values: ClassVar = {
        "kernel_shape": ((2, 2),),
        "strides": ((1, 1), (2, 2)),
        "pads": (None,),
    }

    def admits(self, use: Use) -> ValueHint | None:
        if use.index == 1 and use.shape is not None:
            # Flat places in the output, which has at least as many elements as the input.
            return exactly(use.rng.permutation(math.prod(use.shape)).reshape(use.shape))
        output = use.output_shape() if use.index == 2 else None
        return None if output is None else exactly(output)


class DeformConv(_Sampling):
    """A convolution whose kernel reads at places that are moved."""

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        x = first(known, (1, 2, 4, 4))
        batch, channels = x[:2] if len(x) == 4 else (1, 2)
        shapes = (x, (3, channels, 1, 1), (batch, 2, *x[2:]), (3,), (batch, 1, *x[2:]))
        return c.data(shapes[index])

    values: ClassVar = dict.fromkeys(
        ("group", "offset_group", "strides", "pads", "dilations", "kernel_shape"), (None,)
    )


class Col2Im(_Sampling):
    """The image whose columns are given."""

    steers, images = (1, 2), False

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        x = first(known, (1, 8, 9))
        if index == 0:
            return c.data(x)
        # Columns that do not come from blocks of 2 by 2 are those of single elements.
        blocks = x[1:] == (8, 9)
        if index == 1:
            return c.integers(*((4, 4) if blocks else (1, math.prod(x[-1:]))))
        return c.integers(*((2, 2) if blocks else (1, 1)))

    values: ClassVar = dict.fromkeys(("strides", "pads", "dilations"), (None,))

    def admits(self, use: Use) -> ValueHint | None:
        data, output, length = use.input_shape(0), use.output_shape(), use.length()
        if use.index == 1 and output is not None:
            return exactly(output[2:])
        if use.index not in (1, 2) or data is None or length is None:
            return None
        if use.index == 1:
            # One channel, and blocks of one row: as many places as there are columns.
            return exactly([1] * (length - 1) + [data[1] + data[2] - 1])
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


def boxes(use: Use) -> ValueHint | None:
    """Return corners of boxes, the lower one first, within 5 of the origin."""
    shape = use.shape
    if shape is None:
        return None
    corner = use.rng.uniform(0, 4, (*shape[:-1], 2))
    extent = use.rng.uniform(1, 4, (*shape[:-1], 2))
    return exactly(np.concatenate([corner, corner + extent], -1))
