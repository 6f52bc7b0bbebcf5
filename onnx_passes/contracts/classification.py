"""Metrics of classifiers, by the conventions of :mod:`onnx_passes.contracts.scores`."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.contracts.elements import (
    BLOCK,
    blocks,
    dtype_name,
    kind_of,
    shape_text,
    widen,
)
from onnx_passes.contracts.scores import Tensors, demand_same_shape
from onnx_passes.errors import ReferenceDataError


def accuracy(produced: Tensors, expected: Tensors) -> float:
    """Return the share of rows whose highest score is at the label.

    Args:
        produced: The class scores first: [..., C], or [N, C, ...] with the classes second, or
            the class numbers themselves, as integers in the shape of the labels.
        expected: The labels first: integers, one for each row of scores.
    """
    return top_k_accuracy(1, produced, expected)


def top_k_accuracy(k: int, produced: Tensors, expected: Tensors) -> float:
    """Return the share of rows in which fewer than ``k`` classes rank before the label.

    Of equal scores the lower class ranks first, as in ArgMax and TopK, so that a model with
    constant scores gains nothing from its ties. A row with a NaN is wrong.

    Args:
        k: How many classes count, from 1.
        produced: Outputs by name; the first holds scores [..., classes], or classes if ``k``
            is 1.
        expected: Labels by name; the first holds integers, one for each row of scores.
    """
    scores, labels = _first(produced, "output"), _first(expected, "label")
    if labels.size == 0:
        return math.nan
    if k == 1 and kind_of(scores.dtype) == "int" and _squeeze(scores) == _squeeze(labels):
        return float(np.mean(scores.astype(np.int64).reshape(-1) == _classes(labels)))
    rows, classes = rank(scores, labels)
    if k > rows.shape[1]:
        raise ReferenceDataError(
            f"top_{k}_accuracy asks for {k} classes, and the scores have {rows.shape[1]}"
        )
    return float(np.mean(rank_of(rows, classes) < k))


def count_mispredictions(produced: Tensors, expected: Tensors) -> float:
    """Return the number of rows of the first output whose highest class changed.

    Rows run along the last axis; a tensor of rank 0 or 1 is one row. A row that has become NaN
    counts, one that always was does not.

    Args:
        produced: Outputs by name; the first holds scores [..., classes].
        expected: Outputs of the reference by name, of the same shape.
    """
    ours, theirs = _first(produced, "output"), _first(expected, "output")
    demand_same_shape(ours, theirs)
    if theirs.size == 0:
        return 0.0
    width = theirs.shape[-1] if theirs.ndim else 1
    count = 0
    for p, e in _row_blocks(ours, theirs, width):
        broken = np.isnan(p).any(axis=1) != np.isnan(e).any(axis=1)
        count += int(np.sum(broken | (p.argmax(axis=1) != e.argmax(axis=1))))
    return float(count)


def top_1_agreement(produced: Tensors, expected: Tensors) -> float:
    """Return the share of rows of the first output that keep their highest class.

    Args:
        produced: Outputs by name; the first holds scores [..., classes].
        expected: Outputs of the reference by name, of the same shape.
    """
    theirs = _first(expected, "output")
    rows = theirs.size // theirs.shape[-1] if theirs.size and theirs.ndim else 1
    return 1 - count_mispredictions(produced, expected) / rows


def kl_divergence(produced: Tensors, expected: Tensors) -> float:
    """Return the mean of ``KL(expected || produced)`` over rows of the first output, in nats.

    Rows run along the last axis. Where every row of ``expected`` is a distribution (no
    element below 0, sum 1 within 1e-3), both are read as probabilities; otherwise both are
    logits. Probabilities that do not sum to 1 are charged for it (generalised divergence,
    ``sum e log(e/p) - e + p``), so that the result is never below 0.

    Args:
        produced: Outputs by name; the first holds probabilities or logits [..., classes].
        expected: Outputs of the reference by name, of the same shape.
    """
    rows = divergences(produced, expected)
    total = float(rows.sum())
    return max(total / max(1, rows.size), 0.0) if not math.isnan(total) else math.nan


def divergences(produced: Tensors, expected: Tensors) -> Array:
    """Return ``KL(expected || produced)`` of each row of the first output, in nats.

    Args:
        produced: As for :func:`kl_divergence`.
        expected: As for :func:`kl_divergence`.

    Returns:
        Floats of shape [rows]; NaN where a probability is below 0.
    """
    ours, theirs = _first(produced, "output"), _first(expected, "output")
    demand_same_shape(ours, theirs)
    if theirs.size == 0:
        return np.zeros(0)
    width = theirs.shape[-1] if theirs.ndim else 1
    is_distribution = all(
        bool((e >= 0).all() and (np.abs(e.sum(axis=1) - 1) <= 1e-3).all())
        for _, e in _row_blocks(ours, theirs, width)
    )
    found = []
    with np.errstate(divide="ignore", invalid="ignore"):
        for p, e in _row_blocks(ours, theirs, width):
            if is_distribution:
                log_p, log_e = np.log(p), np.log(e)  # NaN for what is below 0
            else:
                log_p, log_e = _log_softmax(p), _log_softmax(e)
                p, e = np.exp(log_p), np.exp(log_e)
            gain = np.where((e > 0) | (p < 0), e * (log_e - log_p), 0.0)
            found.append((gain - e + p).sum(axis=1))
    return np.concatenate(found)


def rank(scores: Array, labels: Array) -> tuple[Array, Array]:
    """Return scores as float64 [rows, classes], and the class that each row should have.

    Args:
        scores: As :func:`accuracy` takes them: [..., classes], of any number type.
        labels: Class numbers, integers, one for each row of scores.

    Raises:
        ReferenceDataError: The labels do not fit, or are not classes of the scores.
    """
    rows, classes = _rows(scores, labels), _classes(labels)
    outside = classes[(classes < 0) | (classes >= rows.shape[1])]
    if outside.size:
        label = int(outside[0])
        raise ReferenceDataError(
            f"label {label} is none of the {rows.shape[1]} classes, which count from 0"
        )
    return widen(rows), classes


def _log_softmax(rows: Array) -> Array:
    shifted = rows - rows.max(axis=1, keepdims=True)
    result: Array = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return result


def _row_blocks(ours: Array, theirs: Array, width: int) -> Iterator[tuple[Array, Array]]:
    rows = max(1, BLOCK // width)
    for _, (p, e) in blocks(ours, theirs, size=rows * width):
        yield widen(p).reshape(-1, width), widen(e).reshape(-1, width)


def _first(tensors: Tensors, what: str) -> Array:
    if not tensors:
        raise ReferenceDataError(f"there is no {what} to measure")
    return np.asarray(tensors[0])


def _squeeze(array: Array) -> tuple[int, ...]:
    return tuple(d for d in array.shape if d != 1)


def _classes(labels: Array) -> Array:
    if kind_of(labels.dtype) == "int":
        return labels.astype(np.int64).reshape(-1)
    if kind_of(labels.dtype) == "float":
        wide = widen(labels).reshape(-1)
        if (wide == np.floor(wide)).all():
            return wide.astype(np.int64)
    raise ReferenceDataError(
        f"labels must be class numbers, not {dtype_name(labels.dtype)} values",
        help="store them as int64, one for each row of scores; of one-hot labels the argmax",
    )


def _rows(scores: Array, labels: Array) -> Array:
    """Return the scores as [rows, classes], in the order of the labels."""
    if scores.ndim >= 1 and scores.size:
        second = (scores.shape[0], *scores.shape[2:]) if scores.ndim > 2 else None
        if labels.shape == second and labels.shape != scores.shape[:-1]:
            scores = np.moveaxis(scores, 1, -1)
        if labels.size == scores.size // scores.shape[-1]:
            return scores.reshape(-1, scores.shape[-1])
    raise ReferenceDataError(
        f"labels of shape {shape_text(labels.shape)} do not fit class scores of shape "
        f"{shape_text(scores.shape)}",
        help="give one integer for each row of scores: [N] for scores [N,C]",
    )


def rank_of(rows: Array, classes: Array) -> Array:
    """Return how many classes rank before the label in each row; all, where one is NaN.

    Args:
        rows: Scores of shape [rows, classes], of any number type.
        classes: The label of each row, integers of shape [rows].
    """
    wide = widen(rows)
    own = np.take_along_axis(wide, classes[:, None], axis=1)
    lower = np.arange(rows.shape[1])[None, :] < classes[:, None]
    before = ((wide > own) | ((wide == own) & lower)).sum(axis=1)
    ranks: Array = np.where(np.isnan(wide).any(axis=1), rows.shape[1], before)
    return ranks
