"""How results are compared: settings, limits, post-processing, judges, users' functions."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.contracts.scores import cosine, kind_of, psnr, snr, widen
from onnx_passes.errors import ReferenceDataError, UsageError, VerificationError, did_you_mean
from onnx_passes.model.formats import closest_file_name
from onnx_passes.optional import named_function, users_call
from onnx_passes.plain import PlainDict
from onnx_passes.runtime.engine_base import Data, Outputs
from onnx_passes.verify.evidence import OutputCheck
from onnx_passes.verify.judge import Promise, compare


def existing(path: str | os.PathLike[str], what: str) -> Path:
    """Return a path that exists; else ReferenceDataError suggests one beside it."""
    full = Path(path).expanduser()
    if full.exists():
        return full
    near = closest_file_name(full)
    option = f"--save-{what.removeprefix('saved ').replace('results', 'outputs')}"
    raise ReferenceDataError(
        f"there are no {what} {str(path)!r}",
        help=f"did you mean {near!r}?" if near else f"{option} writes such a file",
    )


_TEXT = re.compile(r"(?:(?P<name>.+):)?top-k=(?P<k>[1-9]\d*)")


@dataclass(frozen=True)
class LargestIndices:
    """Outputs become the indices of their largest elements along the last axis.

    ``by_name`` says how many for an output, ``every`` for those that are not named; None
    leaves these unchanged.
    """

    every: int | None = None
    by_name: Mapping[str, int] | None = None

    def check(self, outputs: Iterable[str]) -> None:
        """Raise UsageError if a name is not among ``outputs``, inner ones too."""
        known = list(outputs)
        for name in self.by_name or {}:
            if name not in known:
                raise UsageError(
                    f"--postprocess: there is no output {name!r}",
                    help=did_you_mean(name, known),
                )

    def __call__(self, values: Outputs, outputs: frozenset[str]) -> Outputs:
        """Apply to a sample; values that are not ``outputs`` of the model stay if unnamed."""
        chosen = outputs | (self.by_name or {}).keys()
        return {n: self._one(n, v) if n in chosen else v for n, v in values.items()}

    def _one(self, name: str, value: Data) -> Data:
        k = (self.by_name or {}).get(name, self.every)
        if k is None or not isinstance(value, np.ndarray) or not value.ndim:
            return value
        return top_k(value, k) if kind_of(value.dtype) in ("float", "int") else value


def top_k(array: Array, k: int) -> Array:
    """Return the indices of the largest elements along the last axis, the largest first.

    Of equal elements the first ranks first, as in TopK; NaN ranks last. Shape [..., n] becomes
    int64 of shape [..., min(k, n)].
    """
    order: Array = np.argsort(-widen(array), axis=-1, kind="stable")[..., :k]
    return order.astype(np.int64)


def read_postprocess(texts: Iterable[str]) -> LargestIndices | None:
    """Read ``top-k=5`` and ``NAME:top-k=5``; raise UsageError for other texts."""
    every: int | None = None
    by_name: dict[str, int] = {}
    for text in texts:
        match = _TEXT.fullmatch(text)
        if match is None:
            raise UsageError(
                f"--postprocess {text!r} cannot be read",
                help="write top-k=5, or NAME:top-k=5 for one output",
            )
        if match["name"] is None:
            every = int(match["k"])
        else:
            by_name[match["name"]] = int(match["k"])
    return LargestIndices(every, by_name) if every is not None or by_name else None


@dataclass(frozen=True)
class Measured(OutputCheck):
    """A comparison by one number.

    ``measure`` and ``demand`` are text: "cosine", "at least 0.997". ``badness`` grows as the
    result gets worse, to find the worst sample.
    """

    measure: str = ""
    value: float | None = None
    demand: str = ""
    badness: float = 0.0


@dataclass(frozen=True)
class SampleValues:
    """What is compared at once: some values of one sample.

    ``inner`` names values inside the model: their small elements carry the error of large
    ones.
    """

    expected: Outputs
    actual: Outputs
    inner: frozenset[str] = frozenset()


class ResultJudge(Protocol):
    """Compares two results."""

    @property
    def name(self) -> str:
        """What a report calls it."""
        ...

    def __call__(self, side: SampleValues) -> list[OutputCheck]:
        """Return a check for each value."""
        ...


@dataclass(frozen=True)
class Simple:
    """Element by element: ``|actual - expected| <= atol + rtol * |expected|``.

    Attributes:
        contract: The limits; what they leave open is the default of each dtype.
        overrides: Limits by name of an output.
    """

    contract: Equality | Tolerance = field(default_factory=Tolerance)
    overrides: Mapping[str, Tolerance] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The contract."""
        return f"simple, {self.contract}"

    def __call__(self, side: SampleValues) -> list[OutputCheck]:
        """Compare; values inside are measured against the largest element of each."""
        found: list[OutputCheck] = []
        # The order is compared among outputs only: that of values inside means nothing.
        for inside in (False, True):
            old, new = (
                {n: v for n, v in values.items() if (n in side.inner) is inside}
                for values in (side.expected, side.actual)
            )
            if old or new:
                promise = Promise(self.contract, overrides=self.overrides, inside=inside)
                found += promise.check(old, new)
        return found


_HOW = "write exact, or 1e-3 (for both)"


def read_limits(tolerance: str | None, rtol: Iterable[str], atol: Iterable[str]) -> Simple:
    """Read limits.

    ``tolerance`` is ``exact``, or a number for both; None for the defaults of each dtype. The
    others are ``1e-3`` for all outputs, or ``NAME:1e-3`` for one. UsageError if a text is not
    a limit, or if an exact comparison is given limits.
    """
    base: dict[str, float] = {}
    if tolerance not in (None, "exact"):
        base = dict.fromkeys(
            ("rtol", "atol"), _number(tolerance, f"--tolerance {tolerance!r}")
        )
    named: dict[str, dict[str, float]] = {}
    for key, texts in (("rtol", rtol), ("atol", atol)):
        for text in texts:
            if tolerance == "exact":
                raise UsageError(f"--tolerance exact leaves no room for --{key} {text}")
            name, colon, value = text.rpartition(":")
            number = _number(value, f"--{key} {text!r}")
            if colon:
                named.setdefault(name, {})[key] = number
            else:
                base[key] = number
    if tolerance == "exact":
        return Simple(Equality())
    return Simple(Tolerance(**base), {n: Tolerance(**base | own) for n, own in named.items()})


def _number(text: str, option: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        help_ = (
            _HOW if option.startswith("--tolerance") else "write NAME:1e-3, or 1e-3 for all"
        )
        raise UsageError(f"{option}: {text!r} is not a number of 0 or more", help=help_)
    return value


def judge(text: str = "simple", simple: Simple | None = None) -> ResultJudge:
    """Return the judge that a text names.

    Args:
        text: ``simple``; ``l2=1e-5`` (relative: the norm of the difference over that of the
            reference), ``cosine=0.997``, ``snr=20``, ``psnr=30`` (in dB) with these defaults.
            Also ``quantile=0.99`` of elements within the limits, ``indices=0`` places, or
            ``module:function``.
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
    value = _decibels(text, number) if equals else _DEFAULTS[word]
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
}
_RANGES = {
    "cosine": (-1.0, 1.0),
    "quantile": (0.0, 1.0),
    "snr": (-float("inf"), float("inf")),
    "psnr": (-float("inf"), float("inf")),
}
_SCORES: dict[str, tuple[Callable[[list[Array], list[Array]], float], bool, str]] = {
    "l2": (_l2, False, ""),
    "cosine": (cosine, True, ""),
    "snr": (snr, True, " dB"),
    "psnr": (psnr, True, " dB"),
}


def _decibels(text: str, number: str) -> float:
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
    """One number for each float tensor, ``f([actual], [expected])``; the rest is equal."""

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
    """A share of the elements, 0 to 1, must be within the limits."""

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
    """Lists of indices, as ``top-k`` makes them: each may be some places elsewhere."""

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
class Custom:
    """A function of the user's: ``f(name, expected, actual)``.

    It returns whether two tensors agree, or why they do not ("" if they do). ``label`` is
    ``module:function``.
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
        how = "it is called as f(name, expected, actual) with two arrays"
        with users_call(f"{self.label} at {name!r}", VerificationError, how):
            told = self.function(name, expected, actual)
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


MEMORY_LIMIT = 2 << 30
"""Bytes that values may have in memory, where nobody says."""

PARTS = 4
"""What an engine computes exists twice while it is handed over, beside what it is held against
and what is kept."""


@dataclass(frozen=True)
class Settings:
    """How models are run and compared.

    Attributes:
        outputs: Names of values, "all", or None for the models' outputs.
        judge: By what they are compared.
        limits: The limits that name outputs, so that the names are checked.
        postprocess: What is done to outputs first.
        validate: Whether NaN and infinities count as a failure.
        fail_fast: Whether the rest is left out after the first difference.
        memory_limit: Bytes that values may have in memory.
        keep: Whether the values of every run are kept, to be saved or drawn.
        hashes: Whether models and inputs are hashed, which identifies saved results.
        progress: Called with the samples that were run and those that there are, over all
            models on all engines.
    """

    outputs: Sequence[str] | str | None = None
    judge: ResultJudge = field(default_factory=Simple)
    limits: Simple | None = None
    postprocess: LargestIndices | None = None
    validate: bool = False
    fail_fast: bool = False
    memory_limit: int = MEMORY_LIMIT
    keep: bool = False
    hashes: bool = False
    progress: Callable[[int, int], object] = lambda done, total: None

    @property
    def share(self) -> int:
        """Bytes that an engine may be asked for at once, and that are kept beside it."""
        return max(1, self.memory_limit // PARTS)

    @property
    def wanted(self) -> Sequence[str] | None:
        """The values that were named; None for all, or the outputs."""
        return None if isinstance(self.outputs, str) else self.outputs
