"""Operators on regions, columns and moved places of an image."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from onnx_passes.ops import image_changes
from onnx_passes.ops.call import Call, Tensor
from onnx_passes.ops.composition import measured_by
from onnx_passes.ops.convolution import convolved
from onnx_passes.ops.input_hints import ValueHint, exactly
from onnx_passes.ops.interpolation import Taps, crossed, interpolated, linear_taps, rows_of
from onnx_passes.ops.primitives import TypedPrimitives
from onnx_passes.ops.sampling import Sampling, boxes
from onnx_passes.ops.semantics import Elements, Misfit, Unsupported
from onnx_passes.ops.suggestions import Choices, Known, Operand, Shape, first
from onnx_passes.ops.use import Use, below
from onnx_passes.ops.window_places import SlidingWindow


class RoiAlign(Sampling):
    """Regions of an image, in one size."""

    changes = image_changes.ROI_ALIGN

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

    def admits(self, use: Use) -> ValueHint | None:
        if use.index == 2:  # which image of the batch
            return below(use.dimension(0, 0))
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

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        x = first(known, (1, 2, 4, 4))
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
