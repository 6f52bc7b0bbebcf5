"""How far the pass manager has come: it notes its steps, and is led through those noted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onnx_passes.config.resolve import CheckpointStep, PassStep
from onnx_passes.passes.base import Analysis
from onnx_passes.pipeline.drifting import Kept
from onnx_passes.pipeline.journal import DivergedError, Event, Journal, Kind
from onnx_passes.report.model import PassReport
from onnx_passes.verify.result import Verdict
from onnx_passes.verify.snapshot import Change

if TYPE_CHECKING:
    from onnx_passes.pipeline.manager import PassManager

Step = PassStep | CheckpointStep


@dataclass
class Progress:
    """What was done, and what of it is not to be done again.

    Attributes:
        journal: The events.
        earlier: The reports of the passes that are replayed.
        accepted: Called after each step whose model may be gone on from.
        composing: How many composed passes are at work, whose model before is needed at the
            end: there is no going on in the midst of one.
        analysts: The steps whose passes stored the results of analyses, by name.
        results: Results of analyses that are plain data, from an earlier run.
        trusted: Whether each change so far passed its checks or was undone.
    """

    journal: Journal = field(default_factory=Journal)
    earlier: Sequence[PassReport] = ()
    accepted: Callable[[PassManager], None] | None = None
    composing: int = 0
    analysts: dict[str, PassStep] = field(default_factory=dict)
    results: Mapping[str, Any] = field(default_factory=dict)
    trusted: bool = True
    _skipped: int = 0

    def round(self, manager: PassManager, name: str, path: str) -> str:
        """Return the model's hash, which decides whether a group goes on."""
        event = self.journal.next("round", name, path)
        if event is None:
            event = Event("round", name, path, hash=manager.snapshot.hash)
            self.journal.note(event)
        else:
            self._end_of_replay(manager)
        return event.hash or ""

    def replay(self, manager: PassManager, kind: Kind, step: Step, group: str) -> Event | None:
        """Do what is known of a step that was done earlier; return None where it was not.

        Raises:
            DivergedError: Another step was noted, or the results of its analyses are lost.
        """
        cls = step.cls if isinstance(step, PassStep) else None
        text = step.text if isinstance(step, PassStep) else step.name
        event = self.journal.next(kind, text, group, cls, _policy(manager, step))
        if event is None:
            return None
        done = manager.report.passes
        done += self.earlier[len(done) : len(done) + 1]
        manager.valid = set(event.valid)
        if kind == "pass":
            manager.state["counter"] += 1
            manager.state["history"].append(cls)
        if isinstance(step, PassStep):
            self.analysts |= dict.fromkeys(event.stored, step)
            if kind == "pass" and event.kept:
                # Its rewrites are not recorded; a drift is traced to the pass as a whole.
                skip = manager.rewrites.skip
                manager.kept.append(Kept(step, len(done) - 1, 0, (), skip))
        self._end_of_replay(manager)
        return event

    def note(
        self,
        manager: PassManager,
        kind: Kind,
        step: Step,
        group: str,
        report: PassReport,
        kept: bool = False,
        stored: Iterable[str] = (),
    ) -> None:
        """Note a step that was done now."""
        names, skipped = tuple(stored), len(manager.rewrites.skip)
        failed = report.verdict is Verdict.FAILED or skipped > self._skipped
        self._skipped = skipped
        self.trusted &= report.action not in ("warned", "waived")
        event = Event(
            kind,
            step.text if isinstance(step, PassStep) else step.name,
            group,
            policy=_policy(manager, step) if failed else None,
            kept=kept,
            valid=tuple(sorted(manager.valid)),
            stored=names,
            cls=step.cls if isinstance(step, PassStep) else None,
        )
        if isinstance(step, PassStep):
            self.analysts |= dict.fromkeys(names, step)
        self.journal.note(event)
        if self.accepted is not None and self.trusted and not self.composing:
            self.accepted(manager)

    def _end_of_replay(self, manager: PassManager) -> None:
        if self.journal.replaying or self.journal.rehearsal:
            return
        self._skipped = len(manager.rewrites.skip)
        manager.context.analyses.update(self.results)
        for name, step in self.analysts.items():
            if name in manager.valid and name not in self.results:
                _analyse(manager, step, len(self.journal.events))


def analyst(manager: PassManager, name: str) -> PassStep | None:
    """Return the step that would give a stored result again; None if none would."""
    step = manager.progress.analysts.get(name)
    return step if step is not None and issubclass(step.cls, Analysis) else None


def _analyse(manager: PassManager, step: PassStep, position: int) -> None:
    """Get the result of an analysis back, which no file holds."""
    pass_ = step.make(manager.plain, manager.state)
    pass_.context = manager.context
    try:
        manager.model = pass_(manager.model).model
        same = manager.snapshot.change(manager.model) is Change.NONE
    except Exception as error:
        reason = f"the analysis {pass_.name} does not run again: {error}"
        raise DivergedError(position, reason) from error
    if not same:
        raise DivergedError(position, f"the analysis {pass_.name} changed the model")


def _policy(manager: PassManager, step: Step) -> str:
    config = manager.config
    own = step.on_failure if isinstance(step, PassStep) else None
    return f"{own or config.on_failure} {config.granularity} {config.limits.pass_seconds}"
