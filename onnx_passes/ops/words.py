"""Operators on words, on pictures in files and on chance, as far as their inputs go."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.call import Call, Tensor, constant
from onnx_passes.ops.composition import Composition
from onnx_passes.ops.input_hints import ValueHint, between, exactly
from onnx_passes.ops.operator_class import Operator
from onnx_passes.ops.randomness import RANDOM
from onnx_passes.ops.semantics import Unsupported
from onnx_passes.ops.suggestions import Choices, Known, Operand
from onnx_passes.ops.use import Use

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

    def admits(self, use: Use) -> ValueHint | None:
        pool = use.integers("pool_int64s")
        if use.index:
            return None
        words = use.strings("pool_strings")
        return between(min(pool), max(pool)) if pool else ValueHint(words=words)

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        return Operand(c.pick(((12,), (2, 6))), ir.DataType.INT64)

    def options(self, name: str, known: Known) -> Sequence[object]:
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

    def admits(self, use: Use) -> ValueHint | None:
        words = use.strings("stopwords")
        if not words or use.index:
            return None
        return ValueHint(words=(*words, "Alpha", "beta", "Gamma"))


class ImageDecoder(Operator):
    """The pixels of a picture in a file."""

    def admits(self, use: Use) -> ValueHint | None:
        # A portable pixmap; decoders ignore what follows its pixels.
        length = use.length()
        if use.index or length is None or length < _LEAST_IMAGE:
            return None
        width = int(np.sqrt((length - _LEAST_IMAGE // 2) // 3))
        header = (_PIXMAP % (width, width)).encode()
        return exactly([*header, *use.rng.integers(0, 256, length - len(header))])


class Bernoulli(Operator):
    """Ones with the probabilities given."""

    def admits(self, use: Use) -> ValueHint | None:
        return None if use.index else between(0, 1)


class Multinomial(Operator):
    """Places, drawn by weights."""

    in_range = (0,)
