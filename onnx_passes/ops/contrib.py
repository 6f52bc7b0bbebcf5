"""Operators outside of the standard, and those that are described by their inputs alone.

They are operators of other domains, and those on words, pictures and chance.
"""

import numpy as np

from onnx_passes.ops import input_hints as hints
from onnx_passes.ops.normalization import RMSNormalization
from onnx_passes.ops.operator_class import Operator


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
