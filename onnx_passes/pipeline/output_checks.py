"""Compare the outputs of two models on one engine, within the limits of the pass.

Thresholds are found from the promise of the pass, the options of the user, and the noise of
the engine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.configs.sections import OutputTolerance, Verify
from onnx_passes.contracts import Contract, Equality, Metric, Tolerance, metrics
from onnx_passes.errors import ConfigError, EngineError, OnnxPassesError
from onnx_passes.pipeline.baseline import Baseline, EngineBaseline, SamplesLeftOutError
from onnx_passes.pipeline.noise import HEADROOM, Noise, OriginalRuns
from onnx_passes.pipeline.policy import Budget
from onnx_passes.pipeline.rounding import excuse_by_cause
from onnx_passes.report.text import NOISE, bound, number
from onnx_passes.runtime.engine_base import Feeds, Outputs
from onnx_passes.runtime.inputs import held_on, name_of
from onnx_passes.verify.evidence import ENGINE, Check, MetricCheck, OutputCheck, Verdict
from onnx_passes.verify.float64 import evaluate
from onnx_passes.verify.judge import (
    Promise,
    Worst,
    error_growth,
    held_by_tolerance,
    judge,
    on_engine,
)
from onnx_passes.verify.rounding import low_tolerances, makes_any_steps
from onnx_passes.verify.snapshot import Snapshot

_BY_ITSELF = "each change agrees by itself"
_AS_WRITTEN = "both agree where each node runs as written"
"""Why a drift is held to what rounding does to the original."""


@dataclass
class OutputComparison:
    """Puts what two models gave side by side, under the limits of the pipeline."""

    settings: Verify
    baseline: Baseline
    original: Snapshot
    labels: Sequence[Outputs] | None = None

    def __post_init__(self) -> None:
        self.thresholds = Thresholds(self.settings, self.baseline.notes, lambda: self.low)
        self.noise = Noise(self.baseline)
        self.truth = Float64Reference(self.settings, self.baseline, self.original)

    @cached_property
    def low(self) -> dict[str, Tolerance]:
        """Default limits of the outputs that come by way of values below float32."""
        return low_tolerances(self.original.model)

    def inside(self, contract: Contract, override: OutputTolerance | None) -> Promise:
        """Return what values inside a model are held to by a contract."""
        assert not isinstance(contract, Metric)
        if isinstance(contract, Equality):
            return Promise(contract, inside=True, negative_zero=self.settings.negative_zero)
        limit, overrides = self.thresholds.step(contract, override)
        derived = self.settings.derives_limits
        return Promise(contract, limit, overrides, inside=True, derived=derived)

    def contract(
        self,
        bench: EngineBaseline,
        accepted: list[Outputs],
        produced: list[Outputs],
        contract: Contract,
        override: OutputTolerance | None,
        budget: Budget,
        model: ir.Model,
        *,
        vouched: bool = False,
    ) -> list[Check]:
        """Hold outputs to a contract, against those of the model accepted last, by sample.

        ``vouched`` says that each change up to the model agrees by itself.
        """
        match contract:
            case Equality():
                return [self.compare("equality", bench, accepted, produced, contract)]
            case Tolerance() if self.truth.wanted and self.truth.usable:
                return [self._grown(bench, produced, vouched=vouched)]
            case Tolerance():
                limits = self.thresholds.step(contract, override)
                compare = partial(self.compare, "tolerance", bench, accepted, produced)
                step = self._above_noise(bench, limits, "tolerance", compare)
                step = self.excused(bench, produced, step, model, accepted)
                spent = self.spend(bench, accepted, produced, budget, model)
                return [*self.truth.missing(bench), step, spent]
            case Metric(names):
                found = self.metrics(bench, produced, names)
                if found:
                    return found
                reason = "the pass promises metrics, and the pipeline has no verify.metrics"
                name = bench.engine.name
                return [Check("metric", Verdict.NOT_VERIFIED, name, reason=reason)]

    def spend(
        self,
        bench: EngineBaseline,
        accepted: list[Outputs],
        produced: list[Outputs],
        budget: Budget,
        model: ir.Model,
        *,
        vouched: bool = False,
    ) -> Check:
        """Charge a pass for what it used of each output's error budget."""
        origin = bench.original if budget.origin is None else budget.origin

        def spent(limit: Tolerance, outputs: dict[str, Tolerance]) -> Check:
            drift = self.compare("drift", bench, origin, produced, limit, outputs)
            step = self.compare("drift", bench, accepted, produced, limit, outputs)
            return budget.spend(drift, step.outputs)

        found = self._above_noise(bench, self.thresholds.drift(), "drift", spent)
        if budget.origin is not None:
            return self._or_noise(found, bench, origin, produced)
        return self.excused(bench, produced, found, model, vouched=vouched)

    def context_noise(
        self,
        check: Check,
        bench: EngineBaseline,
        accepted: list[Outputs],
        produced: list[Outputs],
    ) -> Check:
        """Return a failed check of equal outputs as passed where they are within the drift.

        For a pass whose changes were proved, or found equal where both sides ran alike. The
        kernels of a whole model may round otherwise, as with weights in their own layout.
        """
        if check.verdict is not Verdict.FAILED:
            return check
        again = self.compare("drift", bench, accepted, produced, *self.thresholds.drift())
        if again.verdict is not Verdict.PASSED:
            return check
        reason = (
            f"context noise of up to {bound(again.max_abs or 0.0)}: {bench.engine.name} "
            "rounds otherwise in the whole model, and each change is equal by itself"
        )
        return replace(again, kind=check.kind, reason=reason)

    def excused(
        self,
        bench: EngineBaseline,
        produced: list[Outputs],
        check: Check,
        model: ir.Model,
        accepted: Sequence[Outputs] | None = None,
        *,
        vouched: bool = False,
        plain: list[Outputs] | None = None,
    ) -> Check:
        """Return a failed check as passed where rounding is all there is.

        Limits that somebody gave hold. Where neither rounding nor another function is seen, it
        is not judged if noise may be all there is. ``accepted`` defaults to the original's
        outputs. ``vouched`` says that each change up to the model agrees by itself. ``plain``
        are outputs of the original where each node rounds, which is as good as this engine.
        """
        wrong = {o.output for o in check.outputs if not o.passed}
        holds = self.thresholds.holds(check.kind)
        if check.verdict is not Verdict.FAILED or not wrong:
            return check
        where = _BY_ITSELF if plain is None else _AS_WRITTEN
        trusted = where if vouched and not holds else ""
        settled = self._settled(check, bench, produced, trusted)
        if settled is not None and settled.verdict is Verdict.PASSED:
            return settled
        if holds:
            return check
        compared = bench.original if accepted is None else accepted
        otherwise = settled or self._or_noise(check, bench, compared, produced)
        held = [k for k in range(len(produced)) if self._holds(check, k, compared, produced)]
        if not self.settings.derives_limits:
            return otherwise
        models = self.original.model, model
        feeds = [self.baseline.samples[k] for k in held]
        sides = [compared[k] for k in held]
        found = check
        for origin in (bench.original, *([plain] if plain is not None else [])):
            rows = [(origin[k], produced[k]) for k in held]
            found = excuse_by_cause(
                check, models, feeds, rows, sides, otherwise, elsewhere=plain is not None
            )
            if found.verdict is Verdict.PASSED:
                break
        return found

    def _grown(
        self, bench: EngineBaseline, produced: list[Outputs], *, vouched: bool
    ) -> Check:
        """Compare errors with those of the original.

        Behind steps these depend on luck, as does the error of a few numbers.
        """
        found = self.truth.judge(bench, produced)
        if found.verdict is not Verdict.FAILED or not vouched:
            return found
        wrong = {output.output for output in found.outputs if not output.passed}
        # An element of a sequence, or an output that is missing, has no array of its name.
        arrays = [row.get(name) for row in produced for name in wrong]
        few = all(isinstance(a, np.ndarray) and a.size <= _FEW for a in arrays)
        if not (few or makes_any_steps(self.baseline.model)):
            return found
        settled = self._settled(found, bench, produced, _BY_ITSELF)
        return settled if settled is not None and settled.verdict is Verdict.PASSED else found

    def _holds(
        self,
        check: Check,
        sample: int,
        expected: Sequence[Outputs],
        produced: Sequence[Outputs],
    ) -> bool:
        """Whether double precision decides on a sample: it overflows where numbers do."""
        which = held_on(self.baseline.samples[sample])
        if which == "all":
            return True
        old, new = held_by_tolerance(expected[sample], produced[sample], which)
        return any(
            Promise(Tolerance(o.rtol, o.atol)).broken(
                {o.output: old.get(o.output)}, {o.output: new.get(o.output)}
            )
            for o in check.outputs
            if not o.passed
        )

    def _settled(
        self, check: Check, bench: EngineBaseline, produced: list[Outputs], vouched: str
    ) -> Check | None:
        """Return a check as passed where rounding moves the original as far."""
        try:
            found = self.noise.settle(check, bench, produced, vouched)
        except EngineError:
            return None
        if found is not None and found.verdict is Verdict.PASSED and vouched:
            note, notes = f"drift on {check.engine}: {found.reason}", self.baseline.notes
            notes += [note] if note not in notes else []
        return found

    def _or_noise(
        self,
        check: Check,
        bench: EngineBaseline,
        expected: Sequence[Outputs],
        produced: list[Outputs],
    ) -> Check:
        again = partial(self.compare, check.kind, bench, expected, produced, Tolerance())
        return self.thresholds.or_noise(check, again)

    def end(
        self,
        bench: EngineBaseline,
        origin: list[Outputs] | None,
        produced: list[Outputs],
        model: ir.Model,
        *,
        vouched: bool = False,
    ) -> list[Check]:
        """Hold outputs against the original's.

        ``origin`` are outputs of the last model that a metric kept, from which drift is
        measured; None for the original's.
        """
        metrics = self.metrics(bench, produced, ())
        expected = bench.original if origin is None else origin
        if origin is None and self.truth.wanted and self.truth.usable:
            return [self._grown(bench, produced, vouched=vouched), *metrics]
        compare = partial(self.compare, "drift", bench, expected, produced)
        drift = self._above_noise(bench, self.thresholds.drift(), "drift", compare)
        if origin is None:
            drift = self.excused(bench, produced, drift, model, vouched=vouched)
        else:
            drift = self._or_noise(drift, bench, expected, produced)
        return [*self.truth.missing(bench), drift, *metrics]

    def drift(
        self, bench: EngineBaseline, origin: Sequence[Outputs], produced: Sequence[Outputs]
    ) -> Check:
        """Hold outputs against those of another engine, under limits that no noise raises."""
        limits = self._limits(self.thresholds.drift(), "drift")
        return self.compare("drift", bench, origin, produced, *limits)

    def metrics(
        self, bench: EngineBaseline, produced: list[Outputs], names: Sequence[str]
    ) -> list[Check]:
        """Measure the pipeline's metrics that have these names; all if there are no names."""
        ranges = self.settings.metrics
        wanted = {n: r for n, r in ranges.items() if not names or n in names}
        if not wanted:
            return []
        # Special values come last; neither labels nor ranges are for them.
        count = sum(name_of(feeds) is None for feeds in self.baseline.samples)
        original, produced = bench.original[:count], produced[:count]
        return [metrics_check(bench, wanted, original, produced, self.labels)]

    def compare(
        self,
        kind: str,
        bench: EngineBaseline,
        expected: Sequence[Outputs],
        produced: Sequence[Outputs],
        contract: Equality | Tolerance,
        overrides: dict[str, Tolerance] | None = None,
    ) -> Check:
        """Compare the outputs of all samples but those that do not count as evidence."""
        low = frozenset(self.low) - self.settings.tolerance.outputs.keys()
        promise = Promise(
            contract,
            overrides=overrides or {},
            low=low if contract == Tolerance() else frozenset(),
            negative_zero=self.settings.negative_zero,
            kind=kind,
        )
        samples, unstable = self.baseline.samples, self.baseline.unstable
        names = [name_of(feeds) for feeds in samples]
        if isinstance(contract, Tolerance) and len(expected) == len(samples):
            rows = zip(expected, produced, map(held_on, samples), strict=True)
            sides = [held_by_tolerance(*both) for both in rows]
            expected, produced = [old for old, _ in sides], [new for _, new in sides]
        check = judge(expected, produced, promise, ignored=unstable, names=names)
        return on_engine(check, bench.engine.name)

    def _above_noise(
        self,
        bench: EngineBaseline,
        limits: Limits,
        what: str,
        compare: Callable[[Tolerance, dict[str, Tolerance]], Check],
    ) -> Check:
        """Compare under limits; where a default fails, under one raised above the noise.

        Only then the noise is measured: that runs the original again. Raises
        SamplesLeftOutError if an engine does not run it on some.
        """
        known = self._limits(limits, what)
        found = compare(*known)
        if found.verdict is not Verdict.FAILED:
            return found
        samples, noise = self.baseline.samples, self.noise.of(bench)
        if self.baseline.samples is not samples:
            raise SamplesLeftOutError
        raised = self._limits(limits, what, noise)
        return found if raised == known else compare(*raised)

    def _limits(self, limits: Limits, what: str, noise: Sequence[OriginalRuns] = ()) -> Limits:
        return self.thresholds.above(limits, noise, self.baseline.unstable, what)

    def moved_to(
        self, baseline: Baseline, original: Snapshot, labels: Sequence[Outputs] | None
    ) -> OutputComparison:
        """Return the same for another interface; notes go to the same list."""
        moved = replace(self, baseline=baseline, original=original, labels=labels)
        moved.thresholds.lifted |= self.thresholds.lifted
        return moved


def metrics_check(
    bench: EngineBaseline,
    ranges: Mapping[str, tuple[float, float]],
    original: Sequence[Outputs],
    produced: Sequence[Outputs],
    labels: Sequence[Outputs] | None,
) -> Check:
    """Measure every metric over all samples given, and hold it to its range."""
    found: list[MetricCheck] = []
    for name, (low, high) in ranges.items():
        metric = metrics.lookup(name)
        expected = metric.choose_expected(_arrays(original), _arrays(labels or ()))
        try:
            value = metric.measure(_arrays(produced), expected)
        except OnnxPassesError as error:
            reason = f"{error.message}; {error.help}" if error.help else error.message
            verdict = Verdict.FAILED
            if metric.expects == "labels" and not labels:
                reason = f"metric {name} needs labels: give them under reference.outputs"
                verdict = Verdict.NOT_VERIFIED
            return Check("metric", verdict, bench.engine.name, reason=reason)
        samples = sum(map(_rows, expected))
        found.append(MetricCheck(name, value, low, high, samples))
    failed = [m for m in found if not m.passed]
    reason = "; ".join(
        f"{m.name} {m.value:.9g} not within [{m.low:.9g}, {m.high:.9g}]" for m in failed
    )
    return Check(
        "metric",
        Verdict.FAILED if failed else Verdict.PASSED,
        bench.engine.name,
        reason=reason or None,
        metrics=tuple(found),
    )


def _arrays(samples: Sequence[Outputs]) -> list[list[Array]]:
    return [[v for v in sample.values() if isinstance(v, np.ndarray)] for sample in samples]


def _rows(sample: Sequence[Array]) -> int:
    return sample[0].shape[0] if sample and sample[0].ndim else 1


_FEW = 16
"""Elements of an output that may be exact by chance."""
_KINDS = ("tolerance", "drift")
_TOLERANCE = "verify.tolerance"
_SPREADS = f"{number(HEADROOM)} times the spread"

Limits = tuple[Tolerance, dict[str, Tolerance]]


@dataclass
class Thresholds:
    """The limits of a pipeline.

    ``low`` returns the outputs computed by way of types below float32, each with its default.
    ``lifted`` replaces given tolerances that noise alone would break. ``beyond`` is the limit
    that noise would lead to, by output and the largest limit that still sees a fault. The
    latter holds; what breaks it alone is not judged.
    """

    settings: Verify
    notes: list[str] = field(default_factory=list)
    low: Callable[[], Mapping[str, Tolerance]] = dict
    lifted: dict[str, Tolerance] = field(default_factory=dict)
    beyond: dict[tuple[str, Tolerance], Tolerance] = field(default_factory=dict)

    def step(self, contract: Tolerance, override: OutputTolerance | None = None) -> Limits:
        """Resolve a tolerance: this use of the pass, then its class, then the pipeline."""
        levels = [override, contract, self.settings.tolerance]
        rtol = next((t.rtol for t in levels if t and t.rtol is not None), None)
        atol = next((t.atol for t in levels if t and t.atol is not None), None)
        outputs = self.settings.tolerance.outputs | (override.outputs if override else {})
        exact = {name: Tolerance(t.rtol, t.atol) for name, t in outputs.items()}
        return Tolerance(rtol, atol), exact | self.lifted

    def drift(self) -> Limits:
        """Return what the distance to the original is held to, noise left out."""
        given = self.settings.drift
        step, outputs = self.step(Tolerance())
        rtol = given.rtol if given.rtol is not None else step.rtol
        atol = given.atol if given.atol is not None else step.atol
        return Tolerance(rtol, atol), outputs

    def local(
        self, kind: str, contracts: Sequence[Contract], override: OutputTolerance | None
    ) -> tuple[Equality | Tolerance, dict[str, Tolerance]]:
        """Return what inner values are held to where a check of some kind failed."""
        if kind == "equality":
            return Equality(), {}
        if kind == "drift" or (kind == ENGINE and not contracts):
            return self.drift()
        if kind == ENGINE and any(isinstance(c, Equality) for c in contracts):
            return Equality(), {}
        declared = next((c for c in contracts if isinstance(c, Tolerance)), Tolerance())
        return self.step(declared, override)

    @property
    def given(self) -> bool:
        tolerance, drift = self.settings.tolerance, self.settings.drift
        return bool(tolerance.outputs) or _given(tolerance) or _given(drift)

    def holds(self, kind: str) -> bool:
        """Whether a limit that the user gave holds even where rounding alone breaks it.

        The tolerance of a file for the seed system is that of each pass, and not of the drift.
        """
        if kind == "drift" and self.settings.for_seed:
            return _given(self.settings.drift)
        return self.given

    def above(
        self, limits: Limits, noise: Sequence[OriginalRuns], ignored: frozenset[str], what: str
    ) -> Limits:
        """Raise a default to :data:`HEADROOM` times the noise, and note where that was done.

        The default of an output is that of the coarsest type that it is computed by way of. It
        is raised as far as a fault is still seen. Limits that the user gave stay. ``what`` is
        "tolerance" or "drift", for the note.
        """
        limit, overrides = limits
        if limit.rtol is not None or limit.atol is not None:
            return limits
        defaults, shares = {**self.low(), **overrides}, dict[str, float]()
        raised = dict(defaults)
        for runs in noise:
            for found in runs.against(limit, defaults, ignored, self.low().keys()):
                base = found.output.partition("[")[0]
                share, known = found.share or 0.0, shares.get(found.output, 1 / HEADROOM)
                if not known < share < float("inf") or {found.output, base} & overrides.keys():
                    continue
                shares[found.output], factor = share, HEADROOM * share
                wanted = Tolerance(found.rtol * factor, found.atol * factor)
                now, why = runs.limit_of(found, factor), f"{number(HEADROOM)} {NOISE}"
                if now != wanted:
                    self.beyond[found.output, now] = wanted
                    why = f"less than {why}, which would hide faults"
                raised[found.output] = now
                self._note_raised(
                    what,
                    found.output,
                    f"raised from {_text(found.rtol, found.atol)} to "
                    f"{_text(now.rtol, now.atol)}, {why}: {_spread(found, runs)}",
                )
        return limit, raised

    def or_noise(
        self, check: Check, compare_within: Callable[[dict[str, Tolerance]], Check]
    ) -> Check:
        """Return a failed check as not verified where noise may be all there is."""
        wrong = [o for o in check.outputs if not o.passed]
        known = {o.output: self.beyond.get((o.output, _limit(o))) for o in wrong}
        noise = {name: limit for name, limit in known.items() if limit}
        if check.verdict is not Verdict.FAILED or not noise or len(noise) < len(known):
            return check
        again = compare_within(noise).outputs
        if any(not found.passed for found in again if found.output in noise):
            return check
        reason = (
            f"{', '.join(sorted(noise)[:3])} not judged: what differs is within "
            f"{number(HEADROOM)} {NOISE}, and that noise would hide a fault"
        )
        return replace(check, verdict=Verdict.NOT_VERIFIED, reason=reason)

    def _note_raised(self, what: str, output: str, told: str) -> None:
        """Note that a limit was raised: once for tolerance and drift where they agree."""
        both = f"the default limits of {output}, tolerance and drift, are {told}"
        alone = {kind: f"the default {kind} limit of {output} is {told}" for kind in _KINDS}
        known = [n for n in self.notes if n in (both, *alone.values())]
        if not known:
            self.notes.append(alone[what])
        elif both not in known and alone[what] not in known:
            self.notes[self.notes.index(known[0])] = both

    def refuse(
        self,
        noise: Sequence[OriginalRuns],
        ignored: frozenset[str],
        steps: Sequence[tuple[str, str | None, OutputTolerance]] = (),
    ) -> None:
        """Raise ConfigError for limits that the user gave and that noise alone would break.

        The tolerance of a file for the seed system is raised instead, and that is noted.
        """
        for what, where, (limit, overrides), all_given in self._asked(steps):
            for runs in noise:
                for found in runs.against(limit, overrides, ignored):
                    base = found.output.partition("[")[0]
                    named = {found.output, base} & overrides.keys()
                    if found.passed or not (all_given or named):
                        continue
                    told = f"verify.tolerance.outputs.{base}" if named else what
                    if self._lift(what, found, runs):
                        continue
                    raise ConfigError(
                        f"{told} ({_text(found.rtol, found.atol)}) lies under the noise: "
                        f"{_spread(found, runs)}",
                        where=where,
                        help=_advice(found, told),
                    )

    def _lift(self, what: str, found: OutputCheck, runs: OriginalRuns) -> bool:
        """Raise a tolerance above the noise; False if it is refused."""
        now = _enough(found)
        if what != _TOLERANCE or not self.settings.for_seed or now is None:
            return False
        self.lifted[found.output] = now
        self.notes.append(
            f"{_TOLERANCE} ({_text(found.rtol, found.atol)}) lies under the noise, and is "
            f"raised to {_text(now.rtol, now.atol)} for {found.output}, {_SPREADS}: "
            f"{_spread(found, runs)}"
        )
        return True

    def _asked(
        self, steps: Sequence[tuple[str, str | None, OutputTolerance]]
    ) -> Iterator[tuple[str, str | None, Limits, bool]]:
        settings = self.settings
        step = self.step(Tolerance())
        yield _TOLERANCE, None, step, _given(settings.tolerance)
        if _given(settings.drift):
            yield "verify.drift", None, self.drift(), True
        for name, where, override in steps:
            limits = self.step(Tolerance(), override)
            yield f"the tolerance of {name}", where, limits, _given(override)


def _given(tolerance: Tolerance | OutputTolerance | object) -> bool:
    return any(getattr(tolerance, key) is not None for key in ("rtol", "atol"))


def _text(rtol: float | None, atol: float | None) -> str:
    return f"rtol {number(rtol or 0.0)}, atol {number(atol or 0.0)}"


def _spread(found: OutputCheck, runs: OriginalRuns) -> str:
    error = "" if found.max_abs is None else f" by up to {number(found.max_abs)}"
    return (
        f"the original differs from itself in output {found.output}{error} between "
        f"{runs.between}"
    )


def _limit(found: OutputCheck) -> Tolerance:
    return Tolerance(found.rtol, found.atol)


def _enough(found: OutputCheck) -> Tolerance | None:
    """Return limits that a difference is well under, None where it is not finite."""
    share, error = found.share or 0.0, found.max_abs or 0.0
    if 0 < share < float("inf"):
        factor = HEADROOM * share
        return Tolerance(found.rtol * factor, found.atol * factor)
    return Tolerance(atol=HEADROOM * error) if 0 < error < float("inf") else None


def _advice(found: OutputCheck, what: str) -> str:
    enough = _enough(found)
    if enough is None:
        return f"leave {what} out, or compare on another engine: values are not finite"
    limits = "" if enough.rtol is None else f"rtol {number(enough.rtol)} and "
    limits += f"atol {number(enough.atol or 0.0)}"
    return f"set {what} to {limits} or more ({_SPREADS}), or leave it out"


KIND = "error-growth"


@dataclass
class Float64Reference:
    """What the original gives in double precision.

    ``reason`` says why there is no such result; None if there is, or nobody asked yet.
    """

    settings: Verify
    baseline: Baseline
    original: Snapshot
    reason: str | None = None
    _outputs: list[Outputs] = field(default_factory=list)
    _samples: Sequence[Feeds] | None = None

    @property
    def wanted(self) -> bool:
        return self.settings.reference == "float64"

    @property
    def usable(self) -> bool:
        """Whether there is something to hold results against; it is computed once."""
        if not self.baseline.samples:
            return False
        if self._samples is not self.baseline.samples:
            self._samples, self.reason = self.baseline.samples, None
            try:
                found = evaluate(self.original.model, self.baseline.samples)
            except OnnxPassesError as error:
                self._outputs, self.reason = [], error.message
            else:
                self._outputs = found.outputs
                self.baseline.notes += found.notes()
        return self.reason is None

    @property
    def outputs(self) -> Sequence[Outputs]:
        """The result in double precision, by sample; only where it is usable."""
        return self._outputs

    def missing(self, bench: EngineBaseline) -> list[Check]:
        """Say that error growth was asked for and not measured, where that is so."""
        if not self.wanted or self.reason is None:
            return []
        reason = f"there is no float64 reference, so tolerances decide: {self.reason}"
        return [Check(KIND, Verdict.NOT_VERIFIED, bench.engine.name, reason=reason)]

    def judge(self, bench: EngineBaseline, produced: Sequence[Outputs]) -> Check:
        """Compare the errors of a model with those of the original on the same engine."""
        start = time.perf_counter()
        worst = Worst()
        rows = zip(bench.original, produced, self._outputs, strict=True)
        for sample, outputs in enumerate(rows):
            old, new, truth = (self._stable(found) for found in outputs)
            which = held_on(self.baseline.samples[sample])
            _, truth = held_by_tolerance(old, truth, which)
            old, new = held_by_tolerance(old, new, which)
            worst.add(sample, error_growth(old, new, truth, self.settings.growth))
        check = worst.check(KIND, [name_of(feeds) for feeds in self.baseline.samples])
        seconds = time.perf_counter() - start
        return replace(check, engine=bench.engine.name, seconds=seconds)

    def _stable(self, outputs: Outputs) -> Outputs:
        return {k: v for k, v in outputs.items() if k not in self.baseline.unstable}
