"""Operators of other domains than the main one, as far as their inputs go."""

from __future__ import annotations

from onnx_passes.ops.input_hints import ValueHint, between, exactly
from onnx_passes.ops.operator_class import Operator
from onnx_passes.ops.use import Use, below


class _Microsoft(Operator, abstract=True):
    domain = "com.microsoft"


class MicrosoftRotaryEmbedding(_Microsoft, named="RotaryEmbedding"):
    """Two halves, turned by the angles of positions in a cache."""

    steers = (1,)

    def admits(self, use: Use) -> ValueHint | None:
        if use.index != 1:
            return None
        cached, fed = use.dimension(2, 0), use.input_shape(0)
        if use.shape == (1,) and cached is not None and fed is not None:
            return between(0, max(0, cached - fed[-2]))  # an offset, not a position
        return below(cached)


class MicrosoftAttention(_Microsoft, named="Attention"):
    """Attention with weights, under a mask."""

    def admits(self, use: Use) -> ValueHint | None:
        return between(0, 1) if use.index == 4 else None


class EmbedLayerNormalization(_Microsoft):
    """Rows of tables of words, places and segments, added up and normalised."""

    steers = (0, 1)

    def admits(self, use: Use) -> ValueHint | None:
        if use.index < 2:
            return below(use.dimension((2, 4)[use.index], 0))
        return between(0, 1) if use.index == 4 else None


class GatherBlockQuantized(_Microsoft):
    """Rows of a quantised table."""

    steers = (1,)

    def admits(self, use: Use) -> ValueHint | None:
        size = use.dimension(0, use.integer("gather_axis"))
        return below(size) if use.index == 1 else None


class GroupQueryAttention(_Microsoft):
    """Attention with a cache, whose keys several heads share."""

    steers = (5, 6)

    def admits(self, use: Use) -> ValueHint | None:
        past, query = use.dimension(3, 2), use.dimension(0, 1)
        if query is None or use.index not in self.steers:
            return None
        keys = (past or 0) + query
        return exactly(keys) if use.index == 6 else between(keys - 1, keys - 1)


class ArrayFeatureExtractor(Operator):
    """Columns of a matrix."""

    domain, steers = "ai.onnx.ml", (1,)

    def admits(self, use: Use) -> ValueHint | None:
        return below(use.dimension(0, -1)) if use.index == 1 else None


class _Categories(Operator, abstract=True):
    domain = "ai.onnx.ml"

    def admits(self, use: Use) -> ValueHint | None:
        words = use.strings("keys_strings") or use.strings("cats_strings")
        return ValueHint(words=words) if words and use.index == 0 else None


class LabelEncoder(_Categories):
    """A value for each key."""


class CategoryMapper(_Categories):
    """A number for each word, or a word for each number."""


class OneHotEncoder(_Categories):
    """Ones where the category is."""


class Adagrad(Operator):
    """A step of training."""

    domain = "ai.onnx.preview.training"

    def admits(self, use: Use) -> ValueHint | None:
        return between(0.1, None) if use.index == 2 else None
