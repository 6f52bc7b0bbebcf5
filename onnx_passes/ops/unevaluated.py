"""Operators without a formula, as no rule rewrites them, and those of other domains.

What is described are the operands that steer sizes, what inputs may be, and costs.
"""

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes.ops import input_hints as hints
from onnx_passes.ops import versions
from onnx_passes.ops.call import Operands
from onnx_passes.ops.normalization import RMSNormalization
from onnx_passes.ops.operator_class import Operator


class Sampling(Operator, abstract=True):
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

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        if use.index != 1 or use.shape is None:
            return None
        corner = use.rng.integers(0, 3, (use.shape[0], 2))
        extent = use.rng.integers(0, 4, corner.shape)
        return hints.exactly(np.hstack([np.zeros((len(corner), 1)), corner, corner + extent]))


class MaxUnpool(Sampling):
    """An image with the elements that MaxPool has kept, each at its place."""

    steers = (1, 2)
    shapes, numbers = ((1, 1, 2, 2), (1, 1, 2, 2)), {1: (0, 2, 6, 8)}

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


class RoiAlign(Sampling):
    """Regions of an image, in one size."""

    changes = versions.ROI_ALIGN

    steers = (2,)

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


class DFT(Operator):
    """The spectrum of a signal along an axis, or the signal of a spectrum."""

    changes = versions.DFT

    steers = (1, 2)

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        data, output = use.input_shape(0), use.output_shape()
        if use.index == 2:
            # The last axis holds the real and imaginary parts.
            return hints.below(max(1, (1 if data is None else len(data)) - 1))
        if use.index != 1 or data is None:
            return None
        given = use.constant(2)
        axis = use.integer("axis", 1) if given is None else int(given.reshape(-1)[0])
        onesided = use.integer("onesided")
        return hints.exactly(data[axis] if output is None or onesided else output[axis])

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        if index:
            number = c.pick((4, 5, 8)) if index == 1 else 1
            return hints.Operand((), ir.DataType.INT64, (number,), constant=True)
        return c.data(c.pick(((1, 8, 1), (2, 5, 2), (1, 4, 3, 1))))

    def options(self, name: str, known: hints.Known) -> Sequence[object]:
        return (1,) if name == "axis" else ()


class _Window(Operator, abstract=True):
    """The weights of a frame of a signal."""

    steers = (0,)

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        return hints.Operand((), ir.DataType.INT64, (c.pick((4, 7, 10)),), constant=True)

    def options(self, name: str, known: hints.Known) -> Sequence[object]:
        return (1, 11) if name == "output_datatype" else ()

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        output = use.output_shape()
        return hints.exactly(8 if output is None else output[0])


class HannWindow(_Window):
    """A raised cosine."""


class HammingWindow(_Window):
    """A raised cosine that does not end at zero."""


class BlackmanWindow(_Window):
    """Two cosines, which leave less beside a peak."""


class STFT(Operator):
    """The spectra of the frames of a signal."""

    steers = (1, 3)

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        if index in (1, 3):
            return hints.Operand(
                (), ir.DataType.INT64, (2 if index == 1 else 4,), constant=True
            )
        return c.data((1, 8, 1) if index == 0 else (4,))

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        frame = _frame_size(use)
        if use.index == 3:
            return None if frame is None else hints.exactly(frame)
        if use.index != 1:
            return None
        # Frames of the output: 1 + (signal - frame) // step.
        signal, output = use.input_shape(0), use.output_shape()
        if signal is None or output is None or frame is None or output[1] < 2:
            return hints.exactly(2)
        return hints.exactly(max(1, (signal[1] - frame) // (output[1] - 1)))


class MelWeightMatrix(Operator):
    """The matrix that takes a spectrum to the mel scale."""

    steers = (0, 1, 2, 3, 4)

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        if index < 3:
            number = (c.pick((3, 5)), c.pick((32, 64)), 8192)[index]
            return hints.Operand((), ir.DataType.INT64, (number,), constant=True)
        return hints.Operand((), ir.DataType.FLOAT, constant=True, positive=True)

    def options(self, name: str, known: hints.Known) -> Sequence[object]:
        return (1, 11) if name == "output_datatype" else ()

    def admits(self, use: hints.Use) -> hints.ValueHint:
        output = use.output_shape()
        if output is not None and use.index < 2:
            return hints.exactly(output[1] if use.index == 0 else 2 * (output[0] - 1))
        return hints.exactly((8, 16, 8192, 0.0, 4000.0)[use.index])


def _frame_size(use: hints.Use) -> int | None:
    window, output = use.input_shape(2), use.output_shape()
    if window is not None:
        return window[0]
    if output is None:
        return 4
    bins = output[2]
    return 2 * (bins - 1) if use.integer("onesided", 1) else bins


class _Recurrent(Operator, abstract=True):
    """A layer that reads a sequence step by step.

    ``gates`` is the number of sums of a step.
    """

    gates: ClassVar[int]
    steers = (4,)
    wants = ("hidden_size",)

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        x = hints.first(known, (4, 2, 3))
        batch, width = x[-2:] if len(x) == 3 else (2, 3)
        ways = 2 if c.fixed.get("direction") == "bidirectional" else 1
        weights = known[1] if len(known) > 1 else None
        hidden = weights[1] // self.gates if weights and len(weights) == 3 else 2
        if index == 4:
            return hints.Operand((batch,), ir.DataType.INT32, constant=True, positive=True)
        rows = self.gates * hidden
        shapes: dict[int, hints.Shape] = {
            0: (4, batch, width),
            1: (ways, rows, width),
            2: (ways, rows, hidden),
            3: (ways, 2 * rows),
            7: (ways, 3 * hidden),
        }
        return c.data(shapes.get(index, (ways, batch, hidden)))

    def options(self, name: str, known: hints.Known) -> Sequence[object]:
        recurrence = known[2] if len(known) > 2 else None
        found: dict[str, Sequence[object]] = {
            "hidden_size": recurrence[-1:] if recurrence else (2,),
            "direction": ("forward", "reverse"),
            "layout": (0,),
            "activations": (None,),
            "clip": (None, 2.0),
        }
        return found.get(name, ())

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        length = use.dimension(0, 1 if use.integer("layout") else 0) or 1
        return hints.between(1, length) if use.index == 4 else None

    def cost(self, operands: Operands) -> int:
        data, (directions, rows, width) = operands.sizes(0), operands.sizes(1)
        steps = data[0] * data[1]  # the sequence times the batch, in whichever order
        hidden = rows // self.gates
        sums = 2 * rows * (width + hidden) + 2 * rows
        # The gates' functions (sigmoid: 4) and what combines them.
        return directions * steps * (sums + 4 * rows + 4 * hidden * (self.gates > 1))


class RNN(_Recurrent):
    """A simple recurrent layer."""

    gates = 1


class GRU(_Recurrent):
    """A gated recurrent layer."""

    gates = 3


class LSTM(_Recurrent):
    """A long short-term memory."""

    gates = 4


class Unique(Operator):
    """The elements or slices that differ, and where they are."""

    chooses, in_range = (0,), (1, 2, 3)


class TensorScatter(Operator):
    """A cache with an update written at a place."""

    free, steers = True, (2,)

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        axis = use.integer("axis", -2)
        cache, update = use.dimension(0, axis), use.dimension(1, axis)
        size = None if cache is None or update is None else cache - update + 1
        return hints.below(size) if use.index == 2 else None

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        cache = hints.first(known, (2, 3, 4, 5))
        if index == 2:
            return hints.Operand(cache[:1], ir.DataType.INT64, (0,) * cache[0], constant=True)
        return c.data((2, 3, 4, 5) if index == 0 else (*cache[:-2], 2, cache[-1]))

    def options(self, name: str, known: hints.Known) -> Sequence[object]:
        found: dict[str, Sequence[object]] = {"axis": (-2, 2), "mode": ("linear", "circular")}
        return found.get(name, ())


class NonMaxSuppression(Operator):
    """The boxes of great scores that do not overlap with better ones, and their places."""

    in_range = (0,)

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        match use.index:
            case 0:
                return boxes(use)
            case 2:
                return hints.exactly(3)
            case 3:
                return hints.between(0, 1)
        return None

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        if index > 2:
            return hints.Operand((1,), ir.DataType.FLOAT, constant=False)
        if index == 2:
            return hints.Operand((1,), ir.DataType.INT64, (c.pick((1, 2, 3)),), constant=True)
        return hints.Operand(((2, 5, 4), (2, 3, 5))[index], ir.DataType.FLOAT, constant=False)


class Det(Operator):
    """The determinant of each matrix."""

    def cost(self, operands: Operands) -> int | None:
        return operands.made() * operands.sizes(0)[-1] ** 3

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        return c.data(c.pick(((2, 2), (3, 3), (2, 3, 3))))


class TfIdfVectorizer(Operator):
    """How often each sequence of numbers of a pool occurs in a row."""

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        pool = use.integers("pool_int64s")
        if use.index:
            return None
        words = use.strings("pool_strings")
        return hints.between(min(pool), max(pool)) if pool else hints.ValueHint(words=words)

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        return hints.Operand(c.pick(((12,), (2, 6))), ir.DataType.INT64)

    def options(self, name: str, known: hints.Known) -> Sequence[object]:
        found: dict[str, Sequence[object]] = {
            "pool_int64s": ((2, 3, 5, 4, 5, 6, 7, 8, 6, 7),),
            "pool_strings": (None,),
            "ngram_counts": ((0, 4),),
            "ngram_indexes": ((0, 1, 2, 3, 4, 5, 6),),
            "weights": ((1.0, 2.0, 0.5, 1.0, 3.0, 1.0, 0.25),),
            "min_gram_length": (1, 2),
            "max_gram_length": (2,),
            "max_skip_count": (0, 1, 3),
            "mode": ("TF", "IDF", "TFIDF"),
        }
        return found.get(name, ())


class _Microsoft(Operator, abstract=True):
    domain = "com.microsoft"


class MicrosoftRotaryEmbedding(_Microsoft, named="RotaryEmbedding"):
    """Two halves, turned by the angles of positions in a cache."""

    steers = (1,)

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        if use.index != 1:
            return None
        cached, fed = use.dimension(2, 0), use.input_shape(0)
        if use.shape == (1,) and cached is not None and fed is not None:
            return hints.between(0, max(0, cached - fed[-2]))  # an offset, not a position
        return hints.below(cached)


class MicrosoftAttention(_Microsoft, named="Attention"):
    """Attention with weights, under a mask."""

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        return hints.between(0, 1) if use.index == 4 else None


class EmbedLayerNormalization(_Microsoft):
    """Rows of tables of words, places and segments, added up and normalised."""

    steers = (0, 1)

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        if use.index < 2:
            return hints.below(use.dimension((2, 4)[use.index], 0))
        return hints.between(0, 1) if use.index == 4 else None


class GatherBlockQuantized(_Microsoft):
    """Rows of a quantised table."""

    steers = (1,)

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        size = use.dimension(0, use.integer("gather_axis"))
        return hints.below(size) if use.index == 1 else None


class GroupQueryAttention(_Microsoft):
    """Attention with a cache, whose keys several heads share."""

    steers = (5, 6)

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        past, query = use.dimension(3, 2), use.dimension(0, 1)
        if query is None or use.index not in self.steers:
            return None
        keys = (past or 0) + query
        return hints.exactly(keys) if use.index == 6 else hints.between(keys - 1, keys - 1)


class ArrayFeatureExtractor(Operator):
    """Columns of a matrix."""

    domain, steers = "ai.onnx.ml", (1,)

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        return hints.below(use.dimension(0, -1)) if use.index == 1 else None


class _Categories(Operator, abstract=True):
    domain, in_range = "ai.onnx.ml", (0,)

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        words = use.strings("keys_strings") or use.strings("cats_strings")
        return hints.ValueHint(words=words) if words and use.index == 0 else None


class LabelEncoder(_Categories):
    """A value for each key."""


class CategoryMapper(_Categories):
    """A number for each word, or a word for each number."""


class OneHotEncoder(_Categories):
    """Ones where the category is."""


class Adagrad(Operator):
    """A step of training."""

    domain = "ai.onnx.preview.training"

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        return hints.between(0.1, None) if use.index == 2 else None


class SimplifiedLayerNormalization(RMSNormalization):
    """The last axes by the root of the mean of their squares, times a factor."""


_PIXMAP = "P6 %d %d 255\n"
_LEAST_IMAGE = 32  # bytes, the header included


class StringNormalizer(Operator):
    """Words in one case, some left out."""

    moves = (0,)

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        words = use.strings("stopwords")
        if not words or use.index:
            return None
        return hints.ValueHint(words=(*words, "Alpha", "beta", "Gamma"))


class ImageDecoder(Operator):
    """The pixels of a picture in a file."""

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        # A portable pixmap; decoders ignore what follows its pixels.
        length = use.length()
        if use.index or length is None or length < _LEAST_IMAGE:
            return None
        width = int(np.sqrt((length - _LEAST_IMAGE // 2) // 3))
        header = (_PIXMAP % (width, width)).encode()
        return hints.exactly([*header, *use.rng.integers(0, 256, length - len(header))])


class Bernoulli(Operator):
    """Ones with the probabilities given."""

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        return None if use.index else hints.between(0, 1)


class Multinomial(Operator):
    """Places, drawn by weights."""

    in_range = (0,)
