"""Operators that read images at computed places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops import image_changes
from onnx_passes.ops.call import Call, Tensor
from onnx_passes.ops.composition import Composition, measured_by
from onnx_passes.ops.input_hints import ValueHint, between, exactly
from onnx_passes.ops.interpolation import (
    Taps,
    crossed,
    cubic_taps,
    interpolated,
    linear_taps,
    nearest_tap,
)
from onnx_passes.ops.semantics import Elements, Misfit, Scalar, Unsupported
from onnx_passes.ops.suggestions import Choices, Known, Operand, Shape, first
from onnx_passes.ops.use import Use


class Sampling(Composition, abstract=True):
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


class GridSample(Sampling):
    """An image at the places that a grid names."""

    changes = image_changes.GRID_SAMPLE

    shapes = ((1, 2, 3, 4),)

    def computed(self, call: Call) -> Tensor:
        x, grid = call.required(0), call.static(1)
        sizes, outer = x.shape[2:], grid.shape[1:-1]
        if grid.shape[0] != x.shape[0] or grid.shape[-1] != len(sizes):
            raise Misfit(f"a grid of {grid.shape} over {x.shape}")
        flat = x.data.reshape(*x.shape[:2], -1)
        parts = []
        for sample in range(x.shape[0]):
            # The last coordinate is that of the first axis.
            places = grid[sample].reshape(-1, len(sizes))[:, ::-1]
            axes = [self._axis(call, places[:, k], size) for k, size in enumerate(sizes)]
            part = Tensor(flat[sample], x.dtype)
            reach = max(sizes, default=1)
            parts.append(interpolated(call, part, crossed(axes, sizes), reach).data)
        if not parts:
            raise Unsupported("GridSample of no image")
        return Tensor(np.stack(parts).reshape(*x.shape[:2], *outer), x.dtype)

    def _axis(self, call: Call, at: Array, size: int) -> Taps:
        """Return the taps of an axis, for coordinates [n] from -1 to 1."""
        align, two = call.flag("align_corners"), at.dtype.type(2)
        steps = at.dtype.type(size - 1 if align else size)
        one = at.dtype.type(1)
        found = (at + one) / two * steps if align else ((at + one) * steps - one) / two
        low, high = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
        mode = call.text("mode", "linear").removeprefix("bi")
        if mode == "nearest":
            found = np.rint(found)
        padding = call.text("padding_mode", "zeros")
        if padding == "border":
            inside = (found >= low) & (found <= high)
            found = np.where(inside, found, np.clip(found, 0, size - 1))
        elif padding == "reflection":
            found = _reflected(found, low, high)
        if mode == "nearest":
            taps = nearest_tap(found)
        else:
            taps = linear_taps(found) if mode == "linear" else cubic_taps(found, -0.75)
        places = taps.places
        if padding == "border":
            places = np.clip(places, 0, size - 1)
        elif padding == "reflection":
            places = _reflected(places.astype(np.float64), low, high).astype(np.int64)
        return Taps(places, taps.weights)

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


class AffineGrid(Sampling):
    """The grid of an affine map."""

    steers, images = (0, 1), False
    shapes, numbers = ((2, 2, 3), (4,)), {1: (2, 3, 4, 5)}

    def computed(self, call: Call) -> Tensor:
        theta, sizes = call.required(0), call.static_ints(1)
        batch, spatial = sizes[0], sizes[2:]
        rank = len(spatial)
        if theta.shape != (batch, rank, rank + 1):
            raise Misfit(f"an affine map of {theta.shape} for {sizes}")
        align, axes = call.flag("align_corners"), []
        for size in spatial:
            ends = (1.0, size - 1) if align else (1 - 1 / size, size)
            step = 2 / ends[1] if ends[1] else 0.0
            axes.append(-ends[0] + step * np.arange(size))
        # The first coordinate is that of the last axis.
        grid = np.meshgrid(*axes, indexing="ij")[::-1]
        base = np.stack([*grid, np.ones(spatial)], -1).reshape(-1, 1, rank + 1)
        dtype, a = theta.dtype, call.primitives(theta.dtype)
        numbers = call.semantics.constant(base.astype(dtype.numpy()), dtype)
        rows = np.broadcast_to(theta.data[:, None], (batch, len(base), rank, rank + 1))
        found = call.semantics.along(a.dot, rows, np.broadcast_to(numbers, rows.shape))
        made = measured_by(call, Tensor(found, dtype), rows)
        return Tensor(made.data.reshape(batch, *spatial, rank), dtype)

    def admits(self, use: Use) -> ValueHint | None:
        theta, output = use.input_shape(0), use.output_shape()
        if use.index == 0:
            return between(-1, 1)
        if use.index != 1 or theta is None:
            return None
        spatial = [3] * theta[1] if output is None else list(output[1:-1])
        return exactly([theta[0], 1, *spatial])


class MaxRoiPool(Sampling):
    """The greatest elements of regions of an image."""

    shapes = ((2, 3, 4, 4), (2, 5))
    values: ClassVar = {"pooled_shape": ((1, 1), (2, 2)), "spatial_scale": (None, 0.5)}

    def computed(self, call: Call) -> Tensor:
        x, regions = call.required(0), call.static(1)
        pooled, scale = call.integers("pooled_shape") or [], call.number("spatial_scale", 1.0)
        sizes, a = x.shape[2:], call.primitives(x.dtype)
        zero = call.semantics.constant(np.zeros(x.shape[1], x.dtype.numpy()), x.dtype)
        parts = []

        def largest(row: Elements) -> Scalar:
            return a.fold("max", row)

        for region in regions:
            image = x.data[int(region[0])]
            top, left, bottom, right = _half_away(region[[2, 1, 4, 3]] * np.float32(scale))
            bins = [
                _bins(int(start), int(end), count, size)
                for start, end, count, size in zip(
                    (top, left), (bottom, right), pooled, sizes, strict=True
                )
            ]
            for rows in bins[0]:
                for places in bins[1]:
                    part = image[:, rows, places].reshape(x.shape[1], -1)
                    empty = not part.shape[-1]
                    parts.append(zero if empty else call.semantics.along(largest, part))
        if not parts:
            raise Unsupported("no region")
        shape = (len(regions), *pooled, x.shape[1])
        return Tensor(np.moveaxis(np.stack(parts).reshape(shape), -1, 1), x.dtype)

    def admits(self, use: Use) -> ValueHint | None:
        if use.index != 1 or use.shape is None:
            return None
        corner = use.rng.integers(0, 3, (use.shape[0], 2))
        extent = use.rng.integers(0, 4, corner.shape)
        return exactly(np.hstack([np.zeros((len(corner), 1)), corner, corner + extent]))


class MaxUnpool(Sampling):
    """An image with the elements that MaxPool has kept, each at its place."""

    steers, rounds = (1, 2), False
    shapes, numbers = ((1, 1, 2, 2), (1, 1, 2, 2)), {1: (0, 2, 6, 8)}

    def computed(self, call: Call) -> Tensor:
        x, places = call.required(0), call.static(1).astype(np.int64).reshape(-1)
        kernel = call.integers("kernel_shape") or []
        strides = call.integers("strides") or [1] * len(kernel)
        pads = np.reshape(call.integers("pads") or [0] * 2 * len(kernel), (2, -1)).sum(0)
        spatial = [
            (size - 1) * step - pad + span
            for size, step, pad, span in zip(x.shape[2:], strides, pads, kernel, strict=True)
        ]
        shape = [*x.shape[:2], *spatial]
        if call.given(2) is not None and call.static_ints(2) != shape:
            # The standard reads places in the shape without it, engines in this one.
            raise Unsupported("MaxUnpool into a shape of its own")
        zeros = np.zeros(math.prod(call.small(shape)), x.dtype.numpy())
        found = call.semantics.constant(zeros, x.dtype).copy()
        if len(set(places)) < len(places):
            raise Unsupported("MaxUnpool that writes to a place twice")
        found[places] = x.data.reshape(-1)
        return Tensor(found.reshape(shape), x.dtype)

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


def boxes(use: Use) -> ValueHint | None:
    """Return corners of boxes, the lower one first, within 5 of the origin."""
    shape = use.shape
    if shape is None:
        return None
    corner = use.rng.uniform(0, 4, (*shape[:-1], 2))
    extent = use.rng.uniform(1, 4, (*shape[:-1], 2))
    return exactly(np.concatenate([corner, corner + extent], -1))


def _reflected(at: Array, low: float, high: float) -> Array:
    """Return coordinates, turned back at two borders until they lie between them."""
    span = high - low
    if not span:
        return np.full_like(at, low)
    beyond = np.where(at < low, low - at, np.maximum(at - high, 0))
    times, rest = np.divmod(beyond, span)
    from_low = (at < low) == (times % 2 == 0)
    turned = np.where(from_low, low + rest, high - rest)
    return np.asarray(np.where((at < low) | (at > high), turned, at).astype(at.dtype))


def _half_away(numbers: Array) -> Array:
    """Round numbers as C does: halves away from 0."""
    return np.sign(numbers) * np.floor(np.abs(numbers) + 0.5)


def _bins(start: int, end: int, count: int, size: int) -> list[slice]:
    """Return the places of each bin of a region along an axis, cut to the image."""
    step = max(end - start + 1, 1) / count
    ends = [
        (math.floor(k * step) + start, math.ceil((k + 1) * step) + start) for k in range(count)
    ]
    return [slice(*(min(max(e, 0), size) for e in pair)) for pair in ends]
