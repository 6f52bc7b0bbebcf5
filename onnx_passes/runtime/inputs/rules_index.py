"""Inputs that point into another value: in range of the dimension that they index."""

from __future__ import annotations

from onnx_passes.ops.input_hints import ValueHint, between, exactly
from onnx_passes.ops.use import Use, below, rule

_MICROSOFT = "com.microsoft"


@rule(1, "ArrayFeatureExtractor", domain="ai.onnx.ml")
def _feature(use: Use) -> ValueHint:
    return below(use.dimension(0, -1))


@rule(1, "SoftmaxCrossEntropyLoss")
def _classes(use: Use) -> ValueHint:
    return below(use.dimension(0, 1))


@rule(2, "DFT")
def _axis(use: Use) -> ValueHint:
    shape = use.input_shape(0)
    # The last axis holds the real and imaginary parts.
    return below(max(1, (1 if shape is None else len(shape)) - 1))


@rule(1, "RotaryEmbedding", domain=_MICROSOFT)
def _microsoft_positions(use: Use) -> ValueHint:
    cached, fed = use.dimension(2, 0), use.input_shape(0)
    if use.shape == (1,) and cached is not None and fed is not None:
        return between(0, max(0, cached - fed[-2]))  # an offset, not a position
    return below(cached)


@rule(0, "EmbedLayerNormalization", domain=_MICROSOFT)
def _words(use: Use) -> ValueHint:
    return below(use.dimension(2, 0))


@rule(1, "EmbedLayerNormalization", domain=_MICROSOFT)
def _segments(use: Use) -> ValueHint:
    return below(use.dimension(4, 0))


@rule(1, "GatherBlockQuantized", domain=_MICROSOFT)
def _gather_quantized(use: Use) -> ValueHint:
    return below(use.dimension(0, use.integer("gather_axis")))


@rule(5, "GroupQueryAttention", domain=_MICROSOFT)
def _last_key(use: Use) -> ValueHint | None:
    past, query = use.dimension(3, 2), use.dimension(0, 1)
    if query is None:
        return None
    last = (past or 0) + query - 1
    return between(last, last)


@rule(6, "GroupQueryAttention", domain=_MICROSOFT)
def _all_keys(use: Use) -> ValueHint | None:
    past, query = use.dimension(3, 2), use.dimension(0, 1)
    return None if query is None else exactly((past or 0) + query)
