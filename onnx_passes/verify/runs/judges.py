"""Judges by the names that a command gives them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.contracts.scores import cosine, kind_of, psnr, snr
from onnx_passes.errors import UsageError, VerificationError
from onnx_passes.plain import PlainDict
from onnx_passes.runtime.engine_base import did_you_mean
from onnx_passes.verify.compare import compare
from onnx_passes.verify.growth import error_growth
from onnx_passes.verify.result import OutputCheck
from onnx_passes.verify.runs.judging import Measured, ResultJudge, SampleValues, Simple
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


_ANY = Tolerance(1e300, 1e300)
Own: TypeAlias = Callable[[str, Array, Array], Any]


@dataclass(frozen=True)
class TensorScore:
    """One number for each float tensor; all else must be equal.

    Attributes:
        measure: Its name.
        function: ``f([actual], [expected])``.
        limit: What it must keep to.
        upward: Whether more is better.
        unit: Of the number.
    """

    measure: str
    function: Callable[[list[Array], list[Array]], float]
    limit: float
    upward: bool
    unit: str = ""

    @property
    def name(self) -> str:
        """The measure and its limit."""
        return f"{self.measure} {self._demand}"

    @property
    def _demand(self) -> str:
        return f"{'at least' if self.upward else 'at most'} {self.limit:g}{self.unit}"

    def __call__(self, side: SampleValues) -> list[OutputCheck]:
        """Measure."""
        found: list[OutputCheck] = []
        for check in compare(side.expected, side.actual, _ANY):
            expected, actual = (v.get(check.output) for v in (side.expected, side.actual))
            if not (check.passed and _is_float(expected) and _is_float(actual)):
                found.append(check)
                continue
            value = self.function([np.asarray(actual)], [np.asarray(expected)])
            passed = value >= self.limit if self.upward else value <= self.limit
            badness = -value if self.upward else value
            reason = None
            if not passed:
                reason = f"{self.measure} is {value:.6g}{self.unit}, not {self._demand}"
            plain = _plain(check) | {"passed": passed, "reason": reason}
            found.append(Measured(**plain, **self._told(value, badness)))
        return found

    def _told(self, value: float, badness: float) -> PlainDict:
        badness = np.inf if np.isnan(badness) else badness
        return {
            "measure": self.measure,
            "value": value,
            "demand": self._demand,
            "badness": badness,
        }


@dataclass(frozen=True)
class Quantile:
    """A share of the elements must be within the limits; which do not count for how far.

    Attributes:
        share: That share, 0 to 1.
        simple: The limits.
    """

    share: float
    simple: Simple

    @property
    def name(self) -> str:
        """The share and the limits."""
        return f"{100 * self.share:g} % of elements within {self.simple.contract}"

    def __call__(self, side: SampleValues) -> list[OutputCheck]:
        """Compare; a shape, a NaN or an infinity that differs is a matter of no share."""
        sound = {c.output for c in compare(side.expected, side.actual, _ANY) if c.passed}
        return [
            self._judged(check) if check.output in sound and check.size else check
            for check in self.simple(side)
        ]

    def _judged(self, check: OutputCheck) -> OutputCheck:
        within = 1 - check.mismatched / check.size
        passed = within >= self.share
        reason = None if passed else f"{100 * within:.4g} % are within tolerance"
        return Measured(
            **_plain(check) | {"passed": passed, "reason": reason},
            measure="within",
            value=within,
            demand=f"at least {self.share:g}",
            badness=-within,
        )


@dataclass(frozen=True)
class Indices:
    """Lists of indices, as ``top-k`` makes them: each may stand some places elsewhere.

    Attributes:
        places: How many, along the last axis.
    """

    places: int

    @property
    def name(self) -> str:
        """The rule."""
        return f"indices within {self.places} places"

    def __call__(self, side: SampleValues) -> list[OutputCheck]:
        """Compare."""
        found: list[OutputCheck] = []
        for check in compare(side.expected, side.actual, Equality()):
            expected, actual = (v.get(check.output) for v in (side.expected, side.actual))
            if check.passed or not (_is_int(expected) and _is_int(actual)):
                reason = check.reason
                if not check.passed and _is_float(expected):
                    reason = "holds no indices; make some with --postprocess top-k=5"
                found.append(replace(check, reason=reason))
                continue
            a, e = np.asarray(actual), np.asarray(expected)
            if a.shape != e.shape or not e.ndim:
                found.append(check)
                continue
            found.append(self._judged(check, e, a))
        return found

    def _judged(self, check: OutputCheck, expected: Array, actual: Array) -> OutputCheck:
        near = np.zeros(expected.shape, bool)
        width = expected.shape[-1]
        for shift in range(-self.places, self.places + 1):
            if abs(shift) >= width:
                continue
            left = slice(max(0, -shift), width - max(0, shift))
            right = slice(max(0, shift), width - max(0, -shift))
            near[..., left] |= expected[..., left] == actual[..., right]
        far = int(np.count_nonzero(~near))
        if not far:
            return replace(check, passed=True, reason=None, mismatched=0)
        worst = tuple(int(i) for i in np.argwhere(~near)[0])
        return replace(
            check,
            mismatched=far,
            worst=worst,
            expected=str(expected[worst]),
            actual=str(actual[worst]),
            reason=f"{far} of {expected.size} indices are over {self.places} places off",
        )


@dataclass(frozen=True)
class Growth:
    """The error against float64 may grow by a factor.

    Attributes:
        limit: That factor.
    """

    limit: float

    @property
    def name(self) -> str:
        """The factor."""
        return f"error-growth at most {self.limit:g}"

    def __call__(self, side: SampleValues) -> list[OutputCheck]:
        """Compare both with the result in double precision."""
        if side.truth is None:
            raise UsageError(
                "error-growth needs the model of the reference, to compute it in float64",
                help="name it beside --load-outputs",
            )
        return list(error_growth(side.expected, side.actual, side.truth(), self.limit))


@dataclass(frozen=True)
class Custom:
    """A function of the user's: ``f(name, expected, actual)``.

    Attributes:
        label: ``module:function``.
        function: Returns whether two tensors agree, or why they do not ("" where they do).
    """

    label: str
    function: Own

    @property
    def name(self) -> str:
        """The function."""
        return self.label

    def __call__(self, side: SampleValues) -> list[OutputCheck]:
        """Ask it of each tensor that both sides have."""
        found: list[OutputCheck] = []
        for check in compare(side.expected, side.actual, _ANY):
            expected, actual = (v.get(check.output) for v in (side.expected, side.actual))
            if isinstance(expected, np.ndarray) and isinstance(actual, np.ndarray):
                told = self._asked(check.output, expected, actual)
                why = told if isinstance(told, str) else f"{self.label} says no"
                passed = not told if isinstance(told, str) else bool(told)
                found.append(replace(check, passed=passed, reason=None if passed else why))
            else:
                found.append(check)
        return found

    def _asked(self, name: str, expected: Array, actual: Array) -> str | bool:
        try:
            told = self.function(name, expected, actual)
        except Exception as error:
            raise VerificationError(
                f"{self.label} raised {type(error).__name__} at {name!r}: {error}",
                help="it is called as f(name, expected, actual) with two arrays",
            ) from error
        if not isinstance(told, str | bool | np.bool_):
            raise VerificationError(
                f"{self.label} returned {type(told).__name__} at {name!r}",
                help="return whether the arrays agree, or text that says why they do not",
            )
        return told if isinstance(told, str) else bool(told)


def _plain(check: OutputCheck) -> PlainDict:
    known = {name: getattr(check, name) for name in OutputCheck.__dataclass_fields__}
    # The limits were those of a comparison that only looked for what no score can show.
    return known | {"rtol": 0.0, "atol": 0.0, "limit": None, "share": None}


def _is_float(value: object) -> bool:
    return isinstance(value, np.ndarray) and kind_of(value.dtype) in ("float", "complex")


def _is_int(value: object) -> bool:
    return isinstance(value, np.ndarray) and kind_of(value.dtype) == "int"
