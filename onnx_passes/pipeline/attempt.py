"""Run one pass again with fewer of its rewrites, and ask whether it still fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_passes.errors import OnnxPassesError
from onnx_passes.passes.base import Pass
from onnx_passes.passes.context import Application, PassContext, Rewrites, Witness
from onnx_passes.pipeline.execute import execute
from onnx_passes.verify.result import Check, Checks, Verdict
from onnx_passes.verify.snapshot import Change, Snapshot


class OutOfTime(Exception):  # noqa: N818 - control flow, not an error
    """The time for looking is over."""


@dataclass(frozen=True)
class Attempt:
    """What a pass makes with some of its rewrites.

    Attributes:
        model: The model.
        change: How it differs from the one before the pass.
        applied: The rewrites made.
        checks: The checks of it; none where nothing changed.
    """

    model: ir.Model
    change: Change
    applied: list[Application]
    checks: list[Check]

    @property
    def fails(self) -> bool:
        """Whether it fails its checks."""
        return Checks(tuple(self.checks)).verdict is Verdict.FAILED

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
        deadline: When to stop, on the clock of ``time.monotonic``.
        runs: Number of runs so far.
    """

    make: Callable[[], Pass]
    before: Snapshot
    context: PassContext
    first: int
    check: Callable[[ir.Model, Change], list[Check]]
    pass_seconds: float | None = None
    deadline: float = float("inf")
    runs: int = field(default=0, init=False)

    def apply(
        self,
        *,
        skip: frozenset[str] = frozenset(),
        only: frozenset[str] | None = None,
        count: int | None = None,
        expected: Sequence[str] | None = None,
        witness: Witness | None = None,
    ) -> tuple[ir.Model, list[Application]]:
        """Run the pass.

        Args:
            skip: Keys of rewrites to leave out, beside those that the run leaves out anyway.
            only: Keys of the rewrites to make; None for all.
            count: Number of rewrites to make; None for all.
            expected: Keys of the rewrites that it has to make; None for any.
            witness: Who looks on.

        Returns:
            The model, and the rewrites made.

        Raises:
            OnnxPassesError: The pass raised, or did not make the rewrites expected.
            OutOfTime: The deadline is over.
        """
        if time.monotonic() > self.deadline:
            raise OutOfTime
        self.runs += 1
        given = self.context.rewrites
        limit = given.limit if count is None else self.first + count
        pass_ = self.make()
        pass_.context = PassContext(
            Rewrites(
                limit, given.skip | skip, only, list(given.applied[: self.first]), witness
            ),
            dict(self.context.analyses),
            file_bytes=self.context.file_bytes,
        )
        model = execute(pass_, self.before.restore(), self.pass_seconds).model
        applied = pass_.context.rewrites.applied[self.first :]
        if expected is not None and [a.key for a in applied] != list(expected):
            raise OnnxPassesError("the pass does not repeat its rewrites")
        return model, applied

    def run(
        self,
        *,
        skip: frozenset[str] = frozenset(),
        only: frozenset[str] | None = None,
        count: int | None = None,
        expected: Sequence[str] | None = None,
    ) -> Attempt:
        """Run the pass as :meth:`apply` does, and check what it makes.

        Raises:
            OnnxPassesError: The pass raised, or did not make the rewrites expected.
            OutOfTime: The deadline is over.
        """
        model, applied = self.apply(skip=skip, only=only, count=count, expected=expected)
        change = self.before.change(model)
        checks = [] if change is Change.NONE else self.check(model, change)
        return Attempt(model, change, applied, checks)
