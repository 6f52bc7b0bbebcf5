"""``--resume``: keep verified states of a run that does not end well, and go on from them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import onnx_ir as ir

from onnx_passes.config.resolve import ResolvedPipeline
from onnx_passes.config.schema import PipelineConfig
from onnx_passes.errors import OnnxPassesError
from onnx_passes.graph.walk import all_tensors
from onnx_passes.io.detached import remarks
from onnx_passes.pipeline import point as points
from onnx_passes.pipeline.identity import difference, identify
from onnx_passes.pipeline.journal import DivergedError, EndReached, Journal
from onnx_passes.pipeline.manager import PassManager, Stopped
from onnx_passes.pipeline.progress import Progress
from onnx_passes.pipeline.sources import Sources
from onnx_passes.pipeline.states import KEPT, LIMIT, State, States, touch
from onnx_passes.report.model import RunReport
from onnx_passes.runtime.base import Feeds, Outputs
from onnx_passes.verify.snapshot import Snapshot

INTERVAL = 5.0
"""Seconds between two states of a run that goes well."""

SHARE = 0.05
"""Share of a run's time that writing them may take."""

FIRST = 0.5
"""Seconds that the first state takes, in which the sources of passes are digested."""

DIGESTED = 1e9
"""Bytes of weights that it digests in a second."""


@dataclass
class Resume:
    """What is kept of a run, and what it goes on from.

    Attributes:
        folder: Where states are kept.
        wanted: Whether to go on from one.
        interval: Seconds after which a state is written, of a run that goes well.
        limit: Bytes that all states may take.
        keeper: Of the run that was begun last.
    """

    folder: Path
    wanted: bool = False
    interval: float = INTERVAL
    limit: int = LIMIT
    keeper: Keeper | None = None

    def run(self, manager: PassManager, pipeline: ResolvedPipeline) -> None:
        """Run the steps of a pipeline, those left of it where a state is gone on from.

        Raises:
            Stopped: A pass failed, and the policy is to stop.
        """
        self.keeper = None
        if manager.gate is None:
            if self.wanted:
                why = "verification is off, and only verified states are kept"
                manager.report.notes.append(f"nothing is resumed: {why}")
            manager.run(pipeline.steps)
            return
        samples, labels = list(manager.gate.baseline.samples), manager.gate.labels
        keeper = Keeper(
            self, manager.snapshot, manager.config, manager.report, samples, labels
        )
        self.keeper = keeper
        model = manager.model
        keeper.lead(manager, pipeline)
        try:
            manager.run(pipeline.steps)
        except DivergedError as other:
            keeper.restart(manager, model, other.reason)
            manager.run(pipeline.steps)

    def rescue(self) -> None:
        """Keep the last verified state, as the run does not end well."""
        if self.keeper is not None:
            self.keeper.rescue()

    @property
    def hint(self) -> str | None:
        """How to go on; None where nothing was kept."""
        return self.keeper.hint if self.keeper is not None else None

    def done(self) -> None:
        """Remove what was kept: the run ended well, and its result is written."""
        if self.keeper is not None:
            self.keeper.done()


@dataclass
class Found:
    """A state to go on from.

    Attributes:
        model: Its model.
        state: What was done.
        journal: Leads through it.
    """

    model: ir.Model
    state: State
    journal: Journal

    @property
    def words(self) -> str:
        """Which one it is."""
        return _words(self.state)


@dataclass
class Keeper:
    """Keeps the states of one run."""

    settings: Resume
    original: Snapshot
    config: PipelineConfig
    report: RunReport
    samples: Sequence[Feeds]
    labels: Sequence[Outputs] | None
    _sources: Sources = field(default_factory=lambda: Sources(time.time()))
    _parts: dict[str, str] | None = None
    _latest: tuple[points.Point, PassManager] | None = None
    _written: list[Path] = field(default_factory=list)
    _last: points.Point | None = None
    _from: Path | None = None
    _next: float = 0.0
    _off: str | None = None
    _kept: str | None = None

    def __post_init__(self) -> None:
        self.states = States(self.settings.folder, self.settings.limit)
        self._said = [repr(remarks(tensor)) for tensor in all_tensors(self.original.model)]
        self._next = time.monotonic() + self._patience

    def lead(self, manager: PassManager, pipeline: ResolvedPipeline) -> None:
        """Put a manager that has done nothing where the best state is, if that is wanted."""
        manager.progress.accepted = self.accept
        if not self.settings.wanted:
            return
        found, words = self.find(pipeline)
        self.report.notes.append(words)
        if found is None:
            return
        state = found.state
        manager.model, manager.snapshot = found.model, Snapshot(found.model)
        manager.rewrites.applied[:] = state.applied
        manager.rewrites.skip = frozenset(state.skip)
        manager.state.update(state.shared)
        earlier = [replace(done, resumed=True) for done in state.passes]
        manager.progress = Progress(found.journal, earlier, self.accept, results=state.results)
        if manager.gate is not None:
            manager.gate.recall(state.budget)
        self.report.resumed = found.words
        self.report.notes += [n for n in state.notes if n not in self.report.notes]

    def restart(self, manager: PassManager, model: ir.Model, reason: str) -> None:
        """Put a manager back at the beginning, as what was noted leads it astray."""
        manager.model, manager.snapshot = model, self.original
        manager.rewrites.applied.clear()
        manager.rewrites.skip = frozenset()
        manager.reset()
        manager.progress = Progress(accepted=self.accept)
        self.report.passes.clear()
        self.report.notes = [n for n in self.report.notes if not n.startswith("resumed after")]
        self.report.notes.append(f"nothing is resumed: {reason}")
        self.report.resumed = None

    @property
    def _patience(self) -> float:
        """Seconds before the first state, which may take no more of a run than later ones."""
        interval = self.settings.interval
        expected = FIRST + self.original.weight_bytes / DIGESTED
        return max(interval, expected / SHARE) if interval else 0.0

    def accept(self, manager: PassManager) -> None:
        """Note where a run is; write it if the last time was long enough ago."""
        if self._off is not None:
            return
        try:
            self._latest = (points.take(manager, self.original), manager)
        except OnnxPassesError:
            return  # the place before it is as good as it was
        if time.monotonic() >= self._next:
            start = time.monotonic()
            self._write()
            spent = time.monotonic() - start
            self._next = time.monotonic() + max(self.settings.interval, spent / SHARE)

    def rescue(self) -> None:
        """Write the last place where the run was, and say so in the report."""
        self._write()
        if (hint := self.hint) is not None and hint not in self.report.notes:
            self.report.notes.append(hint)

    @property
    def hint(self) -> str | None:
        """How to go on from what was kept; None where nothing was."""
        return f"--resume goes on {self._kept}" if self._kept is not None else None

    def done(self) -> None:
        """Remove the states of a run that ended well."""
        if self._written or self._from is not None:
            self.states.forget(self.states.of(self._identity()))

    def find(self, pipeline: ResolvedPipeline) -> tuple[Found | None, str]:
        """Look for the state that has come furthest along the steps of a pipeline.

        Returns:
            The state, None if there is none; and a sentence that says which, or why not.
        """
        try:
            parts = self._identity()
        except OnnxPassesError as error:
            return None, f"nothing is resumed: {error.message}"
        reason: str | None = None
        for path in self.states.of(parts):
            try:
                state = self.states.read(path)
                why = self._rehearse(state, pipeline)
                model = points.read(state, self.original, self.states) if why is None else None
            except OnnxPassesError as error:
                why, model = f"a saved state is not used: {error.message}", None
            if model is None:
                reason = reason or why
                continue
            touch(path)
            self._from = path
            journal = Journal.of(state.events, self._sources.of, rehearsal=False)
            found = Found(model, state, journal)
            return found, f"resumed {found.words}"
        return None, f"nothing is resumed: {reason or self._nearest(parts)}"

    def _rehearse(self, state: State, pipeline: ResolvedPipeline) -> str | None:
        """Walk through what a state notes, and say where these steps are others."""
        journal = Journal.of(state.events, self._sources.of, rehearsal=True)
        report = RunReport("", None, "", True)
        manager = PassManager(
            self.original.model,
            self.original,
            self.config,
            report,
            progress=Progress(journal, state.passes),
        )
        why = "the pipeline ends before it"
        try:
            manager.run(pipeline.steps)
        except EndReached:
            return None
        except Stopped:
            why = "a group comes to its limit before it"
        except DivergedError as other:
            return f"{_ordinal(state, other.position)}: {other.reason}"
        return None if not journal.replaying else why

    def _nearest(self, parts: dict[str, str]) -> str:
        """Say what differs from the last run of the same model."""
        for path in self.states.others():
            with suppress(OnnxPassesError):
                state = self.states.read(path)
                if state.model == self.report.model and state.parts != parts:
                    differs = difference(parts, state.parts)
                    return f"since the run of {state.written}, {differs} changed"
        return "there is no saved state of this model"

    def _identity(self) -> dict[str, str]:
        if self._parts is None:
            self._parts = identify(
                self.original,
                self.config,
                self.report,
                self.samples,
                self.labels,
                self._said,
                self._sources,
            )
        return self._parts

    def _write(self) -> None:
        if self._latest is None or self._off is not None or self._latest[0] is self._last:
            return
        point, manager = self._latest
        try:
            with self.states.writing():
                state = points.write(
                    point, manager, self._identity(), self.original, self._sources, self.states
                )
                self._written.append(self.states.save(state))
        except OSError as error:
            self._fail(f"{error.strerror or error} in {self.settings.folder}")
            return
        except OnnxPassesError as error:
            self._fail(error.message)
            return
        self._last, self._kept = point, _words(state)
        if len(self._written) > KEPT:
            # Every other one goes, so that those left lie ever further apart.
            gone = self._written[:-2:2]
            self._written = [path for path in self._written if path not in gone]
            self.states.forget(gone)
        self.states.prune(keep=self._written)

    def _fail(self, why: str) -> None:
        self._off = why
        self.report.notes.append(f"the state of the run could not be kept: {why}")


def _words(state: State) -> str:
    count = len(state.passes)
    planned = state.planned
    of = f" of {planned}" if planned is not None and planned >= count else ""
    return f"after pass {count}{of} (verified {state.written})"


def _ordinal(state: State, position: int) -> str:
    before = sum(1 for event in state.events[:position] if event.kind != "round")
    return f"from pass {before + 1} on it is another run"
