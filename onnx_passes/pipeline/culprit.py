"""Find the rewrites that make a check fail.

A judgement asks the failed check again for a run with fewer rewrites. The search halves the
rewrites. On compilers the region of each rewrite is built without the others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.configs.sections import OutputTolerance
from onnx_passes.contracts import Contract, Equality, Tolerance
from onnx_passes.errors import ConfigError, EngineError, OnnxPassesError
from onnx_passes.passes.context import Application
from onnx_passes.passes.patterns import describe
from onnx_passes.pipeline.baseline import Baseline, EngineBaseline
from onnx_passes.pipeline.change_parts import (
    Part,
    describe_finding,
    is_left,
    names_part,
    own_name,
    record,
    side_by_side,
    side_part,
)
from onnx_passes.pipeline.compiling_engines import Compiler
from onnx_passes.pipeline.gate import Gate
from onnx_passes.pipeline.pass_execution import Attempt, Attempts, SearchEnded
from onnx_passes.pipeline.rounding import FUSED
from onnx_passes.report.run_report import LOSES, Blame
from onnx_passes.report.summary import margin
from onnx_passes.report.text import percent
from onnx_passes.runtime.engine_base import Engine, Feeds, Finding, Level, Outputs, examine
from onnx_passes.runtime.engine_models import assign_seeds, insert_barriers
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.runtime.tensorrt.engine import (
    built_layers,
    with_profiles_of,
    without_profiles,
)
from onnx_passes.verify.applications import (
    ApplicationPieces,
    LocalScore,
    Side,
    Witnesses,
    local_scores,
)
from onnx_passes.verify.evidence import ENGINE, LEVEL, Check, OutputCheck, Verdict
from onnx_passes.verify.judge import NOISE_FACTOR, Promise, score
from onnx_passes.verify.region import producers_by_name
from onnx_passes.verify.rounding import rounding_verdict
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

Scores = Callable[[Sequence[Application], frozenset[str], Attempt], list[LocalScore | None]]


@dataclass(frozen=True)
class Culprit:
    """A rewrite found wrong; its number is that of the run that failed.

    ``how`` is "by its own error", "by bisection", "the only rewrite", or "by its region alone"
    with what a compiler says of that. ``score`` is its own error relative to the largest
    element.
    """

    application: Application
    how: str
    score: float | None = None
    value: OutputCheck | None = None


@dataclass
class CulpritSearch:
    """Rewrites found wrong, in order; ``rest`` is the pass without them if that holds."""

    culprits: list[Culprit] = field(default_factory=list)
    rest: Attempt | None = None
    notes: list[str] = field(default_factory=list)


def find_culprits(
    attempts: Attempts,
    failed: Attempt,
    scores: Scores,
    *,
    bisect: bool = True,
) -> CulpritSearch:
    """Find the rewrites without which a pass keeps its contract.

    ``scores`` are local scores of rewrites, given those left out, on the sample that failed.
    With ``bisect`` the search continues if no rewrite is wrong by itself. Without a single
    culprit the result is empty, and a note says why.
    """
    search = CulpritSearch()
    if failed.applied:
        try:
            _Hunt(attempts, scores, search, bisect).run(failed)
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
    scores: Scores
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
            by_score = self._by_score(current)
            if by_score is not None:
                found, current = by_score
                self.search.culprits += found
                continue
            named = self._by_bisection(current) if self.bisect else []
            if not named:
                return
            self.search.culprits += named
            hunted += 1
            current = self._without(())
        if current.fails:
            self.search.culprits = [c for c in self.search.culprits if c.score is not None]
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

    def _without(self, more: Sequence[Culprit]) -> Attempt:
        keys = frozenset(culprit.application.key for culprit in more)
        return self.attempts.apply(skip=self.skip | keys)

    def _by_score(self, current: Attempt) -> tuple[list[Culprit], Attempt] | None:
        """Accuse by local scores, the worst first, as few as cure the pass; else None."""
        scores = [s for s in self.scores(current.applied, self.skip, current) if s]
        wrong = sorted((s for s in scores if not s.passed), key=lambda s: -s.score)
        suspects = [Culprit(s.application, s.how, *measured_by(s)) for s in wrong]
        if not suspects:
            return None
        everything = self._without(suspects)
        if everything.fails:
            return suspects, everything
        if all(suspect.value is None for suspect in suspects):
            return suspects, everything  # each was seen to fail alone
        tried = {len(suspects): everything}

        def cures(count: int) -> bool:
            tried[count] = self._without(suspects[:count])
            return not tried[count].fails

        fewest = first_true(len(suspects), cures)
        return self._as_far_off(suspects, fewest, tried[fewest])

    def _as_far_off(
        self, suspects: Sequence[Culprit], count: int, best: Attempt
    ) -> tuple[list[Culprit], Attempt]:
        """Accuse as well those with no better score: they may only show together."""
        more = count
        while more < len(suspects) and _score(suspects[more]) * NOISE_FACTOR >= _score(
            suspects[count - 1]
        ):
            more += 1
        if more > count:
            attempt = self._without(suspects[:more])
            if not attempt.fails:
                return list(suspects[:more]), attempt
        return list(suspects[:count]), best

    def _by_bisection(self, current: Attempt) -> list[Culprit]:
        """Find a least set of rewrites that fail together, in few runs for each of them."""
        applied = current.applied
        if len(applied) == 1:
            return [Culprit(applied[0], "the only rewrite")]
        position, good, bad = self._first_failing(current)
        if _gradual(good, bad):
            self.search.notes.append(
                "no rewrite can be named: the error grows little by little, and at no rewrite "
                f"by {NOISE_FACTOR:g} times"
            )
            return []
        last = applied[position - 1]
        needed, others = [last], list(applied[: position - 1])
        while others and not self._fail_alone(needed):
            place = self._first_needed(others, needed)
            needed.insert(0, others[place - 1])
            others = others[: place - 1]
        guilty = [a for a in needed if a is last or self._is_accomplice(a, needed)]
        how = "by bisection" if len(guilty) == 1 else "by bisection, wrong together"
        return [Culprit(application, how) for application in guilty]

    def _first_failing(self, current: Attempt) -> tuple[int, Attempt | None, Attempt]:
        tried = {len(current.applied): current}

        def fails(count: int) -> bool:
            keys = current.keys[:count]
            tried[count] = self.attempts.apply(skip=self.skip, count=count, expected=keys)
            return tried[count].fails

        first = first_true(len(current.applied), fails)
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


def measured_by(score: LocalScore) -> tuple[float, OutputCheck] | tuple[()]:
    """Return the error and the value of a score; nothing where no number decided."""
    return (score.score, score.worst) if score.measured else ()


def _score(culprit: Culprit) -> float:
    return culprit.score or 0.0


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

ON_ENGINE = "by its own error on that engine"
"""How a rewrite was found whose values differ where both sides are run on the compiler."""


@dataclass(frozen=True)
class Regions:
    """The regions of the rewrites of one pass.

    ``engine`` runs both models, for the types and shapes at the boundaries. ``said`` is what
    the compiler said of the whole model that it refused.
    """

    compiler: Compiler
    before: ir.Model
    after: ir.Model
    feeds: Feeds
    engine: Engine
    said: str = ""

    def scores(
        self, pieces: Sequence[ApplicationPieces], *, left_in: ir.Model | None = None
    ) -> list[LocalScore | None]:
        """Return for each rewrite what its region shows; None where it lost nothing by itself.

        Those that the compiler named in the whole model are built first. Where they are taken
        alone, all are. A rewrite inside a body, or one that a later one replaced, is not
        looked at. ``left_in`` must still hold the rewrites; the model after the pass by
        default.
        """
        named = self._named(pieces)
        found = self._scores(named, left_in) if named else {}
        found = found or self._scores(pieces, left_in)
        return [found.get(piece.application.key) for piece in pieces]

    def _named(self, pieces: Sequence[ApplicationPieces]) -> list[ApplicationPieces]:
        """Return the rewrites whose new nodes the compiler named, if they are few."""
        makers = producers_by_name(self.after)
        found = [piece for piece in pieces if _is_named(self.said, piece.new, makers)]
        return found if len(found) <= _MOST_NAMED else []

    def _scores(
        self, pieces: Sequence[ApplicationPieces], left_in: ir.Model | None
    ) -> dict[str, LocalScore]:
        """Return what the regions of rewrites show that lost support, by their keys."""
        looked, arrays = self._looked(pieces, left_in or self.after)
        parts: dict[int, Part] = {}
        for number, piece in enumerate(looked):
            part = self._part(f"p{number}", self.after, piece.new, arrays)
            if part is not None:
                parts[number] = part
        found: dict[str, LocalScore] = {}
        for number, finding in self._failing(parts).items():
            piece = looked[number]
            old = self._part("old", self.before, piece.old, arrays)
            if old is not None and self._reaches(self._examine([old])):
                reason = describe_finding(finding, parts[number])
                application = piece.application
                check = OutputCheck(application.replaced[0][0], False, reason)
                how = f"{BY_REGION}: {reason}"
                found[application.key] = LocalScore(application, np.inf, (check,), how, False)
        return found

    def measured(
        self, pieces: Sequence[ApplicationPieces], promise: Promise
    ) -> list[LocalScore | None]:
        """Run both sides of each rewrite on the engine, in one build for each side.

        What differs is held against the running error of its operators, because an engine that
        fuses nodes rounds elsewhere on each side. There is no score if a side is not executed.
        """
        looked, arrays = self._looked(pieces, self.after)
        sides: list[tuple[ApplicationPieces, Part, Part]] = []
        for number, piece in enumerate(looked):
            old = self._part(f"o{number}", self.before, piece.old, arrays)
            new = self._part(f"p{number}", self.after, piece.new, arrays)
            if old is not None and new is not None:
                sides.append((piece, old, new))
        if not sides:
            return [None] * len(pieces)
        found: dict[str, LocalScore] = {}
        told_of: set[str] = set()
        olds = self._executed([old for _, old, _ in sides])
        news = self._executed([new for _, _, new in sides])
        for piece, old, new in sides if olds and news else ():
            names = [str(value.name) for value in piece.old.outputs]
            ends = [str(value.name) for value in piece.new.outputs]
            expected = {n: olds.get(f"{old.prefix}.{n}") for n in names}
            actual = {
                n: news.get(f"{new.prefix}.{e}") for n, e in zip(names, ends, strict=True)
            }
            if any(value is None for value in (*expected.values(), *actual.values())):
                continue  # a constant, or a value that both sides read
            checks = promise.check(expected, actual)
            if not all(check.passed for check in checks) and _rounds(old, new, olds, news):
                checks = tuple(replace(check, passed=True, reason=FUSED) for check in checks)
            error = score([expected], [actual], frozenset())
            key = piece.application.key
            how = ON_ENGINE
            if not all(check.passed for check in checks) and len(told_of) < _MOST_NAMED:
                told_of.add(key)
                how += self._layers(new)
            found[key] = LocalScore(piece.application, error, checks, how)
        return [found.get(piece.application.key) for piece in pieces]

    def _layers(self, part: Part) -> str:
        """Say what layers the engine makes of a part, by its own names; nothing if untold."""
        engine = with_profiles_of(
            without_profiles(self.compiler.engine), part.model, [part.rows[0]]
        )
        names = [own_name(layer.name, part) for layer in built_layers(engine, part.model)]
        return f", in its layers {', '.join(map(repr, names))}" if names else ""

    def _executed(self, parts: Sequence[Part]) -> Outputs:
        finding = self._examine(parts, execute=True)
        return finding.outputs[0] if finding.level is Level.EXECUTED else {}

    def _looked(
        self, pieces: Sequence[ApplicationPieces], left_in: ir.Model
    ) -> tuple[list[ApplicationPieces], dict[str, Array]]:
        """Return the rewrites that can be looked at, and the values at their borders."""
        made = {str(v.name) for node in left_in.graph for v in node.outputs}
        looked = [
            piece for piece in pieces if piece.application.outermost and is_left(piece, made)
        ]
        if not looked:
            return [], {}
        return looked, record(self.before, self.after, looked, self.feeds, self.engine)

    def _part(
        self, prefix: str, model: ir.Model, side: Side, arrays: Mapping[str, Array]
    ) -> Part | None:
        shapes = [value.shape for value in self.before.graph.inputs]
        static = all(shape is not None and shape.is_static() for shape in shapes)
        return side_part(prefix, model, side, arrays, static=static)

    def _failing(self, parts: Mapping[int, Part]) -> dict[int, Finding]:
        """Return the parts that are not built, each with what is said of it alone."""
        if not parts:
            return {}
        together = self._examine([*parts.values()])
        if self._reaches(together):
            return {}
        if len(parts) == 1:
            return dict.fromkeys(parts, together)
        named = [n for n, part in parts.items() if names_part(together.reason, part)]
        alone = {n: self._examine([parts[n]]) for n in named if len(named) < len(parts)}
        found = {n: finding for n, finding in alone.items() if not self._reaches(finding)}
        if found:
            rest = {n: part for n, part in parts.items() if n not in alone}
            return found | self._failing(rest)
        numbers = list(parts)
        middle = len(numbers) // 2
        for half in (numbers[:middle], numbers[middle:]):
            found |= self._failing({n: parts[n] for n in half})
        return found

    def _reaches(self, finding: Finding) -> bool:
        wanted = min(self.compiler.original.level, Level.BUILT, key=lambda level: level.rank)
        return finding.level.rank >= wanted.rank

    def _examine(self, parts: Sequence[Part], *, execute: bool = False) -> Finding:
        model = side_by_side(parts)
        feeds = dict(chain.from_iterable(part.rows[0].items() for part in parts))
        engine = with_profiles_of(without_profiles(self.compiler.engine), model, [feeds])
        try:
            return examine(engine, model, [feeds] if execute else ())
        except ConfigError as error:
            return Finding(Level.PARSED, error.message, error.help)


def _rounds(old: Part, new: Part, olds: Outputs, news: Outputs) -> bool:
    """Whether rounding explains how the one value of two parts differs."""
    if len(old.model.graph.outputs) != 1 or len(new.model.graph.outputs) != 1:
        return False
    names = [str(part.model.graph.outputs[0].name) for part in (old, new)]
    expected, actual = olds[names[0]], news[names[1]]
    if not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray):
        return False
    feeds = {**old.rows[0], **new.rows[0]}
    return rounding_verdict(old.model, new.model, feeds, expected, actual, names[0]) is True


def _is_named(reason: str, side: Side, makers: Mapping[str, ir.Node]) -> bool:
    values = {str(value.name) for node in side.nodes for value in node.outputs if value.name}
    names = values | {str(makers[v].name) for v in values if v in makers and makers[v].name}
    return any(re.search(rf"(?<![\w.]){re.escape(n)}(?![\d.])", reason) for n in names)


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

    gate: Gate
    check: Check
    contracts: Sequence[Contract] = ()
    override: OutputTolerance | None = None

    @classmethod
    def of(
        cls,
        gate: Gate,
        checks: Sequence[Check],
        contracts: Sequence[Contract] = (),
        override: OutputTolerance | None = None,
    ) -> Judgement | None:
        """Return the first check that failed, one of an engine if there is any."""
        failed = [check for check in checks if check.verdict is Verdict.FAILED]
        failed.sort(key=lambda check: (check.engine is None, check.kind == ENGINE))
        return cls(gate, failed[0], contracts, override) if failed else None

    @property
    def numeric(self) -> bool:
        """Whether numbers decided: an engine ran the models on samples."""
        check = self.check
        return bool(check.engine and check.kind != LEVEL and self.samples)

    @property
    def samples(self) -> Sequence[Feeds]:
        return self.gate.baseline.samples

    @property
    def feeds(self) -> Feeds:
        return self.samples[self.check.sample or 0]

    @cached_property
    def bench(self) -> EngineBaseline:
        """The engine of the check, or the first one where it needed none."""
        benches = self.gate.baseline.benches
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
        limit, single = self.gate.local_limit(self.check.kind, self.contracts, self.override)
        by_type = isinstance(limit, Tolerance) and limit.rtol is None and limit.atol is None
        wrong = [output for output in self.check.outputs if not output.passed]
        # Without its absolute part, the limit of a type is where double precision decided.
        decided = any(o.limit and not o.atol for o in wrong)
        if by_type and decided and self.check.kind == "tolerance":
            return Tolerance(atol=0.0), single
        return limit, single

    @property
    def promise(self) -> Promise:
        """What values inside a model must keep on an engine that compiles."""
        contract, overrides = self.limits
        return Promise(contract, overrides=overrides, inside=True, negative_zero=True)

    def scores(
        self, attempts: Attempts, applied: Sequence[Application], skip: frozenset[str]
    ) -> list[LocalScore | None]:
        """Score each rewrite of a pass by itself, by numbers or by what a compiler takes."""
        regions = self.check.kind == LEVEL and bool(self.samples)
        if not (self.numeric or regions) or not applied:
            return []
        witnesses = Witnesses()
        keys = [application.key for application in applied]
        after = attempts.apply(skip=skip, expected=keys, witness=witnesses).model
        before, pieces = attempts.before.model, witnesses.pieces
        if regions and self.check.level == Level.EXECUTED:
            return self.regions(before, after).measured(pieces, self.promise)
        if regions:
            return self.regions(before, after).scores(pieces)
        return local_scores(before, after, pieces, self.feeds, self.engine, *self.limits)

    @property
    def compiler(self) -> Compiler:
        """The engine of a check of levels."""
        compilers = self.gate.levels.compilers
        return next(c for c in compilers if c.engine.name == self.check.engine)

    def regions(self, before: ir.Model, after: ir.Model) -> Regions:
        executing = [bench.engine for bench in self.gate.baseline.benches]
        engine = executing[0] if executing else OnnxRuntimeEngine()
        said = self.check.reason or ""
        return Regions(self.compiler, before, after, self.feeds, engine, said)

    def blame(
        self,
        culprits: Sequence[Culprit],
        before: ir.Model,
        after: ir.Model,
        place: tuple[int | None, str],
    ) -> list[Blame]:
        """Return what a failure is due to: rewrites, or the first value that diverges."""
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
                culprit.score,
                sample,
            )
            for culprit in culprits
        ]
        if not self.numeric or (found and found[0].value is not None):
            return found
        parted: Divergence | None
        if not found and self.check.kind == "metric":
            parted = lost = largest_loss(before, after, self.feeds, self.engine)
            how = _loss(lost) if lost else ""
        else:
            parted = first_divergence(before, after, self.feeds, self.engine, *self.limits)
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
