"""What the pass manager has done so far, so that it can be led to the same place again.

Which step comes next depends on the steps, on which passes changed the model, on which results
still hold, and on hashes at the ends of rounds. A journal notes these as they come. Led by it,
the manager passes through groups, rounds, requirements and followers without running anything,
and finds itself where the journal ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from onnx_passes.passes.base import Pass

Kind = Literal["pass", "whole", "checkpoint", "round"]


@dataclass
class Event:
    """Something that decides what comes next.

    Attributes:
        kind: A "pass"; the "whole" of a composed pass; a "checkpoint"; the end of a "round".
        step: The step as text; the group's name for a round.
        group: Path of the groups around it.
        source: Digest of the pass's source; None where there is none, or while it runs.
        policy: What was done about failures, where it failed; else None.
        kept: Whether the model was another one afterwards.
        valid: Names of the passes whose results held afterwards.
        stored: Names of the analyses whose results it stored.
        hash: Of the model, at the end of a round.
        cls: The class of the pass, while it runs.
    """

    kind: Kind
    step: str
    group: str
    source: str | None = None
    policy: str | None = None
    kept: bool = False
    valid: tuple[str, ...] = ()
    stored: tuple[str, ...] = ()
    hash: str | None = None
    cls: type[Pass] | None = field(default=None, compare=False)


class DivergedError(Exception):
    """The steps are not those that the journal notes."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(reason)
        self.position, self.reason = position, reason


class EndReached(Exception):  # noqa: N818 - control flow, not an error
    """A rehearsal has come to the end of what was noted."""


@dataclass
class Journal:
    """Events, noted or replayed.

    Attributes:
        events: All of them, in order.
        position: How many were replayed.
        noted: How many were there from the start.
        digest: Returns the digest of a pass's source; asked for replayed passes only.
        rehearsal: Whether to raise at the end of what was noted, in place of going on.
    """

    events: list[Event] = field(default_factory=list)
    position: int = 0
    noted: int = 0
    digest: Callable[[type[Pass]], str] | None = None
    rehearsal: bool = False

    @classmethod
    def of(
        cls, events: list[Event], digest: Callable[[type[Pass]], str], *, rehearsal: bool
    ) -> Journal:
        """Return a journal that will replay some events."""
        return cls(list(events), 0, len(events), digest, rehearsal)

    @property
    def replaying(self) -> bool:
        """Whether something is left to replay."""
        return self.position < self.noted

    def next(
        self,
        kind: Kind,
        step: str,
        group: str,
        cls: type[Pass] | None = None,
        policy: str | None = None,
    ) -> Event | None:
        """Return what was noted of the step that comes now; None where nothing was.

        Raises:
            DivergedError: Something else was noted.
            EndReached: This is a rehearsal, and nothing more was noted.
        """
        if not self.replaying:
            if self.rehearsal:
                raise EndReached
            return None
        event = self.events[self.position]
        if (event.kind, event.step, event.group) != (kind, step, group):
            raise DivergedError(self.position, f"the pipeline has {step!r} there")
        if cls is not None and self.digest is not None and event.source != self.digest(cls):
            raise DivergedError(self.position, f"the source of {cls.name} is another")
        if event.policy is not None and event.policy != policy:
            raise DivergedError(self.position, f"{step!r} failed under another policy")
        event.cls = cls
        self.position += 1
        return event

    def note(self, event: Event) -> None:
        """Add what happened now."""
        self.events.append(event)
