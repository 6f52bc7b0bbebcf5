"""Metrics of signals and of classifiers, as plain functions of arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeAlias

import numpy as np

from onnx_passes.arrays import Array, DType
from onnx_passes.errors import ReferenceDataError, VerificationError

Kind: TypeAlias = Literal["float", "complex", "int", "bool", "string", "other"]

BLOCK = 1 << 16
"""Elements looked at together: 512 KiB as float64, so that the temporaries stay in cache."""

_KINDS: dict[str, Kind] = {
    "b": "bool",
    "c": "complex",
    "f": "float",
    "i": "int",
    "u": "int",
    "O": "string",
    "S": "string",
    "T": "string",
    "U": "string",
    "W": "complex",
}


def kind_of(dtype: DType) -> Kind:
    """Classify a dtype, those of ``ml_dtypes`` included, which numpy calls void."""
    if dtype.kind in _KINDS:
        return _KINDS[dtype.kind]
    if dtype.name.startswith(("float", "bfloat")):
        return "float"
    return "int" if dtype.name.startswith(("int", "uint")) else "other"


def dtype_name(dtype: DType) -> str:
    """Name a dtype as a user knows it: byte order left out, all text types ``string``."""
    return "string" if kind_of(dtype) == "string" else dtype.name


def shape_text(shape: tuple[int, ...]) -> str:
    """Write a shape as ONNX does: ``[2,3]``."""
    return f"[{','.join(map(str, shape))}]"


def blocks(*arrays: Array, size: int = BLOCK) -> Iterator[tuple[int, tuple[Array, ...]]]:
    """Walk arrays of one shape together, in C order; none is copied as a whole.

    Yields the flat index of the first element, and a rank-1 block of each array.
    """
    flat = [a.reshape(-1) if a.flags.c_contiguous else a.flat for a in arrays]
    for start in range(0, arrays[0].size, size):
        yield start, tuple(np.asarray(f[start : start + size]) for f in flat)


def widen(block: Array) -> Array:
    """Return the elements as float64, or complex128; exact for all but 64-bit integers."""
    return block.astype(
        np.complex128 if kind_of(block.dtype) == "complex" else np.float64, copy=False
    )


Tensors = Sequence[Array]


def max_abs_error(produced: Tensors, expected: Tensors) -> float:
    """Return the largest absolute difference.

    Args:
        produced: Outputs by name, of any shape and number type.
        expected: Outputs of the reference by name, of the same shapes.
    """
    return _worst(_max_abs, max, produced, expected)


def max_rel_error(produced: Tensors, expected: Tensors) -> float:
    """Return the largest ``|p - e| / |e|``; infinite where ``e`` is 0 and ``p`` is not."""
    return _worst(_max_rel, max, produced, expected)


def rmse(produced: Tensors, expected: Tensors) -> float:
    """Return the root of the mean squared difference."""
    return _worst(_rmse, max, produced, expected)


def snr(produced: Tensors, expected: Tensors) -> float:
    """Return the signal-to-noise ratio in dB, ``10 log10(sum e^2 / sum (p - e)^2)``."""
    return _worst(_snr, min, produced, expected)


def psnr(produced: Tensors, expected: Tensors) -> float:
    """Return the peak signal-to-noise ratio in dB, the peak being ``max |e|``."""
    return _worst(_psnr, min, produced, expected)


def cosine(produced: Tensors, expected: Tensors) -> float:
    """Return the cosine of the angle; 1 between two zero vectors, 0 if one is zero."""
    return _worst(_cosine, min, produced, expected)


def _worst(
    measure: Callable[[Array, Array], float],
    worst: Callable[[float, float], float],
    produced: Tensors,
    expected: Tensors,
) -> float:
    """Measure every numeric output, and return the worst value, NaN before all."""
    if len(produced) != len(expected):
        raise VerificationError(
            f"{len(produced)} outputs cannot be measured against {len(expected)}"
        )
    result: float | None = None
    for ours, theirs in zip(produced, expected, strict=True):
        demand_same_shape(ours, theirs)
        kinds = {kind_of(ours.dtype), kind_of(theirs.dtype)}
        if kinds & {"string", "other"} or not ours.size:
            continue
        value = measure(ours, theirs)
        if math.isnan(value):
            return value
        result = value if result is None else worst(result, value)
    return math.nan if result is None else result


def _max_abs(produced: Array, expected: Array) -> float:
    return _maximum(np.abs(p - e) for p, e in _disagreeing(produced, expected))


def _max_rel(produced: Array, expected: Array) -> float:
    def ratios() -> Iterator[Array]:
        for p, e in _disagreeing(produced, expected):
            difference = np.abs(p - e)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                yield np.where(difference == 0, 0.0, difference / np.abs(e))

    return _maximum(ratios())


def _rmse(produced: Array, expected: Array) -> float:
    return math.sqrt(_noise(produced, expected) / produced.size) if produced.size else 0.0


def _snr(produced: Array, expected: Array) -> float:
    signal = math.fsum(_energy(e) for _, e in _walk(produced, expected))
    return decibels(signal, _noise(produced, expected))


def _psnr(produced: Array, expected: Array) -> float:
    peak = _maximum(np.abs(e) for _, e in _walk(produced, expected))
    return decibels(peak * peak * produced.size, _noise(produced, expected))


def _cosine(produced: Array, expected: Array) -> float:
    # Scaled by the largest element first: the squares of 1e200 and of 1e-200 are not floats.
    scale_p = _maximum(np.abs(p) for p, _ in _walk(produced, expected))
    scale_e = _maximum(np.abs(e) for _, e in _walk(produced, expected))
    if math.isnan(scale_p) or math.isnan(scale_e) or math.inf in (scale_p, scale_e):
        return math.nan
    if scale_p == 0 or scale_e == 0:
        return float(scale_p == scale_e)
    dot = norm_p = norm_e = 0.0
    for p, e in _walk(produced, expected):
        p, e = p / scale_p, e / scale_e
        dot += _product(p, e)
        norm_p, norm_e = norm_p + _energy(p), norm_e + _energy(e)
    return max(-1.0, min(1.0, dot / math.sqrt(norm_p) / math.sqrt(norm_e)))


def _walk(produced: Array, expected: Array) -> Iterator[tuple[Array, Array]]:
    """Yield blocks as float64, with zeros where both hold the same NaN or infinity."""
    for _, (p, e) in blocks(produced, expected):
        p, e = widen(p), widen(e)
        same = ~np.isfinite(e) & ((p == e) | (np.isnan(p) & np.isnan(e)))
        if same.any():
            p, e = np.where(same, 0, p), np.where(same, 0, e)
        yield p, e


def _disagreeing(produced: Array, expected: Array) -> Iterator[tuple[Array, Array]]:
    with np.errstate(over="ignore", invalid="ignore"):
        yield from _walk(produced, expected)


def _maximum(parts: Iterator[Array]) -> float:
    # np.maximum, unlike max, keeps a NaN.
    result = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for part in parts:
            result = float(np.maximum(result, part.max()))
    return result


def _energy(block: Array) -> float:
    with np.errstate(over="ignore"):
        return _product(block, block)


def _product(block: Array, other: Array) -> float:
    # Not np.vdot: BLAS takes threads for it, whose start takes longer than the sum.
    return float(np.einsum("i,i->", block.ravel().conj(), other.ravel()).real)


def _noise(produced: Array, expected: Array) -> float:
    total = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for p, e in _walk(produced, expected):
            total += _energy(p - e)
    return total


def decibels(signal: float, noise: float) -> float:
    """Return the ratio of two powers in dB."""
    if math.isnan(signal) or math.isnan(noise):
        return math.nan
    if noise == 0:
        return math.inf
    if signal == 0 or noise == math.inf:
        return -math.inf
    return 10 * (math.log10(signal) - math.log10(noise))


def demand_same_shape(produced: Array, expected: Array) -> None:
    """Raise VerificationError for tensors of unlike shape, which numpy would broadcast."""
    if produced.shape != expected.shape:
        raise VerificationError(
            f"an output of shape {shape_text(produced.shape)} cannot be measured against one "
            f"of shape {shape_text(expected.shape)}",
        )


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
    constant scores gains nothing from its ties. A row with a NaN is wrong. Scores are [...,
    classes], or classes if ``k`` is 1; the labels are integers, one a row.
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
    """Return the share of rows of the first output that keep their highest class."""
    theirs = _first(expected, "output")
    if not theirs.size:
        return math.nan
    rows = theirs.size // theirs.shape[-1] if theirs.ndim else 1
    return 1 - count_mispredictions(produced, expected) / rows


def kl_divergence(produced: Tensors, expected: Tensors) -> float:
    """Return the mean of ``KL(expected || produced)`` over rows of the first output, in nats.

    Rows run along the last axis. Where every row of ``expected`` is a distribution (no element
    below 0, sum 1 within 1e-3), both are read as probabilities; otherwise both are logits.
    Probabilities that do not sum to 1 are charged for it (generalised divergence, ``sum e
    log(e/p) - e + p``), so that the result is never below 0. Outputs are [..., classes].
    """
    rows = divergences(produced, expected)
    total = float(rows.sum())
    return max(total / max(1, rows.size), 0.0) if not math.isnan(total) else math.nan


def divergences(produced: Tensors, expected: Tensors) -> Array:
    """Return ``KL(expected || produced)`` of each row of the first output, in nats.

    The result has shape [rows]; NaN if a probability is below 0.
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

    Raises ReferenceDataError if the labels do not fit, or are not classes of the scores.
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
    """Return how many classes rank before the label in each row; all if one is NaN."""
    wide = widen(rows)
    own = np.take_along_axis(wide, classes[:, None], axis=1)
    lower = np.arange(rows.shape[1])[None, :] < classes[:, None]
    before = ((wide > own) | ((wide == own) & lower)).sum(axis=1)
    ranks: Array = np.where(np.isnan(wide).any(axis=1), rows.shape[1], before)
    return ranks
