"""Metrics of signals, as plain functions.

Every function takes the outputs of one sample, in output order, and what they are held
against. Sums are float64. Elements where both hold NaN, or both the same infinity, agree; any
other NaN makes the result NaN, which no range accepts. Where a metric is defined for one
tensor, several outputs give the worst one's value: signals of unlike scale are never pooled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.contracts.elements import blocks, kind_of, shape_text, widen
from onnx_passes.errors import VerificationError

Tensors = Sequence[Array]


def max_abs_error(produced: Tensors, expected: Tensors) -> float:
    """Return the largest absolute difference.

    Args:
        produced: Outputs by name, of any shape and number type.
        expected: Outputs of the reference by name, of the same shapes.
    """
    return _worst(_max_abs, max, produced, expected)


def max_rel_error(produced: Tensors, expected: Tensors) -> float:
    """Return the largest ``|p - e| / |e|``; infinite where ``e`` is 0 and ``p`` is not.

    Args:
        produced: Outputs by name, of any shape and number type.
        expected: Outputs of the reference by name, of the same shapes.
    """
    return _worst(_max_rel, max, produced, expected)


def rmse(produced: Tensors, expected: Tensors) -> float:
    """Return the root of the mean squared difference.

    Args:
        produced: Outputs by name, of any shape and number type.
        expected: Outputs of the reference by name, of the same shapes.
    """
    return _worst(_rmse, max, produced, expected)


def snr(produced: Tensors, expected: Tensors) -> float:
    """Return the signal-to-noise ratio in dB, ``10 log10(sum e^2 / sum (p - e)^2)``.

    Args:
        produced: Outputs by name, of any shape and number type.
        expected: Outputs of the reference by name, of the same shapes.
    """
    return _worst(_snr, min, produced, expected)


def psnr(produced: Tensors, expected: Tensors) -> float:
    """Return the peak signal-to-noise ratio in dB, the peak being ``max |e|``.

    Args:
        produced: Outputs by name, of any shape and number type.
        expected: Outputs of the reference by name, of the same shapes.
    """
    return _worst(_psnr, min, produced, expected)


def cosine(produced: Tensors, expected: Tensors) -> float:
    """Return the cosine of the angle; 1 between two zero vectors, 0 if one is zero.

    Args:
        produced: Outputs by name, of any shape and number type.
        expected: Outputs of the reference by name, of the same shapes.
    """
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
        if {kind_of(ours.dtype), kind_of(theirs.dtype)} & {"string", "other"}:
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
    return _decibels(signal, _noise(produced, expected))


def _psnr(produced: Array, expected: Array) -> float:
    peak = _maximum(np.abs(e) for _, e in _walk(produced, expected))
    return _decibels(peak * peak * produced.size, _noise(produced, expected))


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


def _decibels(signal: float, noise: float) -> float:
    if math.isnan(signal) or math.isnan(noise):
        return math.nan
    if noise == 0:
        return math.inf
    if signal == 0 or noise == math.inf:
        return -math.inf
    return 10 * (math.log10(signal) - math.log10(noise))


def demand_same_shape(produced: Array, expected: Array) -> None:
    """Refuse to measure tensors of unlike shape, which numpy would broadcast.

    Args:
        produced: A tensor of any shape.
        expected: The tensor that it is measured against, of the same shape.

    Raises:
        VerificationError: The shapes differ.
    """
    if produced.shape != expected.shape:
        raise VerificationError(
            f"an output of shape {shape_text(produced.shape)} cannot be measured against one "
            f"of shape {shape_text(expected.shape)}",
        )
