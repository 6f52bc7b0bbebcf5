"""What follows a failed check: who is guilty, a reproducer, and what is left of the pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import onnx_ir as ir

from onnx_passes.config.resolve import PassStep
from onnx_passes.config.schema import PipelineConfig
from onnx_passes.errors import EngineError, OnnxPassesError
from onnx_passes.graph.walk import node_count, weight_bytes
from onnx_passes.passes.base import Pass
from onnx_passes.passes.context import Application, PassContext
from onnx_passes.passes.patterns import describe
from onnx_passes.pipeline.attempt import Attempt, Attempts
from onnx_passes.pipeline.culprit import Culprit, Search, find_culprits
from onnx_passes.pipeline.drifting import Drifted, Kept, trace_drift
from onnx_passes.pipeline.gate import Gate
from onnx_passes.pipeline.reproduce import Failure, Pair, bench_of, failed_check, reproduce
from onnx_passes.pipeline.reproduce_level import reproduce_level
from onnx_passes.pipeline.state import Checked
from onnx_passes.pipeline.summary import rewrite_summary
from onnx_passes.report.model import Blame, PassReport, RunReport
from onnx_passes.runtime.base import Data
from onnx_passes.verify.cut import values_of
from onnx_passes.verify.diverge import first_divergence
from onnx_passes.verify.local import LocalScore, boundary, local_scores
from onnx_passes.verify.result import LEVEL
from onnx_passes.verify.snapshot import Change, Snapshot
from onnx_passes.verify.witness import Witnesses

SEARCH_SECONDS = 300.0
"""Time after which no further culprits of one pass are looked for."""


@dataclass(frozen=True)
class FailedCheck:
    """A pass whose check failed.

    Attributes:
        pass_: The pass.
        step: How it was asked for.
        make: Creates it anew.
        report: What is reported of it.
        before: The model before it.
        after: The model that it made.
        first: Position in the record of rewrites at which it began; None for a sequence of
            passes, which have each been looked into already.
        checked: What the gate said of it.
        gate: What checked it.
        context: What it shares with the pipeline, the record of rewrites among it.
        config: The pipeline.
        run: The report of the whole run.
        kept: The passes that were kept before it.
    """

    pass_: Pass
    step: PassStep
    make: Callable[[], Pass]
    report: PassReport
    before: Snapshot
    after: ir.Model
    first: int | None
    checked: Checked
    gate: Gate
    context: PassContext
    config: PipelineConfig
    run: RunReport
    kept: Sequence[Kept] = ()

    @property
    def applied(self) -> list[Application]:
        """The rewrites that the pass made."""
        return [] if self.first is None else self.context.rewrites.applied[self.first :]

    def explain(self, change: Change) -> Search:
        """Name the wrong rewrites where there are any, and leave a reproducer."""
        check = failed_check(self.report.checks)
        overall = check is not None and check.kind in ("drift", "metric")
        failed = Attempt(self.after, change, self.applied, self.checked)
        search = find_culprits(self._attempts, failed, self._scores, bisect=not overall)
        if overall and search.rest is None:
            # Held against the original: no rewrite of this pass need be at fault.
            self._trace()
            return Search()
        self.report.culprits = [c.application.number for c in search.culprits]
        self.report.notes += search.notes
        self.report.blame = self._blame(search)
        if self.config.reproducers:
            self._reproduce(search)
        return search

    def _trace(self) -> None:
        """Look for the fault in all passes so far: they were held against the original."""
        kept = list(self.kept)
        if self.first is not None:
            skip = self.context.rewrites.skip
            applied = tuple(self.applied)
            kept.append(Kept(self.step, self.report.index, self.first, applied, skip))
        drifted = Drifted(
            self.gate.original,
            self.after,
            kept,
            self.report.checks,
            self.gate,
            self.config,
            self.config.plain(),
            self.run,
            f"{self.report.index:04d}-{self.step.cls.name}",
            self.step.text,
        )
        traced = trace_drift(drifted, self.report.error or "")
        self.report.notes += traced.notes
        self.report.blame, self.report.reproducer = traced.blame, traced.folder
        numbers = {application.number for application in self.applied}
        found = [b.number for b in traced.blame if b.number is not None]
        self.report.culprits = [number for number in found if number in numbers]

    def undo(self, search: Search) -> Attempt | None:
        """Leave out the wrong rewrites, where they are known and the policy says so."""
        policy = self.step.on_failure or self.config.on_failure
        rest = search.rest
        if (
            self.first is None
            or policy != "rollback"
            or self.config.granularity != "application"
            or rest is None
            or rest.change is Change.NONE
        ):
            return None
        rewrites = self.context.rewrites
        rewrites.applied[self.first :] = rest.applied
        rewrites.skip |= {culprit.application.key for culprit in search.culprits}
        return rest

    def tell(self, rest: Attempt, search: Search, message: str) -> None:
        """Report the pass as what is left of it."""
        report = self.report
        report.rewrites = [rewrite_summary(a) for a in self.applied]
        report.checks, report.culprits, report.error = rest.checks, [], None
        report.evidence, report.verdict = rest.checked.evidence, rest.checked.verdict
        report.nodes_after = node_count(rest.model)
        report.bytes_after = weight_bytes(rest.model)
        found = (culprit.application for culprit in search.culprits)
        undone = sorted(found, key=lambda application: application.number)
        for index, rewrite in enumerate(undone):
            what = f"rewrite {rewrite.number} ({rewrite.rule}: {'; '.join(rewrite.nodes)})"
            why = f" was undone: {message}" if index == 0 else " was undone as well"
            report.notes.append(what + why)
        numbers = ", ".join(str(rewrite.number) for rewrite in undone)
        where = f"; reproducer in {report.reproducer}" if report.reproducer else ""
        self.run.notes.append(f"{report.name}: wrong and undone: rewrite {numbers}{where}")

    @cached_property
    def _attempts(self) -> Attempts:
        return Attempts(
            self.make,
            self.before,
            self.context,
            self.first or 0,
            self._check,
            self.config.limits.pass_seconds,
            time.monotonic() + SEARCH_SECONDS,
        )

    @cached_property
    def _recorded(self) -> dict[int, dict[str, Data]]:
        return {}

    def _check(
        self, model: ir.Model, change: Change, applied: Sequence[Application]
    ) -> Checked:
        if change is Change.NONE:
            return Checked([], [], self.gate.state)
        return self.gate.check(
            self.pass_, self.before, model, change, self.step.tolerance, applied
        )

    def _scores(
        self, applied: Sequence[Application], skip: frozenset[str], current: Attempt
    ) -> list[LocalScore | None]:
        """Score rewrites on the sample, the engine and by the contract that failed."""
        check = failed_check(current.checks)
        samples = self.gate.baseline.samples
        if check is None or check.engine is None or check.kind == LEVEL or not samples:
            return []
        bench = bench_of(self.gate, check)
        witnesses = Witnesses()
        attempts = self._attempts
        model, again = attempts.apply(skip=skip, witness=witnesses)
        if [a.key for a in again] != [a.key for a in applied]:
            raise OnnxPassesError("the pass does not repeat its rewrites")
        sample = check.sample or 0
        known = self._recorded.setdefault(sample, {})
        names = set(boundary(witnesses.pieces)) - known.keys()
        try:
            known |= values_of(self.before.model, names, samples[sample], bench.engine)
        except EngineError:
            return []
        contract, overrides = self.gate.local_limit(
            check.kind, self.pass_.contracts(), self.step.tolerance
        )
        return local_scores(model, witnesses.pieces, known, bench.engine, contract, overrides)

    def _blame(self, search: Search) -> list[Blame]:
        check = failed_check(self.report.checks)
        sample = None if check is None else check.sample
        found = [
            Blame(
                self.report.index,
                self.report.name,
                culprit.how,
                culprit.application.number,
                culprit.application.rule,
                list(culprit.application.nodes),
                list(culprit.application.new_nodes),
                culprit.value,
                culprit.score,
                sample,
            )
            for culprit in search.culprits
        ]
        if check is None or check.engine is None or not self.gate.baseline.samples:
            return found
        if check.kind == LEVEL:
            return found  # no numbers were compared: there is no value that diverges
        if found and found[0].value is not None:
            return found
        without = search.rest.model if search.rest is not None else self.before.model
        contract, overrides = self.gate.local_limit(
            check.kind, self.pass_.contracts(), self.step.tolerance
        )
        feeds = self.gate.baseline.samples[sample or 0]
        engine = bench_of(self.gate, check).engine
        parted = first_divergence(without, self.after, feeds, engine, contract, overrides)
        if parted is None:
            return found
        if found:
            found[0].value = parted.value
            return found
        return [
            Blame(
                self.report.index,
                self.report.name,
                "the first value that diverges",
                nodes=[describe(parted.before)] if parted.before is not None else [],
                new_nodes=[describe(parted.after)] if parted.after is not None else [],
                value=parted.value,
                sample=sample,
            )
        ]

    def _pairs(self, search: Search) -> list[Pair]:
        """Return models that may show the fault, those that differ least first."""
        pairs: list[Pair] = []
        applied, culprits = self.applied, search.culprits
        if culprits:
            pairs += self._around(applied, culprits[0])
            rest = search.rest
            if rest is not None and rest.change is not Change.NONE:
                numbers = ", ".join(str(c.application.number) for c in culprits)
                pairs.append(Pair(rest.model, self.after, f"what rewrite {numbers} changed"))
        return [*pairs, Pair(self.before.model, self.after, "what the pass changed")]

    def _around(self, applied: Sequence[Application], culprit: Culprit) -> list[Pair]:
        one = culprit.application
        keys = [application.key for application in applied]
        if one.key not in keys:
            return []  # it only applies once others are left out
        count = keys.index(one.key) + 1
        try:
            good, bad = (self._attempts.apply(count=n) for n in (count - 1, count))
        except Exception:
            # A pass that does not repeat what it did is shown as a whole.
            return []
        if [a.key for a in bad[1]] != keys[:count]:
            return []
        return [
            Pair(good[0], bad[0], f"what rewrite {one.number} changed"),
            Pair(
                self.before.model,
                bad[0],
                f"what the pass changed up to rewrite {one.number}",
            ),
        ]

    def _reproduce(self, search: Search) -> None:
        check = failed_check(self.report.checks)
        assert check is not None
        failure = Failure(
            f"{self.report.index:04d}-{self.step.cls.name}",
            self.step.text,
            self.report.error or "",
            self.report.contract,
            check,
            self._pairs(search),
            [self.step.text],
            self.report.blame,
            self.make,
        )
        try:
            write = reproduce_level if check.kind == LEVEL else reproduce
            folder = write(failure, self.gate, self.config, self.run)
        except OnnxPassesError as error:
            self.report.notes.append(f"no reproducer: {error.message}")
        except Exception as error:
            # It explains a failure that is already certain, and must not replace it.
            self.report.notes.append(f"no reproducer: {type(error).__name__}: {error}")
        else:
            self.report.reproducer = str(folder)
