"""Judges by the names that a command gives them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.contracts.scores import cosine, psnr, snr
from onnx_passes.errors import UsageError
from onnx_passes.runtime.interface import did_you_mean
from onnx_passes.verify.runs.judging import ResultJudge, Simple
from onnx_passes.verify.runs.measures import Custom, Growth, Indices, Quantile, TensorScore
from onnx_passes.verify.runs.user_functions import named_function


def judge(text: str = "simple", simple: Simple | None = None) -> ResultJudge:
    """Return the judge that a text names.

    Args:
        text: ``simple``; ``l2=1e-5`` (relative: the norm of the difference over that of the
            reference), ``cosine=0.997``, ``snr=20``, ``psnr=30`` (in dB) with these defaults.
            Also ``quantile=0.99`` of elements within the limits, ``indices=0`` places, growth
            of the error against float64, ``error-growth=2``, or ``module:function``.
        simple: The limits of ``simple`` and ``quantile``.

    Raises:
        UsageError: There is no such judge, or its number does not fit.
    """
    word, equals, number = text.partition("=")
    simple = simple or Simple()
    if ":" in word:
        return Custom(text, named_function(text, "--compare"))
    if word not in _DEFAULTS:
        raise UsageError(
            f"--compare {text!r} is unknown",
            help=did_you_mean(word, [*_DEFAULTS, "module:function"]),
        )
    value = _number(text, number) if equals else _DEFAULTS[word]
    low, high = _RANGES.get(word, (0.0, float("inf")))
    if value is not None and not low <= value <= high:
        raise UsageError(f"--compare {text!r}: {word} goes from {low:g} to {high:g}")
    match word:
        case "simple" if equals:
            raise UsageError("--compare simple takes no number", help="use --tolerance")
        case "simple":
            return simple
        case "quantile":
            if value is None:
                raise UsageError("--compare quantile needs a share", help="quantile=0.99")
            return Quantile(value, simple)
        case "indices":
            if value is None or value != int(value):
                raise UsageError(f"--compare {text!r}: places are counted", help="indices=5")
            return Indices(int(value))
        case "error-growth":
            return Growth(value or 1.0)
    function, upward, unit = _SCORES[word]
    return TensorScore(word, function, value or 0.0, upward, unit)


def _l2(produced: list[Array], expected: list[Array]) -> float:
    decibels = snr(produced, expected)
    return float(np.power(10.0, -decibels / 20)) if np.isfinite(decibels) else _limit(decibels)


def _limit(decibels: float) -> float:
    return float("nan") if np.isnan(decibels) else 0.0 if decibels > 0 else float("inf")


# The defaults of l2, cosine, snr and psnr are those that Polygraphy 0.53 documents.
_DEFAULTS: dict[str, float | None] = {
    "simple": None,
    "l2": 1e-5,
    "cosine": 0.997,
    "snr": 20.0,
    "psnr": 30.0,
    "quantile": None,
    "indices": 0.0,
    "error-growth": 2.0,
}
_RANGES = {
    "cosine": (-1.0, 1.0),
    "quantile": (0.0, 1.0),
    "error-growth": (1.0, float("inf")),
    "snr": (-float("inf"), float("inf")),
    "psnr": (-float("inf"), float("inf")),
}
_SCORES: dict[str, tuple[Callable[[list[Array], list[Array]], float], bool, str]] = {
    "l2": (_l2, False, ""),
    "cosine": (cosine, True, ""),
    "snr": (snr, True, " dB"),
    "psnr": (psnr, True, " dB"),
}


def _number(text: str, number: str) -> float:
    try:
        value = float(number)
    except ValueError:
        value = float("nan")
    if np.isnan(value):
        raise UsageError(f"--compare {text!r}: {number!r} is not a number", help="cosine=0.99")
    return value
