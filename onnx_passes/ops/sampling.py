"""Operators that read an image at computed places, or in regions and columns."""

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops import input_hints as hints
from onnx_passes.ops import versions
from onnx_passes.ops.call import Call, Tensor
from onnx_passes.ops.convolution import SlidingWindow, convolved
from onnx_passes.ops.operator_class import Composition, measured_by
from onnx_passes.ops.resizing import (
    Taps,
    crossed,
    cubic_taps,
    interpolated,
    linear_taps,
    nearest_tap,
    rows_of,
)
from onnx_passes.ops.semantics import Elements, Misfit, Scalar, TypedPrimitives, Unsupported


class Sampling(Composition, abstract=True):
    """An operator whose operands have shapes of their own.

    ``shapes`` fit one another; ``numbers`` are integers that must be known. Both are by
    operand. ``values`` are those of attributes.
    """

    images = True
    shapes: ClassVar[tuple[hints.Shape, ...]]
    numbers: ClassVar[dict[int, tuple[int, ...]]] = {}
    values: ClassVar[dict[str, Sequence[object]]] = {}

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        shape = self.shapes[min(index, len(self.shapes) - 1)]
        if index in self.numbers:
            return hints.Operand(shape, ir.DataType.INT64, self.numbers[index], constant=True)
        return c.data(shape)

    def options(self, name: str, known: hints.Known) -> Sequence[object]:
        return self.values.get(name, ())


class GridSample(Sampling):
    """An image at the places that a grid names."""

    changes = versions.GRID_SAMPLE

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

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        x = hints.first(known, self.shapes[0])
        axes = max(len(x) - 2, 1)
        return c.data((*x[:1], *(2, 3, 4)[:axes], axes) if index else x)

    values: ClassVar = {
        "mode": (None, "linear", "nearest", "cubic"),
        "padding_mode": (None, "zeros", "border", "reflection"),
    }

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        return hints.between(-1, 1) if use.index == 1 else None


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

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        theta, output = use.input_shape(0), use.output_shape()
        if use.index == 0:
            return hints.between(-1, 1)
        if use.index != 1 or theta is None:
            return None
        spatial = [3] * theta[1] if output is None else list(output[1:-1])
        return hints.exactly([theta[0], 1, *spatial])


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

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        if use.index != 1 or use.shape is None:
            return None
        corner = use.rng.integers(0, 3, (use.shape[0], 2))
        extent = use.rng.integers(0, 4, corner.shape)
        return hints.exactly(np.hstack([np.zeros((len(corner), 1)), corner, corner + extent]))


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

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        if use.index == 1 and use.shape is not None:
            # Flat places in the output, which has at least as many elements as the input.
            return hints.exactly(use.rng.permutation(math.prod(use.shape)).reshape(use.shape))
        output = use.output_shape() if use.index == 2 else None
        return None if output is None else hints.exactly(output)


def boxes(use: hints.Use) -> hints.ValueHint | None:
    """Return corners of boxes, the lower one first, within 5 of the origin."""
    shape = use.shape
    if shape is None:
        return None
    corner = use.rng.uniform(0, 4, (*shape[:-1], 2))
    extent = use.rng.uniform(1, 4, (*shape[:-1], 2))
    return hints.exactly(np.concatenate([corner, corner + extent], -1))


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


class RoiAlign(Sampling):
    """Regions of an image, in one size."""

    changes = versions.ROI_ALIGN

    steers = (2,)

    def computed(self, call: Call) -> Tensor:
        x, regions, which = call.required(0), call.static(1), call.static_ints(2)
        height, width = call.integer("output_height", 1), call.integer("output_width", 1)
        default = "half_pixel" if call.opset >= 16 else "output_half_pixel"
        half = call.text("coordinate_transformation_mode", default) == "half_pixel"
        sizes, a = x.shape[2:], call.primitives(x.dtype)
        flat, parts = x.data.reshape(*x.shape[:2], -1), []
        number = regions.dtype.type
        scale, offset = number(call.number("spatial_scale", 1.0)), number(half * 0.5)
        largest = call.text("mode", "avg") == "max"
        for region, image in zip(regions * scale - offset, which, strict=True):
            axes = [
                _samples(call, region[k], region[k + 2], count, size, half)
                for k, count, size in ((1, height, sizes[0]), (0, width, sizes[1]))
            ]
            (down, n), (across, m) = axes
            # Each bin reads a grid of n by m places between elements.
            pair = [
                Taps(
                    np.repeat(down.places, width * m, 0), np.repeat(down.weights, width * m, 0)
                ),
                Taps(
                    np.tile(across.places, (height * n, 1)),
                    np.tile(across.weights, (height * n, 1)),
                ),
            ]
            taps = crossed(pair, sizes)
            if largest:
                parts.append(
                    _greatest(
                        call, a, Tensor(flat[image], x.dtype), taps, (height, n, width, m)
                    )
                )
                continue
            found = interpolated(call, Tensor(flat[image], x.dtype), taps, max(sizes)).data
            rows = found.reshape(-1, height, n, width, m).swapaxes(2, 3)
            rows = rows.reshape(-1, height, width, n * m)
            total = call.semantics.along(a.total, rows)
            parts.append(call.semantics.map(lambda v, c=n * m: a.div(v, float(c)), total))
        if not parts:
            raise Unsupported("no region")
        return Tensor(np.stack(parts).reshape(len(parts), x.shape[1], height, width), x.dtype)

    shapes, numbers = ((2, 3, 4, 4), (2, 4), (2,)), {2: (0, 1)}
    values: ClassVar = {
        "mode": (None, "avg", "max"),
        "coordinate_transformation_mode": (None, "half_pixel", "output_half_pixel"),
        "output_height": (1, 2),
        "output_width": (1, 3),
        "spatial_scale": (None, 1.0, 0.5),
    }

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        if use.index == 2:  # which image of the batch
            return hints.below(use.dimension(0, 0))
        return boxes(use) if use.index == 1 else None


class DeformConv(Sampling):
    """A convolution whose kernel reads at places that are moved."""

    def computed(self, call: Call) -> Tensor:
        x, w, moved = call.required(0), call.required(1), call.static(2)
        bias, mask = call.given(3), call.given(4)
        group, parts = call.integer("group", 1), call.integer("offset_group", 1)
        window = SlidingWindow.of(call, x.shape[2:], w.shape[2:])
        samples, channels = x.shape[:2]
        places, offsets = math.prod(window.output), math.prod(window.kernel)
        if channels != w.shape[1] * group or len(window.image) != 2:
            raise Misfit(f"DeformConv of {x.shape} with {w.shape}")
        moves = moved.reshape(samples, parts, offsets, 2, places)
        bases = [
            np.add.outer(np.arange(k) * d, np.arange(o) * s - b)
            for o, s, k, d, b in zip(
                *(
                    window.output,
                    window.strides,
                    window.kernel,
                    window.dilations,
                    window.before,
                ),
                strict=True,
            )
        ]
        shape = (*window.kernel, *window.output)
        down = np.broadcast_to(bases[0][:, None, :, None], shape).reshape(offsets, places)
        right = np.broadcast_to(bases[1][None, :, None, :], shape).reshape(offsets, places)
        flat = x.data.reshape(samples, parts, channels // parts, -1)
        read = []
        for sample, part in np.ndindex(samples, parts):
            at = [
                linear_taps((base + moves[sample, part, :, k]).astype(moved.dtype).reshape(-1))
                for k, base in enumerate((down, right))
            ]
            source = Tensor(flat[sample, part], x.dtype)
            taps = crossed(at, window.image)
            read.append(interpolated(call, source, taps, 4 * max(window.image)).data)
        image = np.stack(read).reshape(samples, channels, offsets, places)
        a = call.primitives(x.dtype)
        if mask is not None:
            kept = mask.data.reshape(samples, parts, 1, offsets, places)
            wide = image.reshape(samples, parts, -1, offsets, places)
            image = call.semantics.map(a.mul, wide, kept).reshape(image.shape)
        rows = image.swapaxes(2, 3).reshape(samples, group, channels // group, places, offsets)
        kernel = w.data.reshape(group, w.shape[0] // group, w.shape[1], offsets)
        return convolved(call, rows, kernel, bias, x, window.output)

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        x = hints.first(known, (1, 2, 4, 4))
        batch, channels = x[:2] if len(x) == 4 else (1, 2)
        shapes = (x, (3, channels, 1, 1), (batch, 2, *x[2:]), (3,), (batch, 1, *x[2:]))
        return c.data(shapes[index])

    values: ClassVar = dict.fromkeys(
        ("group", "offset_group", "strides", "pads", "dilations", "kernel_shape"), (None,)
    )


class Col2Im(Sampling):
    """The image whose columns are given."""

    steers, images = (1, 2), False

    def computed(self, call: Call) -> Tensor:
        x, image, block = call.required(0), call.static_ints(1), call.static_ints(2)
        window = SlidingWindow.of(call, image, block)
        places = window.places()
        size = math.prod(block)
        if x.data.ndim != 3 or x.shape[1] % size or x.shape[2] != len(places):
            raise Misfit(f"the columns {x.shape} of {image} in blocks of {block}")
        channels = x.shape[1] // size
        flat = x.data.reshape(x.shape[0], channels, -1)
        # Which columns each element of the image is the sum of.
        sources: list[list[int]] = [[] for _ in range(math.prod(call.small(image)))]
        for (place, offset), at in np.ndenumerate(places):
            if at >= 0:
                sources[at].append(offset * len(places) + place)
        most = max(map(len, sources), default=0)
        table = np.array([row + [-1] * (most - len(row)) for row in sources], np.int64)
        taps = Taps(table.reshape(len(sources), most), np.ones((len(sources), most)))
        rows = rows_of(call, flat, taps, x.dtype)
        found = call.semantics.along(call.primitives(x.dtype).total, rows)
        made = measured_by(call, Tensor(found, x.dtype), rows)
        return Tensor(made.data.reshape(x.shape[0], channels, *image), x.dtype)

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        x = hints.first(known, (1, 8, 9))
        if index == 0:
            return c.data(x)
        # Columns that do not come from blocks of 2 by 2 are those of single elements.
        blocks = x[1:] == (8, 9)
        if index == 1:
            return c.integers(*((4, 4) if blocks else (1, math.prod(x[-1:]))))
        return c.integers(*((2, 2) if blocks else (1, 1)))

    values: ClassVar = dict.fromkeys(("strides", "pads", "dilations"), (None,))

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        data, output, length = use.input_shape(0), use.output_shape(), use.length()
        if use.index == 1 and output is not None:
            return hints.exactly(output[2:])
        if use.index not in (1, 2) or data is None or length is None:
            return None
        if use.index == 1:
            # One channel, and blocks of one row: as many places as there are columns.
            return hints.exactly([1] * (length - 1) + [data[1] + data[2] - 1])
        size = data[1] // output[1] if output is not None else data[1]
        if length == 2:
            return hints.exactly(_block_of(use, size, data[2], output))
        return hints.exactly([1] * (length - 1) + [size])


def _block_of(use: hints.Use, size: int, blocks: int, output: hints.Shape | None) -> list[int]:
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


def _samples(
    call: Call, start: float, end: float, count: int, size: int, half: bool
) -> tuple[Taps, int]:
    """Return the taps of a region along an axis, and how many places each bin reads."""
    number = np.asarray(start).dtype.type
    extent = end - start if half else max(end - start, number(1))
    step = number(extent / number(count))
    each = call.integer("sampling_ratio", 0) or math.ceil(extent / count)
    if each < 1:
        raise Unsupported("a region of no extent")
    bins, samples = np.divmod(np.arange(count * each), each)
    at = start + bins.astype(number) * step
    at = at + (samples.astype(number) + number(0.5)) * step / number(each)
    outside = (at < -1) | (at > size)
    taps = linear_taps(np.clip(at, 0, size - 1).astype(number))
    places = np.minimum(taps.places, size - 1)
    return Taps(np.where(outside[:, None], -1, places), taps.weights), each


def _greatest(
    call: Call, a: TypedPrimitives, image: Tensor, taps: Taps, bins: tuple[int, ...]
) -> Elements:
    """Return the greatest weighed element of each bin; what is read is not added up."""
    height, n, width, _ = bins
    rows = rows_of(call, image.data, taps, image.dtype)
    numbers = call.semantics.constant(taps.weights.astype(image.dtype.numpy()), image.dtype)
    weighed = Tensor(call.semantics.map(a.mul, rows, numbers), image.dtype)
    made = measured_by(call, weighed, rows[..., None], 8.0).data
    made = made.reshape(len(made), height, n, width, -1).swapaxes(2, 3)
    return call.semantics.along(
        lambda row: a.fold("max", row), made.reshape(len(made), height, width, -1)
    )
