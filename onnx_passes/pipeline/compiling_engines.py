"""Check a pass on engines that compile: levels reached, builds of parts, numbers.

A level says how far a model gets on a compiler. Parts of a change are built in batches within
a budget of builds, so that each application has evidence.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import onnx_ir as ir

from onnx_passes.configs.engine_configs import EngineStep
from onnx_passes.errors import ConfigError, EngineError, EngineUnavailableError
from onnx_passes.model.digest import Key
from onnx_passes.passes.context import Application
from onnx_passes.pipeline.baseline import EngineBaseline
from onnx_passes.pipeline.change_parts import (
    Batch,
    Part,
    RegionPair,
    describe_finding,
    names_part,
    side_by_side,
    with_prefix,
)
from onnx_passes.pipeline.noise import OriginalRuns
from onnx_passes.pipeline.output_checks import OutputComparison
from onnx_passes.pipeline.region_values import RegionValues, all_passed, any_failed
from onnx_passes.pipeline.rounding import Cause
from onnx_passes.report.run_report import EngineReport
from onnx_passes.report.text import plural
from onnx_passes.runtime.engine_base import (
    Data,
    Engine,
    Feeds,
    Finding,
    Level,
    Outputs,
    examine,
    only_compiles,
)
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.runtime.tensorrt.cuda import device
from onnx_passes.runtime.tensorrt.engine import (
    TensorRtEngine,
    with_profiles_of,
    without_cache,
    without_profiles,
)
from onnx_passes.verify.evidence import (
    EXECUTED,
    LEVEL,
    Check,
    Evidence,
    Kind,
    OutputCheck,
    Verdict,
    weakest,
)
from onnx_passes.verify.judge import Promise, describe_mismatch
from onnx_passes.verify.obligations import Obligation
from onnx_passes.verify.recording import Recorded, Recording, is_informative
from onnx_passes.verify.region import Region
from onnx_passes.verify.snapshot import Interface, exact_key, interface_of

_SHOWN = 3
"""Reasons that a check gives at most."""

_BATCH_BYTES = 256 << 20
"""Recorded values that the parts of one build are fed with at most, and results kept."""


@dataclass
class RegionBuilds:
    """Builds both sides of what passes change, and runs them.

    ``most`` limits the builds of a run, and ``share`` their time as a share of that of whole
    models; None for any. Parts only have to reach a ``level``. Without ``alike``, one that is
    refused says nothing of others with the same operators.
    """

    engine: Engine
    most: int
    share: float | None = None
    level: Level = Level.EXECUTED
    alike: bool = True
    whole_seconds: float = 0.0
    seconds: float = 0.0
    builds: int = 0
    _known: dict[bytes, PartRun] = field(default_factory=dict)
    _refused: dict[Hashable, str] = field(default_factory=dict)
    _judged: list[Batch] = field(default_factory=list)

    def open(self, batches: Sequence[Batch]) -> Iterator[Batch]:
        """Yield those that were not judged before, and count them as judged."""
        for batch in batches:
            if not any(batch is other for other in self._judged):
                self._judged.append(batch)
                yield batch

    def judge(self, batch: Batch) -> tuple[list[Check], list[Evidence]]:
        """Run what a pass changed, and hold each part to the promise of the pass."""
        start, first = time.perf_counter(), self.builds
        found = self.verdicts(batch)
        evidence = [one.evidence for one in found]
        if batch.bodies:
            rules = ", ".join(dict.fromkeys(batch.bodies.values()))
            kind = weakest(one.kind for one in evidence)
            reason = "compared at the node that holds it"
            evidence.append(Evidence(rules, kind, tuple(batch.bodies), reason=reason))
        if all(one.kind is Kind.PROVED for one in evidence):
            return [], evidence
        check = self._check(batch.name, evidence, found, self.builds - first)
        return [replace(check, seconds=time.perf_counter() - start)], evidence

    def verdicts(self, batch: Batch) -> list[PartVerdict]:
        """Run both sides of each part, in one build for each side, and judge it."""
        asked = [pair for pair in batch.pairs if pair.known is None]
        new_sides = any(pair.new is not None for pair in asked)
        olds = self._run([pair.old for pair in asked if pair.old], reserve=new_sides)
        ran = {key for key, one in olds.items() if one.outputs is not None}
        news = self._run([p.new for p in asked if p.new and p.old and p.old.key in ran])
        found: list[PartVerdict] = []
        for pair in batch.pairs:
            if pair.known is not None:
                found.append(PartVerdict(pair.known))
                continue
            assert pair.old is not None
            fresh = None if pair.new is None else news.get(pair.new.key)
            found.append(judge_pair(pair, batch, self.engine, olds[pair.old.key], fresh))
        return found

    def lost(self, pairs: Sequence[RegionPair]) -> list[tuple[RegionPair, str]]:
        """Return the parts that are refused though what they replaced is not, and why."""
        news = self._run([pair.new for pair in pairs if pair.new])
        failing = [p for p in pairs if p.new and news[p.new.key].outputs is None]
        olds = self._run([pair.old for pair in failing if pair.old])
        return [
            (pair, news[pair.new.key].reason)
            for pair in failing
            if pair.new and pair.old and olds[pair.old.key].outputs is not None
        ]

    def _check(
        self, name: str, evidence: Sequence[Evidence], found: Sequence[PartVerdict], made: int
    ) -> Check:
        engine = self.engine.name
        outputs = tuple(output for one in found for output in one.checks)
        wrong = next((one for one in found if one.fault), None)
        if wrong is not None:
            reason = f"{name}: {wrong.fault}"
            failed, sample = Verdict.FAILED, wrong.sample
            return Check(
                LEVEL, failed, engine, "region", reason, sample, outputs, level=EXECUTED
            )
        asked = [one for one in evidence if one.kind is not Kind.PROVED]
        ran = sum(one.count for one in asked if one.kind is Kind.EXECUTED)
        total = sum(one.count for one in asked)
        told = f"{ran} of {plural(total, 'rewrite')} executed by region"
        reason = f"{name}: {told}, in {plural(made, 'build')}"
        reasons = list(
            dict.fromkeys(
                f"{one.what}: {one.reason}" for one in asked if one.kind is not Kind.EXECUTED
            )
        )
        if reasons:
            more = f"; and {len(reasons) - _SHOWN} more" if len(reasons) > _SHOWN else ""
            reason += f"; not run: {'; '.join(reasons[:_SHOWN])}{more}"
        verdict = Verdict.PASSED if ran else Verdict.NOT_VERIFIED
        level = EXECUTED if ran else str(Level.BUILT)
        return Check(LEVEL, verdict, engine, "region", reason, None, outputs, level=level)

    def _run(self, parts: Sequence[Part], *, reserve: bool = False) -> dict[bytes, PartRun]:
        """Return what each part gave; those that are not known are built side by side.

        ``reserve`` keeps one build for the other sides, without which these show nothing.
        """
        missing: dict[bytes, Part] = {}
        keys = [part.key for part in parts]
        for key, part in zip(keys, parts, strict=True):
            if key not in self._known:
                missing.setdefault(key, with_prefix(part, f"r{key.hex()[:12]}"))
        found: dict[bytes, PartRun] = {}
        for some in _batches(missing):
            found |= self._build(some, reserve)
        known = {key: self._known[key] for key in keys if key in self._known}
        self._remember({key: ran for key, ran in found.items() if not ran.refused})
        return known | found

    def _remember(self, found: dict[bytes, PartRun]) -> None:
        """Keep what parts gave, the newest ones: searches ask for the same parts again."""
        kept, size = dict[bytes, PartRun](), 0
        for key, ran in reversed([*self._known.items(), *found.items()]):
            size += ran.nbytes
            if size <= _BATCH_BYTES:
                kept[key] = ran
        self._known = dict(reversed(kept.items()))

    def _build(self, parts: dict[bytes, Part], reserve: bool) -> dict[bytes, PartRun]:
        """Build parts as one model; those that are not built, alone or by halves."""
        if not parts:
            return {}
        if why := self._spent(reserve):
            return dict.fromkeys(parts, PartRun(None, why, refused=True))
        finding = self._examine([*parts.values()])
        if finding.level.rank >= self.level.rank:
            return {key: PartRun(_outputs(finding, part)) for key, part in parts.items()}
        if len(parts) == 1:
            ((key, part),) = parts.items()
            ran = PartRun(None, describe_finding(finding, part))
            self._refused[part.kind] = (
                f"not built: a part of the same operators is {ran.reason}"
            )
            return {key: ran}
        named = [k for k, part in parts.items() if names_part(finding.reason, part)]
        if named and len(named) < len(parts):
            groups = [[key] for key in named] + [[k for k in parts if k not in named]]
        else:
            keys = list(parts)
            groups = [keys[: len(keys) // 2], keys[len(keys) // 2 :]]
        found: dict[bytes, PartRun] = {}
        for group in groups:
            # One that is refused represents all like it, which would cost a build each.
            like = {
                k: self._refused[parts[k].kind]
                for k in group
                if self.alike and parts[k].kind in self._refused
            }
            found |= {key: PartRun(None, why, refused=True) for key, why in like.items()}
            left = {key: parts[key] for key in group if key not in like}
            found |= self._build(left, reserve)
        return found

    def _spent(self, reserve: bool) -> str:
        """Say that the budget is used up; nothing while it is not."""
        if self.builds + reserve >= self.most:
            return f"the budget of {plural(self.most, 'build')} of regions is used up"
        if self.share is not None and self.seconds >= self.share * self.whole_seconds:
            return (
                f"the budget of {self.share:g} times the time of whole models is used up "
                "by builds of regions"
            )
        return ""

    def _examine(self, parts: Sequence[Part]) -> Finding:
        model = side_by_side(parts)
        # Bodies are entered more often than the model is run.
        most = max(len(part.rows) for part in parts)
        turns = [
            [part.rows[min(i, len(part.rows) - 1)] for part in parts] for i in range(most)
        ]
        rows = [{n: array for row in turn for n, array in row.items()} for turn in turns]
        engine = with_profiles_of(without_profiles(self.engine), model, rows)
        start = time.perf_counter()
        self.builds += 1
        try:
            return examine(engine, model, rows if self.level is Level.EXECUTED else ())
        except ConfigError as error:
            return Finding(Level.PARSED, error.message, error.help)
        finally:
            self.seconds += time.perf_counter() - start


def _batches(parts: dict[bytes, Part]) -> Iterator[dict[bytes, Part]]:
    batch: dict[bytes, Part] = {}
    size = 0
    for key, part in parts.items():
        nbytes = sum(a.nbytes for row in part.rows for a in row.values())
        if batch and size + nbytes > _BATCH_BYTES:
            yield batch
            batch, size = {}, 0
        batch[key] = part
        size += nbytes
    yield batch


def _outputs(finding: Finding, part: Part) -> tuple[Outputs, ...]:
    """Return what one of the parts of a model gave, by its own names, by sample."""
    skip = len(part.prefix) + 1
    names = [str(value.name) for value in part.model.graph.outputs]
    found = finding.outputs[: len(part.rows)]
    return tuple({n[skip:]: row[n] for n in names} for row in found)


_NAMED = 4
"""Names of values that evidence lists at most."""


@dataclass(frozen=True)
class PartRun:
    """The run of one side of a part: outputs by sample, or why there are none.

    ``refused`` says that it was not tried: the budget is used up, or one like it was refused.
    """

    outputs: tuple[Outputs, ...] | None
    reason: str = ""
    refused: bool = False

    @property
    def nbytes(self) -> int:
        rows = self.outputs or ()
        return sum(a.nbytes for row in rows for a in row.values() if isinstance(a, np.ndarray))


@dataclass(frozen=True)
class PartVerdict:
    """The verdict on a part.

    ``fault`` is empty if the part is right; else ``sample`` is the first that shows it.
    """

    evidence: Evidence
    checks: tuple[OutputCheck, ...] = ()
    fault: str = ""
    sample: int = 0


def judge_pair(
    pair: RegionPair, batch: Batch, engine: Engine, old: PartRun, new: PartRun | None
) -> PartVerdict:
    """Hold the sides of a part against each other, as those of a region are held.

    A value that differs is held against the running error of its operators. Where they have
    no bound, ONNX Runtime runs both sides, and decides: a fault of the part shows there, too.
    """
    for side, ran in (("what was replaced", old), ("what is in its place", new)):
        if ran is not None and ran.outputs is None:
            why = ran.reason if ran.refused else f"{side} is {ran.reason}"
            return PartVerdict(_weak(pair, why))
    assert old.outputs is not None
    fresh = (new.outputs if new is not None else None) or ({},) * len(old.outputs)
    values, expected = _values_of(pair, batch, engine), _recorded(old.outputs)
    results = values.explain(fresh, values.compare(fresh, pair.ends, expected), expected)
    doubtful: list[str] = []
    for one, checks in results.items():
        if all_passed(checks):
            continue
        if values.causes[one].cause is not Cause.UNKNOWN or _confirmed(pair, values, one):
            place = next(k for k, check in enumerate(checks) if not check.passed)
            promise = batch.promises[place]
            sample, wrong = values.worst_sample(one, fresh, promise, expected)
            others = [found[place] for o, found in results.items() if o is not one]
            return _wrong(pair, promise.kind, sample, (*(wrong or [checks[place]]), *others))
        doubtful.append(one.old)
    found = tuple(replace(c, passed=True) for checks in results.values() for c in checks)
    if doubtful:
        told = f"{', '.join(doubtful)} differs there, where rounding has no bound"
        return PartVerdict(_weak(pair, told), found)
    return PartVerdict(_evidence(pair, batch, old.outputs), found)


def _values_of(pair: RegionPair, batch: Batch, engine: Engine) -> RegionValues:
    """Return both sides of a part as a region that changed, on what was recorded."""
    assert pair.old is not None
    new = pair.new or pair.old
    region = Region(tuple(new.model.graph), (), (), removed=tuple(pair.old.model.graph))
    rows = zip(pair.old.rows, new.rows, strict=True)
    recorded = _recorded([{**row, **more} for row, more in rows])
    bench = EngineBaseline(engine, "each")
    models = pair.old.model, new.model
    return RegionValues(*models, region, recorded, bench, batch.promises, fuses=True)


def _recorded(rows: Sequence[Mapping[str, Data]]) -> Recorded:
    recordings = [Recording(sys.maxsize) for _ in rows]
    for recording, row in zip(recordings, rows, strict=True):
        recording.update(row)
    return Recorded(recordings)


def _weak(pair: RegionPair, why: str) -> Evidence:
    return Evidence(pair.what, Kind.OUTPUTS_ONLY, pair.numbers, reason=why)


def _evidence(pair: RegionPair, batch: Batch, expected: Sequence[Outputs]) -> Evidence:
    names = tuple(one.old for one in pair.ends)
    arrays = {n: [a for row in expected if isinstance(a := row[n], np.ndarray)] for n in names}
    size = sum(array.size for found in arrays.values() for array in found)
    shown = names[:_NAMED]
    for name in names:
        if is_informative(arrays[name], lambda name=name: name in batch.varying):  # type: ignore[misc]
            return Evidence(pair.what, Kind.EXECUTED, pair.numbers, size, shown)
    reason = f"{', '.join(names[:3])} is empty, constant or not finite on each sample"
    return Evidence(pair.what, Kind.NOTHING, pair.numbers, size, shown, reason)


def _wrong(
    pair: RegionPair, kind: str, sample: int, checks: tuple[OutputCheck, ...]
) -> PartVerdict:
    """Return the verdict on a part, where the first check is of a wrong value."""
    numbers = ", ".join(map(str, pair.numbers))
    whose = f"rewrite {numbers} ({pair.what})" if numbers else pair.what
    fault = f"{whose}: {describe_mismatch(kind, checks[:1], sample)}"
    reason = f"{checks[0].output} differs"
    evidence = Evidence(pair.what, Kind.NOTHING, pair.numbers, reason=reason)
    return PartVerdict(evidence, checks, fault, sample)


def _confirmed(pair: RegionPair, values: RegionValues, one: Obligation) -> bool:
    """Whether ONNX Runtime, node by node, finds the value to break a promise as well."""
    engine = OnnxRuntimeEngine()
    sides: list[list[Outputs]] = []
    for part in (pair.old, pair.new):
        if part is None:
            sides.append([{} for _ in sides[0]])
            continue
        try:
            with engine.prepare(part.model) as session:
                sides.append([session.run(dict(row)) for row in part.rows])
        except EngineError:
            return False
    return any_failed(values.compare(sides[1], [one], _recorded(sides[0])))


KEPT = 4
"""Models whose progress is remembered."""


@dataclass
class Compiler:
    """One engine that compiles.

    ``engine`` has profiles for the samples; ``inner`` is the same in its child process.
    Without a GPU ``samples`` is empty. A model that is called otherwise than ``called`` is not
    executed. Without execution or a budget there is no ``regions``.
    """

    engine: Engine
    inner: TensorRtEngine
    when: str
    where: str | None
    samples: Sequence[Feeds] = ()
    called: Interface | None = None
    original: Finding = field(default_factory=lambda: Finding(Level.ABSENT))
    regions: RegionBuilds | None = None
    _known: list[tuple[Key, Finding]] = field(default_factory=list)
    _again: Finding | None = None

    def finding(self, model: ir.Model) -> Finding:
        """Return how far a model gets; one asked for just before is not built again."""
        key = exact_key(model)
        known = self.known(key)
        if known is None:
            samples = self.samples if interface_of(model) == self.called else ()
            start = time.perf_counter()
            known = examine(self.engine, model, samples)
            if self.regions is not None:
                self.regions.whole_seconds += time.perf_counter() - start
            self._known = [*self._known[1 - KEPT :], (key, known)]
        return known

    def reach(self, model: ir.Model) -> Finding:
        """Return how far a model gets, or the original if that decides it."""
        if self.original.level is Level.ABSENT:
            return self.original  # nothing will appear in the course of a run
        try:
            return self.finding(model)
        except ConfigError as error:
            # The options fitted the original: what a pass made of its interface does not.
            return Finding(Level.PARSED, error.message, error.help)

    def noise(self, model: ir.Model) -> list[OriginalRuns]:
        """Return how far two builds of the original are apart: each chooses its kernels."""
        if self._again is None:
            self._again = examine(without_cache(self.engine), model, self.samples)
        if self._again.level is not Level.EXECUTED:
            return []
        first, second = list(self.original.outputs), list(self._again.outputs)
        return [OriginalRuns(self.engine.name, "two builds of it", first, second)]

    def known(self, key: Key) -> Finding | None:
        return next((finding for other, finding in self._known if other == key), None)

    def told(self, found: Finding) -> str:
        match found.level:
            case Level.EXECUTED:
                here = device()
                return f"executed on {'a GPU' if here is None else here.name}"
            case Level.BUILT:
                why = found.reason or self.inner.not_executed or "it was called otherwise"
                return f"built for {self.inner.target}, not executed: {why}"
            case Level.PARSED:
                return f"parsed, not built for {self.inner.target}: {found.reason}"
            case _:
                aside = f" ({found.help})" if found.help else ""
                return f"{found.level}: {found.reason}{aside}"


@dataclass
class CompiledLevels:
    """The engines of a pipeline that compile.

    Without such engines there is no ``original``; without execution, no ``comparing``.
    """

    compilers: list[Compiler] = field(default_factory=list)
    original: ir.Model | None = None
    comparing: OutputComparison | None = None

    def check(self, before: ir.Model, model: ir.Model, *moments: str) -> list[Check]:
        """Ask whether a model gets as far as the one before it, on the engines of moments.

        Numbers are held against those of the original.
        """
        return [
            self._compared(compiler, before, model, "the model before")
            for compiler in self.compilers
            if compiler.when in moments
        ]

    def change(
        self,
        name: str,
        models: tuple[ir.Model, ir.Model],
        applied: Sequence[Application],
        promises: Sequence[Promise],
        engine: Engine,
    ) -> Batch | None:
        """Cut what a pass changed into parts that compilers run; None if none executes."""
        samples = next((c.samples for c in self.compilers if c.regions is not None), ())
        if not samples or not promises:
            return None
        from onnx_passes.pipeline.change_parts import pair_up  # slow to import

        return pair_up(name, models, applied, promises, samples, engine)

    def later(self, known: tuple[Batch, ...], batch: Batch, limit: int) -> tuple[Batch, ...]:
        """Add a change for compilers that are asked later, up to ``limit`` bytes of values."""
        if all(c.regions is None or c.when == "each" for c in self.compilers):
            return known
        if batch.nbytes + sum(one.nbytes for one in known) > limit:
            batch = batch.not_kept()
        return (*known, batch)

    def by_region(
        self, batches: Sequence[Batch], *moments: str
    ) -> tuple[list[Check], list[Evidence]]:
        """Run what passes changed on the compilers of moments, as far as it was not run yet.

        Returns a check for each pass and compiler, and evidence of each part on the first
        compiler.
        """
        checks: list[Check] = []
        evidence: list[Evidence] = []
        for compiler in self.compilers:
            if compiler.regions is None or compiler.when not in moments:
                continue
            found = batches if "each" in moments else compiler.regions.open(batches)
            judged = [compiler.regions.judge(batch) for batch in found]
            checks += [check for made, _ in judged for check in made]
            evidence = evidence or [one for _, found in judged for one in found]
        return checks, evidence

    def at_end(self, model: ir.Model, *, changed: bool) -> list[Check]:
        """Ask whether the result gets as far as the original, and as the pipeline demands."""
        checks: list[Check] = []
        for compiler in self.compilers:
            assert self.original is not None
            check = self._compared(compiler, self.original, model, "the original")
            wanted = compiler.inner.require
            found = compiler.reach(model)
            if wanted is not None and found.level.rank < Level(wanted).rank:
                reason = f"the pipeline requires {wanted}: {compiler.told(found)}"
                check = Check(
                    LEVEL,
                    Verdict.FAILED,
                    check.engine,
                    reason=reason,
                    seconds=check.seconds,
                    level=check.level,
                )
            if changed or check.verdict is Verdict.FAILED:
                checks.append(check)
        return checks

    def _compared(
        self, compiler: Compiler, before: ir.Model, model: ir.Model, what: str
    ) -> Check:
        start = time.perf_counter()
        old, new = compiler.reach(before), compiler.reach(model)
        # A pass that may change how a model is called cannot be blamed for its numbers.
        called = interface_of(model) == compiler.called
        reached = old.level if called else min(old.level, Level.BUILT, key=lambda x: x.rank)
        worse = new.level.rank < reached.rank
        reason = compiler.told(new)
        if worse:
            reason = f"{old.level} {what}, and the result is {reason}"
        name = compiler.engine.name
        verdict = Verdict.FAILED if worse else Verdict.NOT_VERIFIED
        check = Check(LEVEL, verdict, name, reason=reason)
        if new.level is Level.EXECUTED and not worse:
            check = self._numbers(compiler, new)
        return replace(check, seconds=time.perf_counter() - start, level=str(new.level))

    def _numbers(self, compiler: Compiler, found: Finding) -> Check:
        """Hold numbers against those of the original, within the limits of drift."""
        name = compiler.engine.name
        if compiler.original.level is not Level.EXECUTED:
            reason = f"executed, and the original is not: {compiler.told(compiler.original)}"
            return Check(LEVEL, Verdict.NOT_VERIFIED, name, reason=reason)
        assert self.comparing is not None
        assert self.original is not None
        thresholds, ignored = self.comparing.thresholds, self.comparing.baseline.unstable
        noise = compiler.noise(self.original)
        limits = thresholds.above(thresholds.drift(), noise, ignored, "drift")
        bench = EngineBaseline(compiler.engine, compiler.when)
        expected, produced = compiler.original.outputs, found.outputs
        check = self.comparing.compare(LEVEL, bench, expected, produced, *limits)
        again = partial(self.comparing.compare, LEVEL, bench, expected, produced, limits[0])
        check = thresholds.or_noise(check, again)
        return check if check.reason else replace(check, reason=compiler.told(found))

    def reports(self, model: ir.Model | None = None) -> list[EngineReport]:
        """Report each engine, and how far a model got on it, or the original before that."""
        key = None if model is None else exact_key(model)
        found: list[EngineReport] = []
        for compiler in self.compilers:
            known = None if key is None else compiler.known(key)
            reached = known or compiler.original
            details = compiler.engine.describe()
            found.append(
                EngineReport(
                    compiler.engine.name,
                    compiler.when,
                    details,
                    level=str(reached.level),
                    level_reason=compiler.told(reached),
                )
            )
        return found


def begin(
    model: ir.Model, samples: Sequence[Feeds], engines: Sequence[EngineStep]
) -> CompiledLevels:
    """Find out how far the original gets on the engines that compile.

    Numbers are compared once ``comparing`` of what is returned is set. Raises
    EngineUnavailableError if the pipeline demands a level that this machine cannot give, and
    ConfigError if an option does not fit the engine or the model.
    """
    engines = [step for step in engines if only_compiles(step.engine)]
    if not engines:
        return CompiledLevels()
    # Few pipelines have such engines: the others do not wait until these are imported.
    from onnx_passes.runtime.tensorrt.engine import compiler_of, with_profiles_of

    found: list[Compiler] = []
    # Such engines take nothing of size 0, which one generated sample has.
    samples = [feeds for feeds in samples if _has_elements(feeds)] or samples
    for step in engines:
        inner = compiler_of(step.engine)
        assert inner is not None, "it only compiles"
        if inner.options.save:
            raise ConfigError(
                f"{inner.package}.save is not for pipelines, which build many models",
                where=step.where,
                help="onnx-passes build out.onnx -o out.engine",
            )
        if inner.options.load:
            raise ConfigError(
                f"{inner.package}.load is not for pipelines, whose models change",
                where=step.where,
                help="onnx-passes compare model.onnx --engine 'tensorrt-rtx{load=E.engine}'",
            )
        engine = with_profiles_of(step.engine, model, samples)
        compiler = Compiler(
            engine,
            compiler_of(engine) or inner,
            step.when,
            step.where,
            list(samples) if inner.executes else (),
            interface_of(model),
        )
        start = time.perf_counter()
        try:
            compiler.original = _first(compiler, model)
        except (ConfigError, EngineUnavailableError) as error:
            error.where = error.where or step.where
            raise
        if compiler.original.level is Level.EXECUTED and inner.options.region_builds:
            most, share = inner.options.region_builds, inner.options.region_share
            seconds = time.perf_counter() - start
            compiler.regions = RegionBuilds(engine, most, share, whole_seconds=seconds)
        found.append(compiler)
    return CompiledLevels(found, model)


def _has_elements(feeds: Feeds) -> bool:
    return all(not isinstance(data, np.ndarray) or data.size for data in feeds.values())


def _first(compiler: Compiler, model: ir.Model) -> Finding:
    inner, wanted = compiler.inner, compiler.inner.require
    if wanted == Level.EXECUTED and inner.missing is None and not inner.executes:
        raise EngineUnavailableError(
            f"the pipeline requires {wanted} on {inner.name}: {inner.not_executed}",
            help="lower 'require' to built, which is no verification",
        )
    missing = inner.missing
    found = (
        compiler.finding(model)
        if missing is None
        else Finding(Level.ABSENT, missing.message, missing.help)
    )
    if wanted != Level.ABSENT and found.level is Level.ABSENT:
        asked = "" if wanted is None else f"the pipeline requires {wanted} on {inner.name}: "
        raise EngineUnavailableError(f"{asked}{found.reason}", help=found.help)
    return found
