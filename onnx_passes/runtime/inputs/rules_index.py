"""Inputs that point into another value: in range of the dimension that they index."""

from __future__ import annotations

import math

import numpy as np

from onnx_passes.ops.hints import Hint, between, exactly
from onnx_passes.ops.use import Use, rule

_MICROSOFT = "com.microsoft"


def _below(size: int | None) -> Hint:
    # Where the size is not known, the first element is the only one sure to be there.
    return between(0, max(0, (size or 1) - 1))


def _dimension(use: Use, index: int, axis: int) -> int | None:
    shape = use.input_shape(index)
    if shape is not None and -len(shape) <= axis < len(shape):
        return shape[axis]
    value = use.input(index)
    if value is not None and value.shape is not None:
        rank = len(value.shape)
        if -rank <= axis < rank and isinstance(size := value.shape[axis], int):
            return size
    return None


@rule(1, "Gather", "GatherElements")
def _gather(use: Use) -> Hint:
    return _below(_dimension(use, 0, use.integer("axis")))


@rule(1, "ArrayFeatureExtractor", domain="ai.onnx.ml")
def _feature(use: Use) -> Hint:
    return _below(_dimension(use, 0, -1))


@rule(1, "GatherND")
def _gather_nd(use: Use) -> Hint:
    data, indices = use.input_shape(0), use.shape
    if data is None or indices is None:
        return _below(None)
    start = use.integer("batch_dims")
    return between(0, np.asarray(data[start : start + indices[-1]]) - 1)


@rule(1, "Scatter", "ScatterElements")
def _scatter(use: Use) -> Hint:
    # Two updates of one element come in no defined order.
    axis = use.integer("axis")
    return _below(_dimension(use, 0, axis)) & Hint(distinct=axis)


@rule(1, "ScatterND")
def _scatter_nd(use: Use) -> Hint:
    data, indices = use.input_shape(0), use.shape
    if data is None or indices is None:
        return _below(None)
    target = data[: indices[-1]]
    wanted, places = math.prod(indices[:-1]), math.prod(target)
    if wanted > places:
        return between(0, np.asarray(target) - 1)
    chosen = use.rng.choice(places, wanted, replace=False)
    return exactly(np.stack(np.unravel_index(chosen, target), -1).reshape(indices))


@rule(2, "TensorScatter")
def _tensor_scatter(use: Use) -> Hint:
    axis = use.integer("axis", -2)
    cache, update = _dimension(use, 0, axis), _dimension(use, 1, axis)
    return _below(None if cache is None or update is None else cache - update + 1)


@rule(1, "MaxUnpool")
def _max_unpool(use: Use) -> Hint | None:
    # Flat places in the output, which has at least as many elements as the input.
    shape = use.shape
    if shape is None:
        return None
    size = math.prod(shape)
    return exactly(use.rng.permutation(size).reshape(shape))


@rule(0, "OneHot")
def _one_hot(use: Use) -> Hint:
    depth = use.constant(1)
    if depth is not None:
        return _below(int(depth.reshape(-1)[0]))
    output = use.output_shape()
    return _below(5 if output is None else output[use.integer("axis", -1)])


@rule(1, "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def _classes(use: Use) -> Hint:
    return _below(_dimension(use, 0, 1))


@rule(1, "ReverseSequence")
def _reversed_lengths(use: Use) -> Hint:
    return between(1, _dimension(use, 0, use.integer("time_axis")) or 1)


@rule(4, "RNN", "GRU", "LSTM")
def _sequence_lengths(use: Use) -> Hint:
    return between(1, _dimension(use, 0, 1 if use.integer("layout") else 0) or 1)


@rule(1, "SequenceAt", "SequenceErase")
@rule(2, "SequenceInsert")
def _position(use: Use) -> Hint:
    del use
    return between(0, 0)


@rule(2, "RoiAlign")
def _roi_batch(use: Use) -> Hint:
    return _below(_dimension(use, 0, 0))


@rule(1, "CumSum", "CumProd")
@rule(2, "DFT")
def _axis(use: Use) -> Hint:
    shape = use.input_shape(0)
    rank = 1 if shape is None else len(shape)
    # The last axis of a DFT holds the real and imaginary parts.
    return _below(max(1, rank - 1) if use.node.op_type == "DFT" else rank)


@rule(3, "RotaryEmbedding")
def _positions(use: Use) -> Hint:
    return _below(_dimension(use, 1, 0))


@rule(6, "Attention")
def _key_lengths(use: Use) -> Hint:
    return between(1, _dimension(use, 1, -2) or 1)


@rule(1, "RotaryEmbedding", domain=_MICROSOFT)
def _microsoft_positions(use: Use) -> Hint:
    cached, fed = _dimension(use, 2, 0), use.input_shape(0)
    if use.shape == (1,) and cached is not None and fed is not None:
        return between(0, max(0, cached - fed[-2]))  # an offset, not a position
    return _below(cached)


@rule(0, "EmbedLayerNormalization", domain=_MICROSOFT)
def _words(use: Use) -> Hint:
    return _below(_dimension(use, 2, 0))


@rule(1, "EmbedLayerNormalization", domain=_MICROSOFT)
def _segments(use: Use) -> Hint:
    return _below(_dimension(use, 4, 0))


@rule(1, "GatherBlockQuantized", domain=_MICROSOFT)
def _gather_quantized(use: Use) -> Hint:
    return _below(_dimension(use, 0, use.integer("gather_axis")))


@rule(5, "GroupQueryAttention", domain=_MICROSOFT)
def _last_key(use: Use) -> Hint | None:
    past, query = _dimension(use, 3, 2), _dimension(use, 0, 1)
    if query is None:
        return None
    last = (past or 0) + query - 1
    return between(last, last)


@rule(6, "GroupQueryAttention", domain=_MICROSOFT)
def _all_keys(use: Use) -> Hint | None:
    past, query = _dimension(use, 3, 2), _dimension(use, 0, 1)
    return None if query is None else exactly((past or 0) + query)
