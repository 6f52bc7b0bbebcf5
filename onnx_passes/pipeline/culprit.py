"""Find the rewrites that make a check fail.

A judgement asks the failed check again for a run with fewer rewrites. The search halves the
rewrites. On compilers the region of each rewrite is built without the others.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

import onnx_ir as ir

from onnx_passes.configs.sections import OutputTolerance
from onnx_passes.contracts import Contract, Equality, Tolerance
from onnx_passes.errors import EngineError, OnnxPassesError
from onnx_passes.passes.context import Application
from onnx_passes.passes.patterns import describe
from onnx_passes.pipeline.baseline import Baseline, EngineBaseline
from onnx_passes.pipeline.change_parts import (
    Batch,
    Part,
    RegionPair,
    is_named,
    own_name,
    pair_up,
)
from onnx_passes.pipeline.compiling_engines import Compiler, RegionBuilds
from onnx_passes.pipeline.pass_execution import Attempt, Attempts, SearchEnded
from onnx_passes.pipeline.state import State
from onnx_passes.report.run_report import LOSES, Blame
from onnx_passes.report.summary import margin
from onnx_passes.report.text import percent
from onnx_passes.runtime.engine_base import Engine, Feeds, Level
from onnx_passes.runtime.engine_models import assign_seeds, insert_barriers
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.runtime.tensorrt.engine import (
    built_layers,
    compiler_of,
    with_profiles_of,
    without_profiles,
)
from onnx_passes.verify.evidence import ENGINE, LEVEL, Check, OutputCheck, Verdict
from onnx_passes.verify.judge import NOISE_FACTOR, Promise, score
from onnx_passes.verify.shrink import (
    Case,
    Divergence,
    Loss,
    first_divergence,
    first_true,
    largest_loss,
)
from onnx_passes.verify.snapshot import Change

MOST_CULPRITS = 32
"""Number of wrong rewrites beyond which the pass is wrong, and not some of them."""
MOST_HUNTED = 5
"""Number of searches for a rewrite that is not wrong by itself."""


@dataclass(frozen=True)
class Culprit:
    """A rewrite found wrong; its number is that of the run that failed.

    ``how`` is "by its own error", "by bisection", "the only rewrite", or "by its region alone"
    with what a compiler says of that. ``value`` is what differs, where it was measured.
    """

    application: Application
    how: str
    value: OutputCheck | None = None


@dataclass(frozen=True)
class WrongPart:
    """A part of a change that is wrong by itself, with its rewrites.

    ``how`` and ``value`` are those of :class:`Culprit`.
    """

    rewrites: Sequence[Application]
    how: str
    value: OutputCheck | None = None

    @property
    def error(self) -> float:
        """How far off the value is, for the worst to be named first."""
        value = self.value
        sizes = (None, None) if value is None else (value.share, value.max_abs)
        return next((size for size in sizes if size is not None), math.inf)

    @property
    def differs(self) -> str:
        """The name of the value that differs."""
        return "" if self.value is None else self.value.output


WrongParts = Callable[[Attempt], Sequence[WrongPart]]


@dataclass
class CulpritSearch:
    """Rewrites found wrong, in order; ``rest`` is the pass without them if that holds."""

    culprits: list[Culprit] = field(default_factory=list)
    rest: Attempt | None = None
    notes: list[str] = field(default_factory=list)


def find_culprits(
    attempts: Attempts,
    failed: Attempt,
    wrong_parts: WrongParts,
    *,
    bisect: bool = True,
) -> CulpritSearch:
    """Find the rewrites without which a pass keeps its contract.

    Those of ``wrong_parts`` are accused. With ``bisect`` the search continues where a part has
    several, or none is wrong. Without a single
    culprit the result is empty, and a note says why.
    """
    search = CulpritSearch()
    if failed.applied:
        try:
            _Hunt(attempts, wrong_parts, search, bisect).run(failed)
        except SearchEnded as ended:
            search.notes.append(f"{ended}: more may be wrong")
        except OnnxPassesError as error:
            # Localising explains a failure that is already certain: it must not replace it.
            search.notes.append(f"localising ended early: {error.message}")
    # Each run numbers anew; the numbers reported are those of the failure.
    numbers = {a.key: a.number for a in failed.applied}
    search.culprits = [
        replace(c, application=replace(c.application, number=numbers[c.application.key]))
        for c in search.culprits
        if c.application.key in numbers
    ]
    return search


def pairs_around(
    attempts: Attempts,
    failed: Attempt,
    search: CulpritSearch,
    name: str,
    steps: tuple[str, ...] = (),
) -> list[Case]:
    """Return pairs of models around what is wrong in a pass, those that differ least first."""
    before, found = attempts.before.model, [c.application for c in search.culprits]
    pairs: list[tuple[ir.Model, ir.Model, str]] = []
    if found and found[0].key in failed.keys:  # else it only applies once others are left out
        number, count = found[0].number, failed.keys.index(found[0].key) + 1
        # A pass that does not repeat what it did is shown as a whole.
        with suppress(Exception):
            good, bad = (
                attempts.apply(count=n, expected=failed.keys[:n]).model
                for n in (count - 1, count)
            )
            pairs.append((good, bad, f"what rewrite {number} of {name} changed"))
            pairs.append((before, bad, f"what {name} changed up to rewrite {number}"))
    if found and search.rest is not None and search.rest.change is not Change.NONE:
        numbers = ", ".join(str(application.number) for application in found)
        what = f"what rewrite {numbers} of {name} changed"
        pairs.append((search.rest.model, failed.model, what))
    pairs.append((before, failed.model, f"what {name} changed"))
    return [Case(old, new, {}, what, steps=steps) for old, new, what in pairs]


@dataclass
class _Hunt:
    attempts: Attempts
    wrong_parts: WrongParts
    search: CulpritSearch
    bisect: bool

    def run(self, failed: Attempt) -> None:
        current, hunted = failed, 0
        while current.fails and current.applied:
            if hunted >= MOST_HUNTED or len(self.search.culprits) >= MOST_CULPRITS:
                others = current.applied
                current = self.attempts.apply(only=frozenset())
                if not current.fails:
                    self.search.notes.append(
                        f"{len(self.search.culprits)} rewrites are wrong, and more: "
                        f"{len(others)} others were not looked at"
                    )
                    return
                break
            parts = self.wrong_parts(current)
            alone = [part for part in parts if len(part.rewrites) == 1]
            alone.sort(key=lambda part: -part.error)
            named = [Culprit(part.rewrites[0], part.how, part.value) for part in alone]
            if not named and self.bisect:
                among = {one.key for part in parts for one in part.rewrites}
                named = self._by_bisection(current, among or {*current.keys})
                hunted += 1
            if not named:
                return
            self.search.culprits += named
            current = self.attempts.apply(skip=self.skip)
        if current.fails:
            wrong = {part.differs for part in self.wrong_parts(current)}
            self.search.culprits = [
                c for c in self.search.culprits if c.value and c.value.output not in wrong
            ]
            self.search.notes.append(
                "the pass fails even without its rewrites: a rule may change more than "
                "it returns"
            )
        count = len(self.search.culprits)
        if count > MOST_CULPRITS:
            self.search.notes.append(
                f"{count} rewrites are wrong: the pass is, not some of them"
            )
        elif not current.fails:
            self.search.rest = current

    @property
    def skip(self) -> frozenset[str]:
        return frozenset(culprit.application.key for culprit in self.search.culprits)

    def _by_bisection(self, current: Attempt, among: Collection[str]) -> list[Culprit]:
        """Find a least set of rewrites that fail together, in few runs for each of them."""
        applied = [a for a in current.applied if a.key in among]
        if len(current.applied) == 1:
            return [Culprit(applied[0], "the only rewrite")]
        position, good, bad = self._first_failing(current, applied)
        if _gradual(good, bad):
            self.search.notes.append(
                "no rewrite can be named: the error grows little by little, and at no rewrite "
                f"by {NOISE_FACTOR:g} times"
            )
            return []
        last = applied[position - 1]
        needed, others = [last], applied[: position - 1]
        while others and not self._fail_alone(needed):
            place = self._first_needed(others, needed)
            needed.insert(0, others[place - 1])
            others = others[: place - 1]
        guilty = [a for a in needed if a is last or self._is_accomplice(a, needed)]
        how = "by bisection" if len(guilty) == 1 else "by bisection, wrong together"
        return [Culprit(application, how) for application in guilty]

    def _first_failing(
        self, current: Attempt, applied: Sequence[Application]
    ) -> tuple[int, Attempt | None, Attempt]:
        """Return how many rewrites fail first, with all others up to there."""
        tried = {len(applied): current}

        def fails(count: int) -> bool:
            place = current.keys.index(applied[count - 1].key) + 1
            keys = current.keys[:place]
            tried[count] = self.attempts.apply(skip=self.skip, count=place, expected=keys)
            return tried[count].fails

        first = first_true(len(applied), fails)
        return first, tried.get(first - 1), tried[first]

    def _first_needed(
        self, others: Sequence[Application], needed: Sequence[Application]
    ) -> int:
        return first_true(len(others), lambda n: self._fail_alone([*others[:n], *needed]))

    def _fail_alone(self, applications: Sequence[Application]) -> bool:
        keys = frozenset(application.key for application in applications)
        return self.attempts.apply(skip=self.skip, only=keys).fails

    def _is_accomplice(self, one: Application, needed: Sequence[Application]) -> bool:
        """Whether one is at fault itself, and does not just make room for the others."""
        rest = {application.key for application in needed if application is not one}
        attempt = self.attempts.apply(skip=self.skip, only=frozenset(rest))
        return rest <= set(attempt.keys) and not attempt.fails


def _gradual(good: Attempt | None, bad: Attempt) -> bool:
    """Whether the error at the first failing rewrite stands out too little to blame it."""
    if good is None:
        return False
    low, high = margin(good.checks), margin(bad.checks)
    if low is None or high is None or not high.limit:
        return False
    return high.ratio < NOISE_FACTOR * low.ratio


BY_REGION = "by its region alone"
"""How a rewrite was found: the compiler takes what it replaced, and not what it put there."""

_MOST_NAMED = 3
"""Rewrites that a compiler names at most, for each to be built by itself."""

Changed = tuple[ir.Model, ir.Model, Sequence[Application]]
"""A model before and after a pass, and its rewrites."""


@dataclass(frozen=True)
class PartSearch:
    """Asks an engine about the parts of a change, each by itself.

    ``recording`` runs the model before, for the values at their borders. ``builds`` may know
    some of the parts.
    """

    engine: Engine
    recording: Engine
    samples: Sequence[Feeds]
    promise: Promise
    builds: RegionBuilds | None = None

    def lost(
        self, changed: Changed, level: Level, said: str, left_in: ir.Model | None
    ) -> Iterator[WrongPart]:
        """Yield the parts with which a compiler does not get as far as a level.

        Those that it named in what it ``said`` of the whole model are built first. If they are
        taken alone, all are. Parts that ``left_in`` does not hold any more are left out.
        """
        made = {v.name for node in (left_in or changed[1]).graph for v in node.outputs}
        pairs = [
            pair
            for pair in self._batch(changed).pairs
            if pair.new and pair.numbers and made >= pair.new.values
        ]
        builds = RegionBuilds(self.engine, sys.maxsize, level=level, alike=False)
        named = [pair for pair in pairs if pair.new and is_named(said, pair.new)]
        found = builds.lost(named) if len(named) <= _MOST_NAMED else []
        for pair, why in found or builds.lost(pairs):
            yield WrongPart(_of(pair, changed), f"{BY_REGION}: {why}")

    def wrong(self, changed: Changed) -> Iterator[WrongPart]:
        """Yield the parts whose values differ, and how it was found."""
        batch, told = self._batch(changed), 0
        builds = self.builds or RegionBuilds(self.engine, sys.maxsize)
        compiles = compiler_of(self.engine) is not None
        for pair, verdict in zip(batch.pairs, builds.verdicts(batch), strict=True):
            if verdict.fault:
                how = "by its own error" + (" on that engine" if compiles else "")
                how += self._layers(pair.new) if compiles and told < _MOST_NAMED else ""
                told += 1
                value = next(c for c in verdict.checks if not c.passed)
                yield WrongPart(_of(pair, changed), how, value)

    def _batch(self, changed: Changed) -> Batch:
        before, after, applied = changed
        models, promises = (before, after), [self.promise]
        finely = compiler_of(self.engine) is None
        return pair_up(
            "the pass", models, applied, promises, self.samples, self.recording, finely=finely
        )

    def _layers(self, part: Part | None) -> str:
        """Say what layers the engine makes of a part, by its own names; nothing if untold."""
        if part is None:
            return ""
        engine = with_profiles_of(without_profiles(self.engine), part.model, [part.rows[0]])
        names = [own_name(layer.name, part) for layer in built_layers(engine, part.model)]
        return f", in its layers {', '.join(map(repr, names))}" if names else ""


def _of(pair: RegionPair, changed: Changed) -> list[Application]:
    """Return the rewrites of a part."""
    return [application for application in changed[2] if application.number in pair.numbers]


def error_of(model: ir.Model, bench: EngineBaseline, baseline: Baseline) -> float:
    """Return the error of a model's outputs on an engine; infinite if it does not run."""
    try:
        produced = bench.run(model, baseline.samples)
    except EngineError:
        return math.inf
    return score(bench.original, produced, baseline.unstable)


@dataclass(frozen=True)
class Judgement:
    """A failed check, and what it was made with; no contracts if it is of several passes."""

    state: State
    compilers: Sequence[Compiler]
    check: Check
    contracts: Sequence[Contract] = ()
    override: OutputTolerance | None = None

    @classmethod
    def of(
        cls,
        state: State,
        compilers: Sequence[Compiler],
        checks: Sequence[Check],
        contracts: Sequence[Contract] = (),
        override: OutputTolerance | None = None,
    ) -> Judgement | None:
        """Return the first check that failed, one of an engine if there is any."""
        failed = [check for check in checks if check.verdict is Verdict.FAILED]
        failed.sort(key=lambda check: (check.engine is None, check.kind == ENGINE))
        return cls(state, compilers, failed[0], contracts, override) if failed else None

    @property
    def numeric(self) -> bool:
        """Whether numbers decided: an engine ran the models on samples."""
        check = self.check
        return bool(check.engine and check.kind != LEVEL and self.samples)

    @property
    def samples(self) -> Sequence[Feeds]:
        return self.state.baseline.samples

    @property
    def feeds(self) -> Feeds:
        return self.samples[self.check.sample or 0]

    @cached_property
    def bench(self) -> EngineBaseline:
        """The engine of the check, or the first one where it needed none."""
        benches = self.state.baseline.benches
        named = [bench for bench in benches if bench.engine.name == self.check.engine]
        return (named or benches)[0]

    @property
    def engine(self) -> Engine:
        """What runs the models that are judged, whole or in parts."""
        return self.bench.engine

    def prepare(self, model: ir.Model) -> ir.Model:
        """Return a model as the engine runs it, for scripts without this package."""
        model = assign_seeds(model, getattr(self.engine, "seed", 0))
        return insert_barriers(model) if self.bench.node_by_node else model

    @cached_property
    def limits(self) -> tuple[Equality | Tolerance, dict[str, Tolerance]]:
        """What values inside a model are held to, and those of single values."""
        thresholds = self.state.comparing.thresholds
        limit, single = thresholds.local(self.check.kind, self.contracts, self.override)
        by_type = isinstance(limit, Tolerance) and limit.rtol is None and limit.atol is None
        wrong = [output for output in self.check.outputs if not output.passed]
        # Without its absolute part, the limit of a type is where double precision decided.
        decided = any(o.limit and not o.atol for o in wrong)
        if by_type and decided and self.check.kind == "tolerance":
            return Tolerance(atol=0.0), single
        return limit, single

    @property
    def promise(self) -> Promise:
        """What values inside a model must keep."""
        contract, overrides = self.limits
        return Promise(contract, overrides=overrides, inside=True, negative_zero=True)

    def wrong_parts(
        self, changed: Changed, left_in: ir.Model | None = None
    ) -> list[WrongPart]:
        """Return the parts of a change that are wrong by themselves.

        By numbers, or by what a compiler takes. None for a pass that promises equal outputs
        alone: its values inside may differ.
        """
        level = self.check.kind == LEVEL
        free = any(isinstance(c, Equality) and c.at == "outputs" for c in self.contracts)
        if free or not self.samples or not (self.numeric or level):
            return []
        executing = [bench.engine for bench in self.state.baseline.benches]
        recording = executing[0] if executing else OnnxRuntimeEngine()
        engine = self.compiler.engine if level else self.engine
        builds = self.compiler.regions if level else None
        samples = self.compiler.samples if builds else [self.feeds]
        search = PartSearch(engine, recording, samples, self.promise, builds)
        if not level or self.check.level == Level.EXECUTED:
            return list(search.wrong(changed))
        wanted = min(self.compiler.original.level, Level.BUILT, key=lambda one: one.rank)
        return list(search.lost(changed, wanted, self.check.reason or "", left_in))

    @property
    def compiler(self) -> Compiler:
        """The engine of a check of levels."""
        return next(c for c in self.compilers if c.engine.name == self.check.engine)

    def blame(
        self,
        culprits: Sequence[Culprit],
        before: ir.Model,
        after: ir.Model,
        place: tuple[int | None, str],
        rest: Attempt | None = None,
    ) -> list[Blame]:
        """Return what a failure is due to: rewrites, or the first value that diverges.

        ``rest`` is the pass without the culprits. It may give names of its own to other values
        than the whole pass does.
        """
        right = before if rest is None else rest.model
        sample = self.check.sample
        found = [
            Blame(
                *place,
                culprit.how,
                culprit.application.number,
                culprit.application.rule,
                list(culprit.application.nodes),
                list(culprit.application.new_nodes),
                culprit.value,
                sample,
            )
            for culprit in culprits
        ]
        if not self.numeric or (found and found[0].value is not None):
            return found
        parted: Divergence | None
        if not found and self.check.kind == "metric":
            parted = lost = largest_loss(right, after, self.feeds, self.engine)
            how = _loss(lost) if lost else ""
        else:
            limits = self.limits
            parted = first_divergence(right, after, self.feeds, self.engine, *limits, before)
            how = "the first value that diverges"
        if parted is None:
            return found
        if found:
            found[0].value = parted.value
            return found
        nodes, new = ([describe(n)] if n else [] for n in (parted.before, parted.after))
        value = parted.value
        return [Blame(*place, how, nodes=nodes, new_nodes=new, value=value, sample=sample)]


def _loss(lost: Loss) -> str:
    """Describe the layer that loses the most, where all may lose something."""
    told = "it overflows" if lost.share == math.inf else f"an error of {percent(lost.share)}"
    return f"{LOSES}: {told}, {percent(lost.read)} in what it reads"
