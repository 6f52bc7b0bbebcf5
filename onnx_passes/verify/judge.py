"""The one judge: does what a model gives keep a promise about what another model gave?

Names, types and shapes are compared first, then every element in bounded memory. A score and
the error growth say as numbers how far results are from a reference.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from onnx_passes.arrays import Array, DType, float_limits, release_pages
from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.contracts.scores import Kind, blocks, dtype_name, kind_of, shape_text, widen
from onnx_passes.plain import Plain
from onnx_passes.runtime.engine_base import Data, Outputs
from onnx_passes.verify.evidence import Check, OutputCheck, Verdict

# rtol and atol as torch.testing.assert_close has them (PyTorch's documentation); half and
# bfloat16 pairs as their scalars.
_DEFAULTS = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex32": (1e-3, 1e-5),
    "bcomplex32": (1.6e-2, 1e-5),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
    # An exponent alone: its neighbours differ by a factor of two, which is not rounding.
    "float8_e8m0fnu": (0.0, 0.0),
}


def default_tolerance(dtype: DType) -> tuple[float, float]:
    """Return rtol and atol for a dtype.

    As ``torch.testing`` from 16 bits up. It has none for floats of 8 bits and fewer; those get
    one step: rtol the machine epsilon, atol the smallest subnormal. All else is exact.
    """
    if dtype.name in _DEFAULTS:
        return _DEFAULTS[dtype.name]
    if kind_of(dtype) != "float":
        return 0.0, 0.0
    info = float_limits(dtype)
    return float(info.eps), float(info.smallest_subnormal)


@dataclass(frozen=True, slots=True)
class Limit:
    """How far an element may be from the reference's: ``atol + rtol * |reference|``.

    A tolerance of None compares bit by bit. ``scale_by_max`` replaces the element by ``max
    |reference|`` of the tensor. An ``explicit`` tolerance was given for this very output, and
    so holds for integers too.
    """

    tolerance: Tolerance | None = None
    scale_by_max: bool = False
    negative_zero: bool = False
    explicit: bool = False

    def of(self, dtype: DType) -> tuple[float, float] | None:
        """Return rtol and atol for a dtype; None where elements must be equal."""
        kind = kind_of(dtype)
        inexact = kind in ("float", "complex") or (kind == "int" and self.explicit)
        if self.tolerance is None or not inexact:
            return None
        rtol, atol = default_tolerance(dtype)
        given = self.tolerance
        return (
            rtol if given.rtol is None else given.rtol,
            atol if given.atol is None else given.atol,
        )


def compare_elements(name: str, expected: Array, actual: Array, limit: Limit) -> OutputCheck:
    """Compare two tensors whose dtype and shape agree already."""
    kind = kind_of(expected.dtype)
    close = limit.of(expected.dtype)
    tally = _Tally(close, negative_zero=limit.negative_zero)
    for start, (e, a) in blocks(expected, actual):
        if kind == "string":
            pairs = zip(e, a, strict=True)
            tally.add_exact(start, np.array([_text(x) != _text(y) for x, y in pairs]))
            continue
        if _same_bytes(e, a):
            continue
        if close is not None and limit.scale_by_max and tally.scale is None:
            tally.scale = _largest(expected)
        if kind == "bool":
            tally.add_exact(start, e != a)
        elif kind == "int":
            tally.add_integers(start, e, a)
        else:
            tally.add_floats(start, e, a)
    release_pages(expected)
    release_pages(actual)
    return tally.result(name, kind, expected, actual)


def _same_bytes(e: Array, a: Array) -> bool:
    width = next(w for w in (np.uint64, np.uint8) if e.nbytes % np.dtype(w).itemsize == 0)
    if e.dtype != a.dtype:  # in the order of bytes; the native one has two names
        return False
    return np.array_equal(e.view(width), a.view(width))


def _text(element: object) -> object:
    return (
        element.decode("utf-8", "surrogateescape") if isinstance(element, bytes) else element
    )


def _largest(array: Array) -> float:
    largest = 0.0
    for _, (block,) in blocks(array):
        magnitude = np.abs(widen(block))
        largest = max(
            largest, float(np.max(magnitude, initial=0, where=np.isfinite(magnitude)))
        )
    return largest


class _Tally:
    """What the blocks seen so far add up to."""

    def __init__(self, close: tuple[float, float] | None, *, negative_zero: bool) -> None:
        self.close, self.negative_zero = close, negative_zero
        self.scale: float | None = None
        self.mismatched = 0
        self.max_abs = self.max_rel = self.share = 0.0
        # Mismatches come before matches, then the larger score, then the first seen.
        self.worst: tuple[bool, float, int] = (False, 0.0, -1)

    def add_exact(self, start: int, bad: Array) -> None:
        self._add(start, bad, bad.astype(np.float64))

    def add_integers(self, start: int, e: Array, a: Array) -> None:
        wide = np.uint64 if e.dtype.name.startswith("u") else np.int64
        e, a = e.astype(wide), a.astype(wide)
        # Modulo 2^64 this is |a - e| exactly, where int64 itself would overflow.
        difference = np.maximum(e, a).view(np.uint64) - np.minimum(e, a).view(np.uint64)
        self._measure(start, difference != 0, difference.astype(np.float64), widen(e))

    def add_floats(self, start: int, e: Array, a: Array) -> None:
        e, a = widen(e), widen(a)
        with np.errstate(all="ignore"):
            difference = np.abs(a - e)
            finite = None
            bad = difference != 0
            # The common case, seen from one number: nothing is NaN or infinite.
            if not np.isfinite(difference.max()):
                finite = np.isfinite(e) & np.isfinite(a)
                difference = np.where(finite, difference, 0.0)
                bad = ~_same(e, a)
        if self.negative_zero and self.close is None:
            bad = bad | (_sign(e) != _sign(a))
        self._measure(start, bad, difference, e, finite)

    def _measure(
        self, start: int, bad: Array, difference: Array, e: Array, finite: Array | None = None
    ) -> None:
        score = difference
        with np.errstate(all="ignore"):
            magnitude = np.abs(e)
            if finite is None and magnitude.min() > 0:
                relative = difference / magnitude
            else:
                counts = magnitude > 0 if finite is None else finite & (magnitude > 0)
                relative = np.divide(
                    difference, magnitude, where=counts, out=np.zeros_like(difference)
                )
            if self.close is not None:
                rtol, atol = self.close
                reach = magnitude if self.scale is None else self.scale
                allowed = atol + rtol * reach
                score = difference - allowed
                # Of nothing, no share exceeds the limit, and anything is too much.
                share = np.where(difference == 0, 0.0, difference / allowed)
                self.share = max(self.share, float(np.nanmax(share, initial=0.0)))
                bad = bad & ~(score <= 0) if finite is None else bad & ~(finite & (score <= 0))
        self.max_abs = max(self.max_abs, float(difference.max()))
        self.max_rel = max(self.max_rel, float(relative.max()))
        if finite is not None:
            score = np.where(finite, score, np.inf)
            if (bad & ~finite).any():
                self.share = float("inf")
        self._add(start, bad, score if bad.any() else difference)

    def _add(self, start: int, bad: Array, score: Array) -> None:
        count = int(np.count_nonzero(bad))
        self.mismatched += count
        ranked = np.where(bad, score, -np.inf) if count else score
        index = int(ranked.argmax())
        candidate = (count > 0, float(ranked[index]), start + index)
        if candidate[:2] > self.worst[:2]:
            self.worst = candidate

    def result(self, name: str, kind: Kind, expected: Array, actual: Array) -> OutputCheck:
        numeric = kind in ("float", "complex", "int")
        rtol, atol = self.close or (0.0, 0.0)
        where: tuple[int, ...] | None = None
        texts: tuple[str, str] | None = None
        if self.worst[2] >= 0:
            where = tuple(int(i) for i in np.unravel_index(self.worst[2], expected.shape))
            texts = _element(expected[where]), _element(actual[where])
        return OutputCheck(
            output=name,
            passed=self.mismatched == 0,
            reason=self._reason(where, texts, expected.size, numeric),
            max_abs=self.max_abs if numeric else None,
            max_rel=self.max_rel if numeric else None,
            worst=where,
            expected=texts[0] if texts else None,
            actual=texts[1] if texts else None,
            mismatched=self.mismatched,
            size=expected.size,
            rtol=rtol,
            atol=atol,
            limit=self._allowed(where, expected),
            share=self.share if self.close is not None else None,
        )

    def _allowed(self, where: tuple[int, ...] | None, expected: Array) -> float | None:
        if self.close is None:
            return None
        rtol, atol = self.close
        reach = self.scale
        if reach is None:
            # Where nothing differs no element is the worst: what holds for any is reported.
            worst = np.asarray(0.0 if where is None else expected[where])
            element = float(np.abs(widen(worst)))
            reach = element if np.isfinite(element) else 0.0
        return atol + rtol * reach

    def _reason(
        self,
        where: tuple[int, ...] | None,
        texts: tuple[str, str] | None,
        size: int,
        numeric: bool,
    ) -> str | None:
        if self.mismatched == 0 or where is None or texts is None:
            return None
        differ = f"{self.mismatched} of {size} elements differ"
        if self.close is not None:
            differ += " by more than the tolerance"
        at = f"at {shape_text(where)} {texts[1]} is not {texts[0]}"
        if not numeric or self.worst[1] in (0, np.inf):
            return f"{differ}, {at}"
        return f"{differ}, by up to {self.max_abs:.3g}"


def _same(e: Array, a: Array) -> Array:
    if np.iscomplexobj(e):
        same: Array = _same(e.real, a.real) & _same(e.imag, a.imag)
        return same
    same = (e == a) | (np.isnan(e) & np.isnan(a))
    return same


def _sign(array: Array) -> Array:
    """Return the sign bits, with those of NaN left out."""
    if np.iscomplexobj(array):
        both: Array = _sign(array.real) + 2 * _sign(array.imag)
        return both
    bits: Array = (np.signbit(array) & ~np.isnan(array)).astype(np.int8)
    return bits


def _element(element: Any) -> str:
    value = _text(element)
    return repr(str(value)) if isinstance(value, str) else str(value)


def compare(
    expected: Outputs,
    actual: Outputs,
    contract: Equality | Tolerance,
    *,
    overrides: Mapping[str, Tolerance] | None = None,
    scale_by_max: bool | Collection[str] = False,
    negative_zero: bool = False,
) -> tuple[OutputCheck, ...]:
    """Compare the outputs of a candidate with those of the reference.

    Names, count, order, dtypes and shapes must agree; nothing is broadcast. NaN agrees with
    NaN, an infinity with itself only. Integers, booleans and strings are exact. Floats are
    exact under equality; under tolerance, ``|actual - expected| <= atol + rtol * |expected|``,
    with what the contract leaves open filled in by :func:`default_tolerance`.

    An override loosens no equality; one that names an integer output lets its integers differ.
    ``scale_by_max`` measures against ``max |expected|`` of all tensors, or of those named:
    inside a model small elements carry the error of large ones.

    There is a check for each output, for each element of a sequence or map, and for each
    output that one side lacks. It is never empty: two sides without outputs fail.
    """
    if not expected and not actual:
        return (_failure("", "there are no outputs to compare"),)
    checks: list[OutputCheck] = []
    ours = [name for name in actual if name in expected]
    for position, name in enumerate(n for n in expected if n in actual):
        if ours[position] != name:
            reason = f"is output {ours.index(name)} of those in common, expected {position}"
            checks.append(_failure(name, reason))
        else:
            walk = _Descent(name, contract, overrides or {}, scale_by_max, negative_zero)
            checks.extend(walk.values(name, expected[name], actual[name]))
    has = f"the candidate has {', '.join(actual) or 'no outputs'}"
    checks.extend(_failure(n, f"is missing; {has}") for n in expected if n not in actual)
    checks.extend(
        _failure(n, "is no output of the original") for n in actual if n not in expected
    )
    return tuple(checks)


class _Descent:
    """Descends into the sequences and maps of one output, down to tensors."""

    def __init__(
        self,
        output: str,
        contract: Equality | Tolerance,
        overrides: Mapping[str, Tolerance],
        scale_by_max: bool | Collection[str],
        negative_zero: bool,
    ) -> None:
        self.output, self.contract, self.overrides = output, contract, overrides
        scaled = scale_by_max if isinstance(scale_by_max, bool) else output in scale_by_max
        self.scale_by_max, self.negative_zero = scaled, negative_zero

    def values(self, path: str, expected: object, actual: object) -> Iterator[OutputCheck]:
        expected, actual = _boxed(expected), _boxed(actual)
        want, got = _describe(expected), _describe(actual)
        if want != got:
            yield _failure(path, f"is {got}, expected {want}")
        elif isinstance(expected, np.ndarray) and isinstance(actual, np.ndarray):
            yield self.tensors(path, expected, actual)
        elif isinstance(expected, list) and isinstance(actual, list):
            yield from self.sequences(path, expected, actual)
        elif isinstance(expected, Mapping) and isinstance(actual, Mapping):
            yield from self.maps(path, expected, actual)
        else:
            yield OutputCheck(path, passed=True)

    def sequences(
        self, path: str, expected: list[Plain], actual: list[Plain]
    ) -> Iterator[OutputCheck]:
        if len(expected) != len(actual):
            yield _failure(path, f"has {len(actual)} elements, expected {len(expected)}")
        elif not expected:
            yield OutputCheck(path, passed=True)
        for index, pair in enumerate(zip(expected, actual, strict=False)):
            yield from self.values(f"{path}[{index}]", *pair)

    def maps(
        self, path: str, expected: Mapping[Plain, Plain], actual: Mapping[Plain, Plain]
    ) -> Iterator[OutputCheck]:
        if missing := [key for key in expected if key not in actual]:
            yield _failure(path, f"lacks the key {missing[0]!r}")
        if extra := [key for key in actual if key not in expected]:
            yield _failure(path, f"has the key {extra[0]!r}, which is not expected")
        if not expected and not actual:
            yield OutputCheck(path, passed=True)
        for key in expected:
            if key in actual:
                yield from self.values(f"{path}[{key!r}]", expected[key], actual[key])

    def tensors(self, path: str, expected: Array, actual: Array) -> OutputCheck:
        want, got = dtype_name(expected.dtype), dtype_name(actual.dtype)
        if want != got:
            return _failure(path, f"dtype is {got}, expected {want}", expected.size)
        if expected.shape != actual.shape:
            shapes = shape_text(actual.shape), shape_text(expected.shape)
            return _failure(path, "shape is {}, expected {}".format(*shapes), expected.size)
        if kind_of(expected.dtype) == "other":
            return _failure(path, f"dtype {want} cannot be compared", expected.size)
        return compare_elements(path, expected, actual, self.limit(path))

    def limit(self, path: str) -> Limit:
        if isinstance(self.contract, Equality):
            return Limit(negative_zero=self.negative_zero)
        for name in (path, self.output):
            if name in self.overrides:
                return Limit(self.overrides[name], self.scale_by_max, explicit=True)
        return Limit(self.contract, self.scale_by_max)


def identical(expected: object, actual: object) -> bool:
    """Whether two values are the same: type, shape and every bit, NaN being NaN."""
    walk = _Descent("", Equality(), {}, scale_by_max=False, negative_zero=True)
    return all(check.passed for check in walk.values("", expected, actual))


def _boxed(value: object) -> object:
    """Give a scalar, as maps hold them, the form of a tensor."""
    return (
        np.asarray(value)
        if isinstance(value, np.generic | str | bytes | float | int)
        else value
    )


def _describe(value: object) -> str:
    if value is None:
        return "an empty optional"
    for kind, name in ((np.ndarray, "a tensor"), (list, "a sequence"), (Mapping, "a map")):
        if isinstance(value, kind):
            return name
    return f"of Python type {type(value).__name__}"


def _failure(path: str, reason: str, size: int = 0) -> OutputCheck:
    return OutputCheck(path, passed=False, reason=reason, mismatched=size, size=size)


_SAYS = {"equality": "not as expected", "tolerance": "not within tolerance"}


@dataclass(frozen=True)
class Promise:
    """What values are held to, with nothing left open.

    ``limit`` replaces that of the contract. Values are ``inside`` a model if small elements of
    a tensor carry the error of its large ones. So do other outputs, named ``low``, that depend
    on values below float32. If ``derived``, double precision decides where the limit is that
    of the type alone. ``kind`` is by default the name of the contract.
    """

    contract: Equality | Tolerance
    limit: Tolerance | None = None
    overrides: Mapping[str, Tolerance] = field(default_factory=dict)
    inside: bool = False
    low: frozenset[str] = frozenset()
    negative_zero: bool = False
    derived: bool = False
    kind: str = ""

    def __post_init__(self) -> None:
        """Name the kind."""
        if not self.kind:
            object.__setattr__(self, "kind", str(self.contract).partition("(")[0])

    def is_derived(self, name: str) -> bool:
        """Whether no more than the type of a value limits it, and double precision decides."""
        given = self.contract if self.limit is None else self.limit
        by_type = isinstance(given, Tolerance) and given.rtol is None and given.atol is None
        return self.derived and by_type and name not in self.overrides

    def relative(self) -> Promise:
        """Return the promise without the absolute part of the limit of a type."""
        return replace(self, limit=Tolerance(atol=0.0))

    def check(self, expected: Outputs, actual: Outputs) -> tuple[OutputCheck, ...]:
        """Return a comparison of each value of one sample; see :func:`compare`."""
        return compare(
            expected,
            actual,
            self.contract if self.limit is None else self.limit,
            overrides=self.overrides,
            scale_by_max=self.inside or self.low,
            negative_zero=self.negative_zero,
        )

    def broken(self, expected: Outputs, actual: Outputs) -> list[OutputCheck]:
        """Return the comparisons of one sample that do not keep the promise."""
        return [found for found in self.check(expected, actual) if not found.passed]


def judge(
    expected: Sequence[Outputs],
    actual: Sequence[Outputs],
    promise: Promise,
    *,
    ignored: frozenset[str] = frozenset(),
    names: Sequence[str | None] = (),
) -> Check:
    """Hold values to a promise, on all samples.

    Values that the reference does not repeat are ``ignored``. ``names`` say what is special
    about each sample. The check fails if the worst comparison of a value does; it is not
    verified if nothing is left to compare.
    """
    worst = Worst()
    for sample, sides in enumerate(zip(expected, actual, strict=True)):
        old, new = ({k: v for k, v in side.items() if k not in ignored} for side in sides)
        if old or not sides[0]:
            worst.add(sample, promise.check(old, new))
    if not worst.found:
        unstable = ", ".join(sorted(ignored))
        reason = f"the original gives another result each time: {unstable}"
        return Check(promise.kind, Verdict.NOT_VERIFIED, reason=reason)
    return worst.check(promise.kind, names)


@dataclass
class Worst:
    """The worst comparison of each value over samples."""

    found: dict[str, OutputCheck] = field(default_factory=dict)
    samples: dict[str, int] = field(default_factory=dict)

    def add(self, sample: int, results: Sequence[OutputCheck]) -> None:
        """Add the comparisons of one sample."""
        for result in results:
            worst, old = result, self.found.get(result.output)
            if old is None or _worse(result, old):
                self.samples[result.output] = sample
            else:
                worst = old
            if old is not None:
                # The element is that of the worst sample; the errors are of all.
                worst = replace(
                    worst,
                    max_abs=_most(old.max_abs, result.max_abs),
                    max_rel=_most(old.max_rel, result.max_rel),
                    share=_share(old, result),
                )
            self.found[result.output] = worst

    def check(self, kind: str, names: Sequence[str | None] = ()) -> Check:
        """Return all as one check; ``names`` say what is special about each sample."""
        outputs = tuple(self.found.values())
        failed = [output for output in outputs if not output.passed]
        if not failed:
            return Check(kind, Verdict.PASSED, outputs=outputs)
        sample = self.samples[_farthest(failed).output]
        name = names[sample] if sample < len(names) else None
        reason = describe_mismatch(kind, outputs, sample, name)
        return Check(kind, Verdict.FAILED, reason=reason, sample=sample, outputs=outputs)


def _share(old: OutputCheck, new: OutputCheck) -> float | None:
    most = _most(old.share, new.share)
    # What failed by no limit (a shape, a type) fails under any.
    beyond = any(not check.passed and check.share is None for check in (old, new))
    return math.inf if most is not None and beyond else most


def _worse(new: OutputCheck, old: OutputCheck) -> bool:
    """Whether ``new`` says more of a failure than ``old``, or is farther off."""
    if old.passed != new.passed:
        return old.passed
    return (new.max_abs or 0.0) > (old.max_abs or 0.0)


def _farthest(failed: Sequence[OutputCheck]) -> OutputCheck:
    return max(failed, key=lambda output: output.max_abs or 0.0)


def _most(one: float | None, other: float | None) -> float | None:
    return max((v for v in (one, other) if v is not None), default=None)


def held_by_tolerance(
    old: Outputs, new: Outputs, which: Literal["all", "finite", "none"]
) -> tuple[Outputs, Outputs]:
    """Return what a tolerance holds of both sides: floats where the old ones are "finite"."""
    if which != "finite":
        return old, new if which == "all" else old
    left, right = dict(old), dict(new)
    for name, one in old.items():
        other = new.get(name)
        if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
            continue
        if one.shape != other.shape or {kind_of(one.dtype), kind_of(other.dtype)} != {"float"}:
            continue
        places = ~np.isfinite(one)
        if places.any():
            left[name], right[name] = (
                np.where(places, 0, side).astype(side.dtype) for side in (one, other)
            )
    return left, right


def describe_mismatch(
    kind: str, outputs: Sequence[OutputCheck], sample: int, name: str | None = None
) -> str:
    """Say which value is wrong, where and by how much."""
    failed = [output for output in outputs if not output.passed]
    worst = _farthest(failed)
    says = _SAYS.get(kind, "too far from the original")
    told = f" ({name})" if name else ""
    more = len(failed) - 1
    others = f" (and {more} more output{'s' if more > 1 else ''})" if more else ""
    return f"{worst.output} {says}{others}: {describe(worst)}, in sample {sample}{told}"


def describe(output: OutputCheck) -> str:
    """Say what is wrong with one value, in one clause."""
    if output.worst is None or output.rmse_new is not None:
        return output.reason or "it differs"
    count = f"{output.mismatched} of {output.size} elements differ"
    place = f"[{', '.join(map(str, output.worst))}]"
    off = distance_at(output)
    error = f" by {off:.3g}" if off else ""
    return f"{count}, at {place}{error}: expected {output.expected}, got {output.actual}"


def distance_at(output: OutputCheck) -> float | None:
    """Return how far the worst element is off; None where no number says it, as of NaN."""
    try:
        off = abs(float(str(output.actual)) - float(str(output.expected)))
    except ValueError:
        return output.max_abs  # a complex number, or a text
    return off if math.isfinite(off) else None


def on_engine(check: Check, engine: str, scope: str = "model") -> Check:
    """Return a check with the engine and the scope, "region" or "model", of its values."""
    return replace(check, engine=engine, scope=scope)


NOISE_FACTOR = 10.0
"""How far a fault must exceed the noise to be distinguished from it."""


def score(
    expected: Sequence[Outputs], produced: Sequence[Outputs], ignored: frozenset[str]
) -> float:
    """Return the largest error over all samples and outputs.

    The error of a tensor of floats is its largest absolute difference, divided by its largest
    reference element. Everything else, a shape, a NaN, an integer or a name that differs, is
    infinitely far off. Outputs are by sample.
    """
    worst = 0.0
    for old, new in zip(expected, produced, strict=True):
        left, right = _without(old, ignored), _without(new, ignored)
        if list(left) != list(right):
            return math.inf
        for name, value in left.items():
            worst = max(worst, _distance(value, right[name]))
    return worst


def resolution(outputs: Sequence[Outputs], ignored: frozenset[str]) -> float:
    """Return the coarsest rounding error of the floats among outputs; 0 without any."""
    kinds = {
        value.dtype
        for sample in outputs
        for name, value in sample.items()
        if name not in ignored and isinstance(value, np.ndarray) and _is_float(value)
    }
    return max((_epsilon(kind) for kind in kinds), default=0.0)


def geometric_mean(noise: float, final: float) -> float:
    """Return the geometric mean of the scores of noise and of a fault."""
    # A fault beyond all bounds says nothing of the middle.
    return math.sqrt(max(noise, 1e-12) * min(max(final, noise), 1.0))


def exceeds_noise(good: float, bad: float, noise: float) -> bool:
    """Whether a step from one score to another exceeds the noise."""
    return bad >= NOISE_FACTOR * max(good, noise)


def _without(outputs: Mapping[str, Data], ignored: frozenset[str]) -> dict[str, Data]:
    return {name: value for name, value in outputs.items() if name not in ignored}


def _distance(old: Data, new: Data) -> float:
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return max((_distance(a, b) for a, b in zip(old, new, strict=True)), default=0.0)
    checks = compare({"value": old}, {"value": new}, Equality())
    if all(check.passed for check in checks):
        return 0.0
    if not (isinstance(old, np.ndarray) and isinstance(new, np.ndarray)):
        return math.inf
    if not _is_float(old) or old.dtype != new.dtype or old.shape != new.shape:
        return math.inf
    a, b = _wide(old), _wide(new)
    finite = np.isfinite(a) & np.isfinite(b)
    special = ~finite & ~((a == b) | (np.isnan(a) & np.isnan(b)))
    if special.any():
        return math.inf
    largest = float(np.abs(a[finite]).max(initial=0.0))
    error = float(np.abs(b[finite] - a[finite]).max(initial=0.0))
    return error / largest if largest else math.inf


def _wide(array: Array) -> Array:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _is_float(array: Array) -> bool:
    return array.dtype.kind in "fc" or "float" in array.dtype.name


def _epsilon(kind: np.dtype[np.generic]) -> float:
    # numpy's finfo knows none of the types that ml_dtypes adds.
    one, two = np.array([1, 2]).astype(np.zeros(1, kind).real.dtype)
    return float(np.nextafter(one, two).astype(np.float64)) - 1


FLOOR = 0.1
"""The least error that counts, in units in the last place of the output's largest element.

An old result may be exact by luck; growth is not measured against nothing.
"""
_ANY = Tolerance(1e300, 1e300)


def error_growth(
    old: Outputs, new: Outputs, truth: Outputs, limit: float, floor: float = FLOOR
) -> list[OutputCheck]:
    """Compare the errors of two results.

    Names, types, shapes, NaN and infinities are compared as always, integers exactly. Only an
    infinity that double precision has, too, is right whatever the old result was. ``limit`` is
    how many times the error of ``old`` that of ``new`` may be, ``floor`` the least error that
    counts. In a check ``share`` is the growth over the limit.
    """
    held = {name: _corrected(old[name], new.get(name), truth.get(name)) for name in old}
    checks = compare(held, new, _ANY)
    return [_judged(c, old, new, truth, limit, floor) if c.passed else c for c in checks]


def _corrected(old: Data, new: Data | None, truth: Data | None) -> Data:
    """Return the old result, with the infinities that the new one and the truth agree on."""
    arrays = (old, new, truth)
    if not all(isinstance(a, np.ndarray) and _is_floating(a) for a in arrays):
        return old
    before, after, exact = (np.asarray(a) for a in arrays)
    if before.dtype != after.dtype or not before.shape == after.shape == exact.shape:
        return old
    agreed = np.isinf(exact) & (after == exact)
    return np.where(agreed, after, before)


def _judged(
    check: OutputCheck,
    old: Outputs,
    new: Outputs,
    truth: Outputs,
    limit: float,
    least_steps: float,
) -> OutputCheck:
    name = check.output
    arrays = [outputs.get(name) for outputs in (old, new, truth)]
    if not all(isinstance(a, np.ndarray) and _is_floating(a) for a in arrays):
        return check
    before, after, exact = (np.asarray(a, np.float64) for a in arrays)
    if before.shape != exact.shape or not exact.size:
        return check
    usable = np.isfinite(before) & np.isfinite(after) & np.isfinite(exact)
    if not usable.any():
        return check
    scale = float(np.max(np.abs(exact[usable])))
    floor = least_steps * scale * _resolution(old[name])
    error_before, error_after = (_rms(a[usable] - exact[usable]) for a in (before, after))
    least = max(error_before, floor)
    if error_after <= floor:
        growth = min(1.0, error_after / least) if least else 0.0
    else:
        growth = error_after / least if least else float("inf")
    found = replace(
        check,
        passed=growth <= limit,
        rmse_old=error_before,
        rmse_new=error_after,
        share=growth / limit,
        rtol=0.0,
        atol=0.0,
        limit=None,
    )
    if found.passed:
        return found
    reason = (
        f"its error is {growth:.3g} times what it was ({error_after:.3g} against "
        f"{least:.3g}), over the limit of {limit:g}"
    )
    return replace(found, reason=reason)


def _is_floating(array: Array) -> bool:
    return kind_of(array.dtype) == "float"


def _rms(errors: Array) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def _resolution(data: Data) -> float:
    return float(float_limits(np.asarray(data).dtype).eps)
