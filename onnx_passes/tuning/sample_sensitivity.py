"""How much of a budget each sample uses if noise is added to its outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.contracts.scores import divergences
from onnx_passes.runtime.engine_base import Data, Outputs
from onnx_passes.tuning.loss_budget import LossBudget

_NOISE, _PROBES = 0.05, 2
"""Noise, as a share of a sample's outputs, and how often it is drawn."""


def sensitivity(samples: Sequence[Outputs], budget: LossBudget) -> Array | None:
    """Return what samples lose by noise, floats by sample; None if nothing is lost.

    Args:
        samples: What the original computes, arrays of any shape and type by name.
        budget: What may be lost.
    """
    rng = np.random.default_rng(0)
    total = np.zeros(len(samples))
    rows = _stack(samples, budget)
    for _ in range(_PROBES):
        if rows is not None:
            found = _of_rows(rows, budget, rng)
        else:
            found = _one_by_one(samples, budget, rng)
        for shares in found.values():
            mean = shares.mean()
            if np.isfinite(mean) and mean > 0:
                total += shares / mean
    return total if total.any() else None


def add_noise(value: Data, level: float, rng: np.random.Generator) -> Data:
    """Return values with white noise.

    Args:
        value: Values of any shape; what are not floats stays as it is.
        level: Root of the mean square of the noise, as a share of that of the values.
        rng: Draws the noise.
    """
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or not value.size:
        return value
    size = np.sqrt(np.mean(np.square(value, dtype=np.float64)))
    noise = rng.normal(size=value.shape) * level * size
    return np.asarray(value + noise, value.dtype)


def _one_by_one(
    samples: Sequence[Outputs], budget: LossBudget, rng: np.random.Generator
) -> dict[str, Array]:
    """Return the shares of the budget by metric, floats by sample."""
    spent = []
    for sample in samples:
        moved = {name: add_noise(value, _NOISE, rng) for name, value in sample.items()}
        spent.append(budget.measure([moved], [sample], sure=False).shares)
    return {kind: np.array([own[kind] for own in spent]) for kind in spent[0]}


def _of_rows(rows: Array, budget: LossBudget, rng: np.random.Generator) -> dict[str, Array]:
    """Return the same for one row of scores a sample, all at once.

    Args:
        rows: The scores, floats [samples, classes].
        budget: What may be lost; only metrics of rows.
        rng: Draws the noise.
    """
    wide = rows.astype(np.float64)
    size = np.sqrt(np.square(wide).mean(1, keepdims=True))
    moved = (wide + rng.normal(size=rows.shape) * _NOISE * size).astype(rows.dtype)
    ours = moved.astype(np.float64)
    return {
        name: np.array([budget.share(name, float(v)) for v in _BY_ROW[name](ours, wide)])
        for name in budget.limits
    }


def _stack(samples: Sequence[Mapping[str, Data]], budget: LossBudget) -> Array | None:
    """Return the scores as rows, floats [samples, classes], if each metric is one of rows."""
    if budget.flips is not None or not budget.limits.keys() <= _BY_ROW.keys():
        return None
    arrays = [np.asarray(value) for sample in samples for value in sample.values()]
    if len(arrays) != len(samples) or len({(a.shape, a.dtype) for a in arrays}) != 1:
        return None
    first = arrays[0]
    # Divergences are of rows: a sample has to be one.
    if first.dtype.kind != "f" or first.ndim == 0 or first.size != first.shape[-1]:
        return None
    rows = np.stack(arrays).reshape(len(arrays), -1)
    return rows if np.isfinite(rows).all() else None


def _snr(ours: Array, theirs: Array) -> Array:
    noise = np.square(ours - theirs).sum(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(noise > 0, 10 * np.log10(np.square(theirs).sum(1) / noise), np.inf)


_BY_ROW: Mapping[str, Callable[[Array, Array], Array]] = {
    "snr": _snr,
    "rmse": lambda ours, theirs: np.sqrt(np.square(ours - theirs).mean(1)),
    "max_abs_error": lambda ours, theirs: np.abs(ours - theirs).max(1),
    "kl_divergence": lambda ours, theirs: divergences([ours], [theirs]),
}
"""Metrics of each row of arrays [rows, elements]."""
