"""All that is added up about a candidate and its reference.

This covers errors of outputs, decisions of classifiers, and metrics of the user. The order and
the grouping of shards do not matter: sums are exact.
"""

from __future__ import annotations

import heapq
import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, Protocol, Self, TypeVar

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.contracts import Equality, Tolerance, metrics
from onnx_passes.contracts.scores import (
    decibels,
    dtype_name,
    kind_of,
    kl_divergence,
    rank,
    shape_text,
    widen,
)
from onnx_passes.errors import ReferenceDataError, UsageError, VerificationError
from onnx_passes.optional import named_function, users_call
from onnx_passes.plain import Plain, PlainDict, PlainMapping, spelled
from onnx_passes.verify.judge import Limit


@dataclass(frozen=True)
class Block:
    """Results of some samples, of a reference and of a candidate.

    ``rows`` are numbers in the whole data set, int64 [n]. Outputs and labels are [n, ...].
    """

    rows: Array
    left: Mapping[str, Array]
    right: Mapping[str, Array]
    labels: Array | None = None


class Sums:
    """Sums over samples that can be joined, and kept as JSON.

    ``state`` names the attributes that hold them: numbers, counters, and others of these.
    """

    state: ClassVar[tuple[str, ...]] = ()

    def merge(self, other: Self) -> None:
        """Add what another one added up."""
        for name in self.state:
            own, more = getattr(self, name), getattr(other, name)
            if isinstance(own, int):
                setattr(self, name, own + more)
            elif isinstance(own, Counter):
                own.update(more)
            else:
                own.merge(more)

    def to_json(self) -> Plain:
        """Return the state as JSON has it."""
        found = {name: getattr(self, name) for name in self.state}
        plain = {n: v for n, v in found.items() if isinstance(v, int | Counter)}
        return {n: v.to_json() for n, v in found.items() if n not in plain} | plain

    def load(self, state: Plain) -> None:
        """Replace the state by one of :meth:`to_json`."""
        for name, told in state.items():
            own = getattr(self, name)
            if isinstance(own, int | Counter):
                setattr(self, name, type(own)(told))
            else:
                own.load(told)


T = TypeVar("T", bound="Sums | MetricState")


class Named(dict[str, T]):
    """Sums by name, made when they are first asked for."""

    def __init__(self, make: Callable[[str], T], names: Iterable[str] = ()) -> None:
        super().__init__((name, make(name)) for name in names)
        self._make = make

    def __missing__(self, name: str) -> T:
        made = self[name] = self._make(name)
        return made

    def merge(self, other: PlainMapping) -> None:
        """Add what others added up."""
        for name, each in other.items():
            self[name].merge(each)

    def to_json(self) -> PlainDict:
        """Return the states by name."""
        return {name: each.to_json() for name, each in self.items()}

    def load(self, state: PlainMapping) -> None:
        """Replace the states by those of :meth:`to_json`."""
        self.clear()
        for name, told in state.items():
            self[name].load(told)


class ExactSum(Sums):
    """An exact sum of floats: at most 2,100 bits and some for the count.

    NaN and infinities are counted separately.
    """

    def __init__(self) -> None:
        self._total, self.not_finite = Fraction(), 0

    def add(self, value: float) -> None:
        if math.isfinite(value):
            self._total += Fraction(value)
        else:
            self.not_finite += 1

    def merge(self, other: Self) -> None:
        self._total += other._total
        self.not_finite += other.not_finite

    @property
    def value(self) -> float:
        """The sum, rounded once; NaN where a term was not finite."""
        if self.not_finite:
            return math.nan
        try:
            return float(self._total)
        except OverflowError:
            return math.inf if self._total > 0 else -math.inf

    def to_json(self) -> Plain:
        """Return the sum as a fraction, and the number of terms that were not finite."""
        return [str(self._total), self.not_finite]

    def load(self, state: Plain) -> None:
        self._total, self.not_finite = Fraction(state[0]), state[1]


KEPT = 8


class WorstSamples(Sums):
    """The numbers of the samples with the largest badness; of equal ones the first."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self.samples: list[tuple[float, int]] = []

    def add(self, badness: Array, rows: Array) -> None:
        """Add samples.

        ``badness`` is float64 [n]: NaN counts as infinite, 0 as not bad. ``rows`` are int64
        [n].
        """
        bad = np.where(np.isnan(badness), np.inf, badness)
        places = np.flatnonzero(bad > 0)
        if len(places) > self._kept:
            order = np.lexsort((rows[places], -bad[places]))
            places = places[order[: self._kept]]
        self._add((float(bad[p]), int(rows[p])) for p in places)

    def _add(self, samples: Iterable[tuple[float, int]]) -> None:
        every = {*self.samples, *samples}
        self.samples = heapq.nsmallest(self._kept, every, key=lambda s: (-s[0], s[1]))

    def merge(self, other: Self) -> None:
        self._add(other.samples)

    @property
    def worst(self) -> float:
        """The largest badness; 0 without any."""
        return self.samples[0][0] if self.samples else 0.0

    def to_json(self) -> Plain:
        """Return pairs of badness and number."""
        return [[spelled(badness), row] for badness, row in self.samples]

    def load(self, state: Plain) -> None:
        self.samples = [(float(badness), int(row)) for badness, row in state]


def first_rows(rows: Array, chosen: Array) -> tuple[Array, Array]:
    """Return an infinite badness and the number of each chosen sample.

    ``chosen`` holds booleans, or places in ``rows``.
    """
    picked = rows[chosen]
    return np.full(len(picked), math.inf), picked


_SUMS = ("noise", "signal", "power", "product", "cosines")
_COUNTS = (
    *("samples", "elements", "failing_samples", "failing_elements"),
    *("cosine_samples", "measured"),
)


class Errors(Sums):
    """Adds up the errors of one output.

    An element fails under the rules of ``verify.judge``: a float that is beyond its limit,
    anything else that differs, a NaN or infinity on one side only.
    """

    state = ("counts", "sums", "largest", "failing", "reasons")

    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self.counts = Counter(dict.fromkeys(_COUNTS, 0))
        self.sums = Named(lambda name: ExactSum(), _SUMS)
        self.largest = WorstSamples()
        self.failing = WorstSamples()
        self.reasons: Counter[str] = Counter()

    def update(self, rows: Array, left: Array, right: Array) -> Array:
        """Add samples [n], and return which of them fail, bool [n]."""
        count = len(rows)
        self.counts["samples"] += count
        self.counts["elements"] += left.size
        if reason := _describe_mismatch(left, right):
            self.reasons[reason] += count
            self.counts["failing_samples"] += count
            self.counts["failing_elements"] += left.size
            self.failing.add(np.full(count, math.inf), rows)
            return np.ones(count, bool)
        inexact = kind_of(left.dtype) in ("float", "complex")
        if inexact or self._limit.of(left.dtype) is not None:
            return self._floats(rows, left, right)
        bad: Array = np.asarray(left != right).reshape(len(rows), -1)
        return self._fail(bad, rows, bad.sum(axis=1, dtype=np.float64))

    def _floats(self, rows: Array, left: Array, right: Array) -> Array:
        count = len(rows)
        close = self._limit.of(left.dtype)
        old, new = (widen(a).reshape(count, -1) for a in (left, right))
        with np.errstate(invalid="ignore", over="ignore"):
            same = (old == new) | (np.isnan(old) & np.isnan(new))
            usable = np.isfinite(old) & np.isfinite(new)
            if usable.all():
                error, clean, other = np.abs(new - old), old, new
            else:
                error = np.where(usable, np.abs(new - old), np.where(same, 0.0, np.inf))
                clean, other = np.where(usable, old, 0), np.where(usable, new, 0)
            allowed = 0.0 if close is None else close[1] + close[0] * np.abs(clean)
            bad: Array = ~same & ~(error <= allowed)
            failing = self._fail(bad, rows, error.max(axis=1, initial=0))
            self.largest.add(error.max(axis=1, initial=0), rows)
            known = np.isfinite(error)
            self.counts["measured"] += int(known.sum())
            finite = error if known.all() else np.where(known, error, 0)
            self._sum(clean, other, finite)
        return failing

    def _fail(self, bad: Array, rows: Array, badness: Array) -> Array:
        failing: Array = np.any(bad, axis=1)
        self.counts["failing_elements"] += int(bad.sum())
        self.counts["failing_samples"] += int(failing.sum())
        if failing.any():
            self.failing.add(badness[failing], rows[failing])
        return failing

    def _sum(self, old: Array, new: Array, error: Array) -> None:
        # Each sample by itself, so that sums do not depend on how samples are joined.
        signal, power = _energy(old), _energy(new)
        product = np.einsum("ij,ij->i", old, new.conj(), optimize=False).real
        self.sums["noise"].add(math.fsum(_energy(error)))
        self.sums["signal"].add(math.fsum(signal))
        self.sums["power"].add(math.fsum(power))
        self.sums["product"].add(math.fsum(product))
        both = (signal > 0) & (power > 0)
        cosines = product[both] / np.sqrt(signal[both]) / np.sqrt(power[both])
        self.sums["cosines"].add(math.fsum(np.clip(cosines, -1, 1)))
        self.counts["cosine_samples"] += int(both.sum())

    def finish(self) -> PlainDict:
        """Return what was found, as JSON has it; errors are absolute ones of elements."""
        noise, signal = self.sums["noise"].value, self.sums["signal"].value
        counted = self.counts["measured"]
        cosines = self.counts["cosine_samples"]
        mean = self.sums["cosines"].value / cosines if cosines else math.nan
        return {
            **self.counts,
            "max_abs": spelled(self.largest.worst),
            "rmse": spelled(math.sqrt(noise / counted)) if counted else None,
            "sqnr_db": spelled(decibels(signal, noise)) if counted else None,
            "mean_cosine": spelled(mean) if cosines else None,
            "largest": self.largest.to_json(),
            "failing": self.failing.to_json(),
            "reasons": dict(sorted(self.reasons.items())),
        }


def _energy(values: Array) -> Array:
    found: Array = np.einsum("ij,ij->i", values, values.conj(), optimize=False).real
    return found


def _describe_mismatch(left: Array, right: Array) -> str:
    want, got = dtype_name(left.dtype), dtype_name(right.dtype)
    if want != got:
        return f"dtype is {got}, expected {want}"
    if left.shape[1:] != right.shape[1:]:
        return f"shape is {shape_text(right.shape[1:])}, expected {shape_text(left.shape[1:])}"
    return ""


_PAIRED = ("both", "only_left", "only_right", "neither")


class Classes(Sums):
    """Adds up the decisions of a reference (left) and a candidate (right).

    Rows are what has one label: samples, or places of a sample. A row whose scores hold a NaN
    has no class, and is wrong.
    """

    state = (
        *("rows", "labelled", "flips", "classes", "paired"),
        *("divergence", "lost", "flipped"),
    )

    def __init__(self) -> None:
        self.rows = self.labelled = self.flips = self.classes = 0
        self.paired = Counter(dict.fromkeys(_PAIRED, 0))
        self.divergence = ExactSum()
        self.lost = WorstSamples()
        self.flipped = WorstSamples()

    def update(self, rows: Array, left: Array, right: Array, labels: Array | None) -> None:
        """Add samples.

        Scores are [n, ..., C], or [n, C, ...] where labels [n, ...] say so. Raises
        ``ReferenceDataError`` if the labels do not fit the scores.
        """
        truth = None
        if labels is None:
            old_rows, new_rows = (widen(a).reshape(-1, a.shape[-1]) for a in (left, right))
        else:
            old_rows, truth = rank(left, labels)
            new_rows, _ = rank(right, labels)
        self.classes = max(self.classes, old_rows.shape[1])
        old, new = _classes(old_rows), _classes(new_rows)
        owner = np.repeat(rows, len(old) // max(1, len(rows)))
        self.rows += len(old)
        changed = old != new
        self.flips += int(changed.sum())
        self.flipped.add(*first_rows(owner, changed))
        if left is not right and len(old):
            self.divergence.add(kl_divergence([new_rows], [old_rows]) * len(old))
        if truth is None:
            return
        self.labelled += len(old)
        was, is_ = old == truth, new == truth
        for name, chosen in zip(
            _PAIRED, (was & is_, was & ~is_, ~was & is_, ~was & ~is_), strict=True
        ):
            self.paired[name] += int(chosen.sum())
        self.lost.add(*first_rows(owner, was & ~is_))

    def merge(self, other: Self) -> None:
        """Add what another one added up; raise ``ValueError`` if it has other classes."""
        if self.rows and other.rows and self.classes != other.classes:
            raise ValueError(f"{other.classes} classes, and {self.classes} before")
        classes = max(self.classes, other.classes)
        super().merge(other)
        self.classes = classes

    def finish(self) -> PlainDict:
        """Return what was found, as JSON has it."""
        state: PlainDict = self.to_json()
        del state["divergence"]
        mean = self.divergence.value / self.rows if self.rows else math.nan
        found = state | {"mean_kl": spelled(mean)}
        if self.labelled:
            found["accuracy_left"] = self.correct("left") / self.labelled
            found["accuracy_right"] = self.correct("right") / self.labelled
        return found

    def correct(self, side: str) -> int:
        """Return how many rows a side has right."""
        return self.paired["both"] + self.paired[f"only_{side}"]


def _classes(scores: Array) -> Array:
    """Return the class of each row; the number of classes where it has none."""
    best: Array = scores.argmax(axis=1).astype(np.int64)
    if scores.dtype.kind == "f" and (bad := np.isnan(scores).any(axis=1)).any():
        best = np.where(bad, scores.shape[1], best)
    return best


class MetricState(Protocol):
    """A metric over a data set, as a user's class has it.

    ``merge`` has to be associative, and the state bounded.
    """

    def update(self, produced: list[Array], expected: list[Array]) -> None:
        """Add outputs of the candidate, and labels or reference outputs: [samples, ...]."""
        ...

    def merge(self, other: Self) -> None:
        """Add what another one added up."""
        ...

    def finish(self) -> float:
        """Return the metric."""
        ...

    def to_json(self) -> Plain:
        """Return the state as JSON has it."""
        ...

    def load(self, state: object) -> None:
        """Replace the state by one of :meth:`to_json`."""
        ...


_METHODS = ("update", "merge", "finish", "to_json", "load")


def make_metric(name: str) -> MetricState:
    """Return a metric that is empty.

    ``name`` is a registered metric, or ``module:Class`` with the methods of
    :class:`MetricState`. Raises ``UsageError`` if it cannot be added up over a data set, and
    ``UnknownMetricError`` if there is none.
    """
    if ":" not in name:
        return _Registered(metrics.lookup(name))
    made = named_function(name, "--metric")()
    if missing := [m for m in _METHODS if not inspect.ismethod(getattr(made, m, None))]:
        raise UsageError(
            f"the metric {name!r} has no method {missing[0]!r}",
            help=f"a metric over a data set has {', '.join(_METHODS)}",
        )
    metric: MetricState = made
    return metric


class _Registered:
    """A registered metric, by its values for blocks of samples."""

    def __init__(self, metric: metrics.RegisteredMetric) -> None:
        if metric.samples == "concatenate":
            raise UsageError(
                f"the metric {metric.name!r} needs all samples at once",
                help="over a data set, use a class with " + ", ".join(_METHODS),
            )
        self._metric = metric
        self._sum, self._weight = ExactSum(), 0
        self._extreme: float | None = None

    def update(self, produced: list[Array], expected: list[Array]) -> None:
        value = self._metric.measure([produced], [expected])
        weight = expected[0].shape[0] if expected and expected[0].ndim else 1
        mean = self._metric.samples == "mean"
        self._sum.add(value * (weight if mean else 1))
        self._weight += weight
        self._see(value)

    def _see(self, value: float) -> None:
        old = self._extreme
        if old is None or math.isnan(value) or math.isnan(old):
            self._extreme = value if old is None else math.nan
        else:
            self._extreme = (
                max(old, value) if self._metric.samples == "max" else min(old, value)
            )

    def merge(self, other: Self) -> None:
        self._sum.merge(other._sum)
        self._weight += other._weight
        if other._extreme is not None:
            self._see(other._extreme)

    def finish(self) -> float:
        """Return the metric; NaN without samples."""
        how = self._metric.samples
        if not self._weight or self._extreme is None:
            return math.nan
        if how in ("max", "min"):
            return self._extreme
        return self._sum.value / (self._weight if how == "mean" else 1)

    def to_json(self) -> Plain:
        extreme = None if self._extreme is None else spelled(self._extreme)
        return [self._sum.to_json(), self._weight, extreme]

    def load(self, state: Plain) -> None:
        total, self._weight, extreme = state
        self._sum.load(total)
        self._extreme = None if extreme is None else float(extreme)


class Metrics(Sums):
    """Adds up the metrics of a run."""

    state = ("states",)

    def __init__(self, names: tuple[str, ...]) -> None:
        self.states: Named[MetricState] = Named(make_metric, names)

    def update(self, block: Block) -> None:
        """Add a block; raise ``VerificationError`` if a metric raises."""
        produced = [np.asarray(value) for value in block.right.values()]
        for name, state in self.states.items():
            expected = self._expected(name, block)
            how = "update(produced, expected) gets two lists of arrays"
            with users_call(f"metric {name!r}", VerificationError, how):
                state.update(produced, expected)

    def _expected(self, name: str, block: Block) -> list[Array]:
        by_labels = ":" in name or metrics.lookup(name).expects != "reference"
        if by_labels and block.labels is not None:
            return [block.labels]
        return [np.asarray(value) for value in block.left.values()]

    def finish(self) -> PlainDict:
        return {name: spelled(float(state.finish())) for name, state in self.states.items()}


MOST_DECISIONS = 10_000
"""An output with more elements along its last axis is not taken for scores of classes."""


@dataclass(frozen=True)
class Measures:
    """What is measured.

    Tolerances of None are the defaults of each dtype. ``overrides`` has pairs (rtol, atol) by
    name of an output. ``scores`` is the output with class scores: None for the first float
    output of two axes or more, "" for none.
    """

    exact: bool = False
    rtol: float | None = None
    atol: float | None = None
    overrides: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    scores: str | None = None
    metrics: tuple[str, ...] = ()

    def limit(self, output: str) -> Limit:
        """Return how far the floats of an output may be off."""
        if self.exact:
            return Limit()
        if output in self.overrides:
            return Limit(Tolerance(*self.overrides[output]), explicit=True)
        return Limit(Tolerance(self.rtol, self.atol))

    @classmethod
    def of(
        cls, contract: Equality | Tolerance, overrides: Mapping[str, Tolerance], **rest: Plain
    ) -> Measures:
        """Return the measures of limits as other commands have them."""
        named = {name: (limit.rtol, limit.atol) for name, limit in overrides.items()}
        if isinstance(contract, Equality):
            return cls(exact=True, **rest)
        return cls(False, contract.rtol, contract.atol, named, **rest)


class PairState(Sums):
    """Adds up what a candidate gives beside a reference."""

    state = ("samples", "failing", "outputs", "missing", "classes", "metrics")

    def __init__(self, measures: Measures) -> None:
        self._measures = measures
        self.samples = self.failing = 0
        self.outputs = Named(lambda name: Errors(measures.limit(name)))
        self.missing: Counter[str] = Counter()
        self.classes = Classes()
        self.metrics = Metrics(measures.metrics)

    def update(self, block: Block) -> None:
        """Add a block; raise what :meth:`Classes.update` and :meth:`Metrics.update` do."""
        self.samples += len(block.rows)
        bad = np.zeros(len(block.rows), bool)
        for name in {*block.left, *block.right} - (block.left.keys() & block.right.keys()):
            side = "is missing" if name in block.left else "is not an output of the reference"
            self.missing[f"{name} {side}"] += len(block.rows)
            bad[:] = True
        for name, left in block.left.items():
            if name in block.right:
                bad |= self.outputs[name].update(block.rows, left, block.right[name])
        self.failing += int(bad.sum())
        self._classify(block)
        self.metrics.update(block)

    def _classify(self, block: Block) -> None:
        name = self._scores(block)
        if name is None or name not in block.right:
            return
        left, right = block.left[name], block.right[name]
        if left.shape == right.shape:  # else it is reported as a failing output
            self.classes.update(block.rows, left, right, block.labels)

    def _scores(self, block: Block) -> str | None:
        wanted = self._measures.scores
        if wanted is not None:
            if wanted and wanted not in block.left:
                raise ReferenceDataError(
                    f"there is no output {wanted!r} for the scores",
                    help=f"the outputs are {', '.join(block.left)}",
                )
            return wanted or None
        for name, value in block.left.items():
            scores = kind_of(value.dtype) == "float" and value.ndim >= 2
            if scores and 2 <= value.shape[-1] <= MOST_DECISIONS:
                return name
        return None

    def finish(self) -> PlainDict:
        return {
            "samples": self.samples,
            "failing_samples": self.failing,
            "outputs": {name: errors.finish() for name, errors in self.outputs.items()},
            "missing": dict(sorted(self.missing.items())),
            "classes": self.classes.finish() if self.classes.rows else None,
            "metrics": self.metrics.finish(),
        }
