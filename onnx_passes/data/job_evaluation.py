"""Evaluate a job: hand out shards, add them up in order, stop when enough is known.

A journal lets a killed run continue.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, ClassVar, Self

from onnx_passes.data.demand import Demand
from onnx_passes.data.evaluation_job import FORMAT, DataJob
from onnx_passes.data.evaluation_result import DataResult, RunTiming, describe
from onnx_passes.data.measures import PairState
from onnx_passes.data.workers import Executor
from onnx_passes.errors import OnnxPassesError, UsageError
from onnx_passes.optional import import_optional
from onnx_passes.plain import PlainDict


class JournalError(OnnxPassesError):
    """The journal cannot be written."""

    code: ClassVar[str] = "journal"


_WHAT = {
    "plan": "the data set, or how it is fed",
    "models": "a model",
    "engines": "an engine",
    "measures": "what is measured",
}


class Journal:
    """Outcomes of shards in a file that is only appended to.

    The first line names the job; each further line is an outcome, on the disk before it
    counts. A line that a kill cut short is ignored, and evaluated again. Raises ``UsageError``
    if the file belongs to another job, is written by another process, or is not a journal.
    Raises ``JournalError`` if it cannot be written.
    """

    def __init__(self, path: Path, job: DataJob) -> None:
        self._path = path
        self._places: dict[int, int] = {}
        try:
            self._file: BinaryIO = open(path, "a+b", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise self._fault(error) from error
        try:
            self._lock()
            end = self._read(job)
            # A line that was cut short would spoil the next one.
            self._file.truncate(end)
            if not end:
                self._append({"journal": FORMAT, "key": job.key})
        except BaseException:
            self._file.close()
            raise

    def _lock(self) -> None:
        if sys.platform == "win32":
            return
        import fcntl

        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(
                f"the journal {self._path} is in use by another run",
                help="wait for it, or give another --journal",
            ) from error

    def _read(self, job: DataJob) -> int:
        """Find the outcomes; return where the last whole line ends."""
        self._file.seek(0)
        end = 0
        with open(self._path, "rb") as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                try:
                    entry = json.loads(line)
                except ValueError:
                    break
                if end == 0:
                    self._check(entry, job)
                elif "error" not in entry:
                    # What failed is tried again: the fault may be mended.
                    self._places[entry["shard"]] = end
                end += len(line)
        if end == 0 and self._path.stat().st_size:
            with open(self._path, "rb") as file:
                if not file.read(64).lstrip().startswith(b'{"journal"'):
                    raise self._foreign()
        return end

    def _foreign(self) -> UsageError:
        return UsageError(
            f"{self._path} is not a journal of a data set run", help="give another --journal"
        )

    def _check(self, entry: object, job: DataJob) -> None:
        if not isinstance(entry, dict) or entry.get("journal") != FORMAT:
            raise self._foreign()
        other = [name for name, value in job.key.items() if entry["key"].get(name) != value]
        if other:
            raise UsageError(
                f"the journal {self._path} is of another run: "
                f"{' and '.join(_WHAT[name] for name in other)} changed since",
                help="remove it to start anew, or give another --journal",
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def __contains__(self, shard: int) -> bool:
        return shard in self._places

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._places))

    def get(self, shard: int) -> PlainDict:
        """Return the outcome of a shard that is in the journal."""
        with open(self._path, "rb") as file:
            file.seek(self._places[shard])
            outcome: PlainDict = json.loads(file.readline())
            return outcome

    def add(self, outcome: PlainDict) -> None:
        """Write an outcome to the disk and wait; raise ``JournalError`` if that fails."""
        end = self._append(outcome)
        if "error" not in outcome:
            self._places[outcome["shard"]] = end

    def _append(self, entry: PlainDict) -> int:
        line = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
        try:
            end = self._file.seek(0, os.SEEK_END)
            written = self._file.write(line)
            if written == len(line):
                os.fsync(self._file.fileno())
                return end
            self._file.truncate(end)
        except OSError as error:
            raise self._fault(error) from error
        raise self._fault(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    def _fault(self, error: OSError) -> JournalError:
        return JournalError(
            f"the journal {self._path} cannot be written: {error.strerror or error}",
            help="make room, then run the same command again: finished shards are kept",
        )


ATTEMPTS = 3
"""How often a shard is tried before it is left out."""

AHEAD = 8
"""Shards that may be finished before one that comes earlier, for each slot of workers."""


@dataclass
class _State:
    """What was added up so far, in the order of shards."""

    pairs: list[PairState]
    evaluated: int = 0
    merged: int = 0
    quarantined: list[PlainDict] = field(default_factory=list)


def evaluate(
    job: DataJob,
    rule: Demand,
    executor: Executor,
    *,
    journal: Journal | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    accept: Callable[[PlainDict], None] | None = None,
) -> DataResult:
    """Evaluate a data set.

    The result does not depend on the executor, on the number of its workers, on the order in
    which they finish, or on how often a shard was tried. The executor is started and closed. A
    run continues from the shards in the journal, and adds to them. ``accept`` is called with
    each outcome before it counts; it raises to end the run. Raises ``UsageError`` if scipy is
    not installed. Raises other errors if a model cannot be run, the workers are gone, or the
    journal cannot be written.
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
        on_progress: Callable[[int, int], None] | None,
        accept: Callable[[PlainDict], None] | None,
    ) -> None:
        self.job, self.rule, self.executor, self.journal = job, rule, executor, journal
        self.on_progress, self.accept = on_progress, accept
        self.state = _State([PairState(job.measures) for _ in job.candidates])
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
        return describe(self.job, self.rule, self.state.pairs, self._counts(), self.timing)

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
        self._tell()
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
        self.timing.samples += 0 if "error" in outcome else int(outcome["samples"])
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
        if self.on_progress is not None:
            self.on_progress(self.state.evaluated, self.job.plan.used)


def _journal_entry(outcome: PlainDict) -> PlainDict:
    """Return what of an outcome is part of the result, for the journal."""
    names = ("shard", "samples", "pairs", "error")
    return {name: outcome[name] for name in names if name in outcome}
