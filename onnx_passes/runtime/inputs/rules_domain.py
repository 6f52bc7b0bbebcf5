"""Inputs on which an operator is defined, or means something, only in part of their type."""

from __future__ import annotations

import numpy as np

from onnx_passes.ops.input_hints import ValueHint, between, exactly
from onnx_passes.ops.sampling import boxes
from onnx_passes.ops.use import Use, rule

_ML = "ai.onnx.ml"
_MICROSOFT = "com.microsoft"
_PIXMAP = "P6 %d %d 255\n"
_LEAST_IMAGE = 32  # bytes, the header included


@rule(0, "Bernoulli")
@rule(3, "NonMaxSuppression")
def _probability(use: Use) -> ValueHint:
    del use
    return between(0, 1)


@rule(2, "NonMaxSuppression")
def _some_boxes(use: Use) -> ValueHint:
    del use
    return exactly(3)


rule(0, "NonMaxSuppression")(boxes)


@rule(0, "LabelEncoder", "CategoryMapper", "OneHotEncoder", domain=_ML)
def _categories(use: Use) -> ValueHint | None:
    words = use.strings("keys_strings") or use.strings("cats_strings")
    return ValueHint(words=words) if words else None


@rule(0, "StringNormalizer")
def _stopwords(use: Use) -> ValueHint | None:
    words = use.strings("stopwords")
    return ValueHint(words=(*words, "Alpha", "beta", "Gamma")) if words else None


@rule(0, "TfIdfVectorizer")
def _pool(use: Use) -> ValueHint | None:
    pool = use.integers("pool_int64s")
    return (
        between(min(pool), max(pool)) if pool else ValueHint(words=use.strings("pool_strings"))
    )


@rule(0, "ImageDecoder")
def _image(use: Use) -> ValueHint | None:
    """Return a portable pixmap; decoders ignore what follows its pixels."""
    length = use.length()
    if length is None or length < _LEAST_IMAGE:
        return None
    width = int(np.sqrt((length - _LEAST_IMAGE // 2) // 3))
    header = (_PIXMAP % (width, width)).encode()
    return exactly([*header, *use.rng.integers(0, 256, length - len(header))])


@rule(2, "Adagrad", domain="ai.onnx.preview.training")
def _accumulated(use: Use) -> ValueHint:
    del use
    return between(0.1, None)


@rule(4, "EmbedLayerNormalization", "Attention", domain=_MICROSOFT)
def _mask(use: Use) -> ValueHint:
    del use
    return between(0, 1)
