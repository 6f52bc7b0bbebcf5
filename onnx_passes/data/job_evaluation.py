"""Evaluate a job: hand out shards, add them up in order, stop when enough is known."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from onnx_passes.data.accumulators.metric_sums import Metrics
from onnx_passes.data.accumulators.pair import PairState
from onnx_passes.data.demand import Demand
from onnx_passes.data.evaluation_job import DataJob
from onnx_passes.data.evaluation_result import DataResult, RunTiming, describe
from onnx_passes.data.executors.executor import Executor
from onnx_passes.data.journal import Journal
from onnx_passes.data.optional_libraries import import_optional
from onnx_passes.data.progress import Progress
from onnx_passes.errors import OnnxPassesError
from onnx_passes.plain import PlainDict

ATTEMPTS = 3
"""How often a shard is tried before it is left out."""

GROUPS = 64
"""Groups of shards by which the bootstrap resamples metrics."""

AHEAD = 8
"""Shards that may be finished before one that comes earlier, for each slot of workers."""


@dataclass
class _State:
    """What was added up so far, in the order of shards."""

    pairs: list[PairState]
    groups: list[list[Metrics]]
    evaluated: int = 0
    merged: int = 0
    quarantined: list[PlainDict] = field(default_factory=list)


def evaluate(
    job: DataJob,
    rule: Demand,
    executor: Executor,
    *,
    journal: Journal | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    accept: Callable[[PlainDict], None] | None = None,
) -> DataResult:
    """Evaluate a data set.

    The result does not depend on the executor, on the number of its workers, on the order in
    which they finish, or on how often a shard was tried.

    Args:
        job: What is evaluated.
        rule: What is demanded.
        executor: What runs shards; it is started and closed.
        journal: Finished shards: the run continues from them, and adds to them.
        on_progress: Called after each shard.
        accept: Called with each outcome before it counts; it raises to end the run.

    Raises:
        UsageError: scipy is not installed.
        OnnxPassesError: A model cannot be run, the workers are gone, or the journal cannot be
            written. Shards that were finished are in the journal.
    """
    import_optional("scipy.special")  # known before hours of work, not after
    return _Evaluation(job, rule, executor, journal, on_progress, accept).run()


class _Evaluation:
    def __init__(
        self,
        job: DataJob,
        rule: Demand,
        executor: Executor,
        journal: Journal | None,
        on_progress: Callable[[Progress], None] | None,
        accept: Callable[[PlainDict], None] | None,
    ) -> None:
        self.job, self.rule, self.executor, self.journal = job, rule, executor, journal
        self.on_progress, self.accept = on_progress, accept
        names = job.measures.metrics
        candidates = len(job.candidates)
        self.state = _State(
            [PairState(job.measures) for _ in range(candidates)],
            [
                [Metrics(names) for _ in range(candidates)]
                for _ in range(GROUPS if names else 0)
            ],
        )
        self.ready: dict[int, PlainDict] = {}
        self.attempts: dict[int, int] = {}
        self.again: deque[int] = deque()
        self.under_way = 0
        self.next = 0
        self.resumed = 0
        self.timing = RunTiming(executor.name)

    def run(self) -> DataResult:
        start = time.perf_counter()
        done = self._replay()
        if not done:
            try:
                self.executor.start(self.job)
                self._work()
            finally:
                # Workers that cannot be ended must not hide why the run ends.
                with suppress(Exception):
                    self.executor.close()
        self.timing.seconds = time.perf_counter() - start
        self.timing.resumed = self.resumed
        return describe(
            self.job,
            self.rule,
            self.state.pairs,
            self.state.groups,
            self._counts(),
            self.timing,
        )

    def _replay(self) -> bool:
        """Add up what the journal holds from the start on; return whether that is enough."""
        while self.journal is not None and self.state.merged in self.journal:
            self.resumed += 1
            self._merge(self.journal.get(self.state.merged))
            if self._is_finished():
                return True
        self.next = self.state.merged
        return self._is_finished()

    def _is_finished(self) -> bool:
        if self.state.merged >= self.job.plan.shards:
            return True
        return bool(self.state.merged) and self.rule.enough(self.state.pairs)

    def _work(self) -> None:
        while not self._is_finished():
            self._fill()
            outcome = self.executor.collect()
            self.under_way -= 1
            self._take(outcome)
            while self.state.merged in self.ready or self._is_recorded():
                outcome = self._ahead()
                self._merge(outcome)
                self._tell()
                if self._is_finished():
                    return

    def _is_recorded(self) -> bool:
        return self.journal is not None and self.state.merged in self.journal

    def _ahead(self) -> PlainDict:
        number = self.state.merged
        if number in self.ready:
            return self.ready.pop(number)
        assert self.journal is not None
        self.resumed += 1
        return self.journal.get(number)

    def _fill(self) -> None:
        """Keep the workers busy, but not far ahead of what is added up."""
        slots = self.executor.slots
        last = min(self.job.plan.shards, self.state.merged + AHEAD * slots + 1)
        while self.under_way < slots:
            if self.again:
                shard = self.again.popleft()
            else:
                while self.journal is not None and self.next in self.journal:
                    self.next += 1
                if self.next >= last:
                    return
                shard, self.next = self.next, self.next + 1
            self.executor.submit(shard)
            self.under_way += 1

    def _take(self, outcome: PlainDict) -> None:
        """Accept an outcome, or have its shard tried again."""
        shard = int(outcome["shard"])
        if shard < self.state.merged or shard in self.ready:
            return  # a worker that was thought dead has finished after all
        self.timing.add(outcome)
        if self.accept is not None:
            self.accept(outcome)
        if "error" in outcome and outcome.get("retry"):
            self.attempts[shard] = self.attempts.get(shard, 0) + 1
            if self.attempts[shard] < ATTEMPTS:
                self.timing.retries += 1
                self.again.append(shard)
                return
        if self.journal is not None:
            self.journal.add(_journal_entry(outcome))
        self.ready[shard] = _journal_entry(outcome)

    def _merge(self, outcome: PlainDict) -> None:
        state, shard = self.state, int(outcome["shard"])
        state.merged += 1
        if "error" in outcome:
            first, stop = self.job.plan.range(shard)
            state.quarantined.append(
                {"shard": shard, "first": first, "stop": stop, "reason": outcome["error"]}
            )
            return
        state.evaluated += int(outcome["samples"])
        for place, found in enumerate(outcome["pairs"]):
            more = PairState(self.job.measures)
            more.load(found)
            try:
                state.pairs[place].merge(more)
            except ValueError as error:
                raise OnnxPassesError(
                    f"shard {shard} has {error}",
                    help="the scores have one size in all samples",
                ) from error
            if state.groups:
                state.groups[shard % GROUPS][place].merge(more.metrics)

    def _counts(self) -> PlainDict:
        plan, state = self.job.plan, self.state
        left_out = sum(entry["stop"] - entry["first"] for entry in state.quarantined)
        used = plan.range(state.merged - 1)[1] if state.merged else 0
        if state.evaluated + left_out != used:
            raise RuntimeError(
                f"{state.evaluated} samples were evaluated and {left_out} left out, of {used}"
            )
        return {
            "samples": plan.used,
            "evaluated": state.evaluated,
            "quarantined": left_out,
            "not_needed": plan.used - used,
            "shards": plan.shards,
            "shards_needed": state.merged,
            "left_out": state.quarantined,
            "broken": [{"name": part.name, "reason": part.reason} for part in plan.broken],
        }

    def _tell(self) -> None:
        if self.on_progress is None:
            return
        elapsed = time.perf_counter() - self.timing.started
        self.on_progress(
            Progress.of(
                self.job,
                self.rule,
                self.state.pairs,
                self.state.evaluated,
                elapsed,
                self.timing.samples,
            )
        )


def _journal_entry(outcome: PlainDict) -> PlainDict:
    """Return what of an outcome is part of the result, for the journal."""
    names = ("shard", "samples", "pairs", "error")
    return {name: outcome[name] for name in names if name in outcome}
