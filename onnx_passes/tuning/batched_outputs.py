"""Outputs of batches, joined as a run over a data set joins them before it measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from onnx_passes.runtime.engine_base import Array, Outputs
from onnx_passes.tuning.format_scores import Score


def join_outputs(batches: Sequence[Outputs], size: int) -> list[Outputs]:
    """Join the outputs of batches along the axis of samples.

    Args:
        batches: Outputs of each batch.
        size: Samples in a batch.

    Returns:
        One entry for all; the batches as they are where an output does not join.
    """
    joined: Outputs = {}
    for name in batches[0]:
        whole = _join([batch.get(name) for batch in batches], size)
        if whole is None:
            return list(batches)
        joined[name] = whole
    return [joined]


def join_effects(score: Score, batches: Sequence[Outputs], size: int) -> Score:
    """Join what a group in a format moves, as its outputs are joined.

    Args:
        score: The score.
        batches: Outputs of the original by batch.
        size: Samples in a batch.
    """
    if len(join_outputs(batches, size)) == len(batches):
        return score
    moved = dict.fromkeys(name for effect in score.effect for name in effect)
    joined: dict[str, Array] = {}
    for name in moved:
        parts = [_effect_on(e, name, b) for e, b in zip(score.effect, batches, strict=True)]
        whole = _join(parts, size)
        assert whole is not None, "effects have the shapes of outputs"
        joined[name] = whole
    return replace(score, effect=[joined] if score.effect else ())


def _effect_on(effect: Mapping[str, Array], name: str, like: Outputs) -> Array:
    value = like[name]
    assert isinstance(value, np.ndarray), "only tensors move"
    return effect[name] if name in effect else np.zeros_like(value)


def _join(values: Sequence[object], size: int) -> Array | None:
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    if len(arrays) < len(values) or len({a.dtype for a in arrays}) > 1:
        return None
    first = arrays[0].shape
    # The last batch may be smaller.
    batched = bool(first) and first[0] == size and all(a.ndim for a in arrays)
    if batched and len({a.shape[1:] for a in arrays}) == 1:
        return np.concatenate(arrays)
    if size == 1 and len({a.shape for a in arrays}) == 1:
        return np.stack(arrays)
    return None
