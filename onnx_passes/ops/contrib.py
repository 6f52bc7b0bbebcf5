"""Operators outside of the standard, and those that are described by their inputs alone.

They are operators of other domains, early experimental ones, and those on words, pictures and
chance.
"""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.ops import input_hints as hints
from onnx_passes.ops.call import Call, Tensor, constant
from onnx_passes.ops.elementwise import Elementwise
from onnx_passes.ops.movement import Slice
from onnx_passes.ops.node_queries import RANDOM
from onnx_passes.ops.normalization import RMSNormalization
from onnx_passes.ops.operator_class import Algebra, Composition, Operator
from onnx_passes.ops.semantics import Misfit, Scalar, TypedPrimitives, Unsupported


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


class Affine(Elementwise):
    """A factor times the operand, plus a number."""

    attributes = (("alpha", 1.0), ("beta", 0.0))
    algebra = Algebra(affine=(0,))

    def formula(self, a: TypedPrimitives, x: Scalar, alpha: float, beta: float) -> Scalar:
        return a.add(a.mul(alpha, x), beta)


class Scale(Elementwise):
    """A factor times the operand."""

    attributes = (("scale", 1.0),)
    algebra = Algebra(linear=(0,))

    def formula(self, a: TypedPrimitives, x: Scalar, scale: float) -> Scalar:
        return a.mul(x, scale)


class ScaledTanh(Elementwise):
    """A factor times tanh of the operand times another."""

    opaque, attributes = True, (("alpha", 1.0), ("beta", 1.0))

    def formula(self, a: TypedPrimitives, x: Scalar, alpha: float, beta: float) -> Scalar:
        return a.mul(alpha, a.tanh(a.mul(beta, x)))


class ParametricSoftplus(Elementwise):
    """A factor times log(1 + exp(x)) of the operand times another."""

    opaque, size, attributes = True, 1.0, (("alpha", 1.0), ("beta", 1.0))

    def formula(self, a: TypedPrimitives, x: Scalar, alpha: float, beta: float) -> Scalar:
        t = a.mul(beta, x)
        rest = a.log(a.add(1.0, a.exp(a.neg(a.abs(t)))))
        return a.mul(alpha, a.add(a.max(t, 0.0), rest))


class SimplifiedLayerNormalization(RMSNormalization):
    """The last axes by the root of the mean of their squares, times a factor."""


class DynamicSlice(Slice):
    """The elements between computed bounds."""


class ImageScaler(Composition):
    """An image times a factor, plus a number for each channel."""

    def computed(self, call: Call) -> Tensor:
        x, a = call.required(0), call.primitives(call.required(0).dtype)
        bias = np.float32(call.attribute("bias", ())).reshape(-1, 1, 1)
        if bias.size != x.shape[1]:
            raise Misfit(f"{bias.size} numbers for {x.shape[1]} channels")
        numbers = call.semantics.constant(bias.astype(x.dtype.numpy()), x.dtype)
        factor = call.literal(call.number("scale", 1.0), x.dtype)
        found = call.semantics.map(lambda v, b: a.add(a.mul(factor, v), b), x.data, numbers)
        return Tensor(found, x.dtype)


class Crop(Composition):
    """A part of an image."""

    rounds = False

    def computed(self, call: Call) -> Tensor:
        x, scale = call.required(0), call.integers("scale")
        left, top, right, bottom = call.integers("border") or [0, 0, 0, 0]
        height, width = x.shape[2:]
        ends = (height - bottom, width - right)
        if scale:
            ends = (top + scale[0], left + scale[1])
        if not (top < ends[0] <= height and left < ends[1] <= width):
            raise Misfit(f"a part of {height} by {width} up to {ends}")
        return Tensor(x.data[:, :, top : ends[0], left : ends[1]], x.dtype)


_PIXMAP = "P6 %d %d 255\n"
_LEAST_IMAGE = 32  # bytes, the header included

NOT_EVALUATED: Mapping[str, frozenset[str]] = {
    "words are not numbers": frozenset(
        ("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit")
    ),
    "sequences are not tensors": frozenset(
        (
            *("ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty"),
            *("SequenceErase", "SequenceInsert", "SequenceLength", "SequenceMap"),
            "SplitToSequence",
        )
    ),
    "decoders of pictures differ": frozenset(("ImageDecoder",)),
    "they draw random numbers": RANDOM,
    "they copy between devices": frozenset(("MemcpyFromHost", "MemcpyToHost")),
}
"""Operators of the main domain that have no formula, by the reason."""


class TfIdfVectorizer(Composition):
    """How often each sequence of numbers of a pool occurs in a row."""

    def computed(self, call: Call) -> Tensor:
        pool = call.integers("pool_int64s")
        if pool is None:
            raise Unsupported("TfIdfVectorizer of words")
        rows, places = call.static(0), call.integers("ngram_indexes") or []
        least, most = call.integer("min_gram_length", 1), call.integer("max_gram_length", 1)
        skips = call.integer("max_skip_count", 0)
        known: dict[tuple[int, ...], int] = {}
        ends = [*(call.integers("ngram_counts") or ()), len(pool)]
        for size, (start, end) in enumerate(itertools.pairwise(ends), 1):
            for at in range(start, end, size):
                known[tuple(pool[at : at + size])] = len(known)
        counts = np.zeros((rows.size // max(rows.shape[-1], 1), max(places, default=-1) + 1))
        for row, found in zip(rows.reshape(len(counts), -1), counts, strict=True):
            for step, size in itertools.product(range(1, skips + 2), range(least, most + 1)):
                if size == 1 and step > 1:
                    continue
                for start in range(len(row) - (size - 1) * step):
                    number = known.get(tuple(row[start::step][:size].tolist()))
                    if number is not None:
                        found[places[number]] += 1
        weights, mode = np.ones(counts.shape[1]), call.text("mode", "TF")
        given = call.attribute("weights", None)
        if mode != "TF" and given is not None:
            weights[places] = np.float32(given)
        counts = (counts > 0 if mode == "IDF" else counts) * weights
        shape = (*rows.shape[:-1], counts.shape[1])
        made = counts.astype(np.float32).reshape(shape)
        return constant(made, ir.DataType.FLOAT, call.semantics)

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


class StringNormalizer(Operator):
    """Words in one case, some left out."""

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
