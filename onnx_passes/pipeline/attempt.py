"""Run one pass again with fewer of its rewrites, and ask whether it still fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import onnx_ir as ir

from onnx_passes.errors import OnnxPassesError
from onnx_passes.passes.base import Pass
from onnx_passes.passes.context import Application, PassContext, Rewrites, Witness
from onnx_passes.pipeline.execute import execute
from onnx_passes.pipeline.state import Checked
from onnx_passes.verify.result import Check, Checks, Verdict
from onnx_passes.verify.snapshot import Change, Snapshot

LEAST_RUNS = 32
"""Runs that a search for culprits may take in any case, else as many as passes ran before."""


class SearchEnded(Exception):  # noqa: N818 - control flow, not an error
    """The runs or the time for looking are spent."""


@dataclass
class Attempt:
    """What a pass makes with some of its rewrites; it is checked once that is asked for.

    Attributes:
        attempts: What ran the pass.
        model: The model.
        applied: The rewrites made.
    """

    attempts: Attempts
    model: ir.Model
    applied: list[Application]

    @cached_property
    def change(self) -> Change:
        """How the model differs from the one before the pass."""
        return self.attempts.before.change(self.model)

    @cached_property
    def checked(self) -> Checked:
        """What the gate says of the model."""
        return self.attempts.check(self.model, self.change, self.applied)

    @property
    def checks(self) -> list[Check]:
        """The checks of the model; none where nothing changed."""
        return self.checked.checks

    @property
    def fails(self) -> bool:
        """Whether it fails its checks, or the one that the search is about."""
        if self.attempts.ask is not None and "checked" not in vars(self):
            return self._fails_alone
        return Checks(tuple(self.checks)).verdict is Verdict.FAILED

    @cached_property
    def _fails_alone(self) -> bool:
        assert self.attempts.ask is not None
        return Checks(tuple(self.attempts.ask(self.model))).verdict is Verdict.FAILED

    @property
    def keys(self) -> list[str]:
        """Keys of the rewrites made."""
        return [application.key for application in self.applied]


@dataclass
class Attempts:
    """Runs a pass again and again, each time from the same model.

    Attributes:
        make: Creates the pass anew.
        before: The model before the pass.
        context: What the pass shares with the pipeline; it is not changed.
        first: Position in the record of rewrites at which the pass began.
        check: Checks a model as the pass was checked.
        pass_seconds: Time limit of one run.
        runs: How many more runs there may be; infinity for any number.
        deadline: When to stop, on the clock of ``time.monotonic``.
        ask: Puts to a model only the question that failed, where all others take far longer;
            None for those of ``check``.
    """

    make: Callable[[], Pass]
    before: Snapshot
    context: PassContext
    first: int
    check: Callable[[ir.Model, Change, Sequence[Application]], Checked]
    pass_seconds: float | None = None
    runs: float = float("inf")
    deadline: float = float("inf")
    ask: Callable[[ir.Model], list[Check]] | None = None

    def apply(
        self,
        *,
        skip: frozenset[str] = frozenset(),
        only: frozenset[str] | None = None,
        count: int | None = None,
        expected: Sequence[str] | None = None,
        witness: Witness | None = None,
    ) -> Attempt:
        """Run the pass.

        Args:
            skip: Keys of rewrites to leave out, beside those that the run leaves out anyway.
            only: Keys of the rewrites to make; None for all.
            count: Number of rewrites to make; None for all.
            expected: Keys of the rewrites that it has to make; None for any.
            witness: Who looks on.

        Raises:
            OnnxPassesError: The pass raised, or did not make the rewrites expected.
            SearchEnded: No run is left, or the deadline is over.
        """
        if time.monotonic() > self.deadline:
            raise SearchEnded("the time for localising was over")
        if self.runs <= 0:
            raise SearchEnded("localising took as many runs as the pipeline before")
        self.runs -= 1
        given = self.context.rewrites
        limit = given.limit if count is None else self.first + count
        pass_ = self.make()
        pass_.context = PassContext(
            Rewrites(
                limit, given.skip | skip, only, list(given.applied[: self.first]), witness
            ),
            dict(self.context.analyses),
            file_bytes=self.context.file_bytes,
            samples=self.context.samples,
            made_up=self.context.made_up,
        )
        model = execute(pass_, self.before.restore(), self.pass_seconds).model
        made = Attempt(self, model, pass_.context.rewrites.applied[self.first :])
        if expected is not None and made.keys != list(expected):
            raise OnnxPassesError("the pass does not repeat its rewrites")
        return made

    def known(
        self, model: ir.Model, applied: list[Application], change: Change, checked: Checked
    ) -> Attempt:
        """Return a run of the pass that was checked before.

        Args:
            model: The model that the pass made.
            applied: The applications that it made.
            change: What changed.
            checked: What the checks found.
        """
        made = Attempt(self, model, applied)
        made.change, made.checked = change, checked
        return made
