"""Leave out the rewrites that are wrong, and keep the rest of a pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir

from onnx_passes.errors import OnnxPassesError
from onnx_passes.passes.context import Application, Rewrites
from onnx_passes.verify.result import Check, Checks, Verdict
from onnx_passes.verify.snapshot import Change, Snapshot

MOST_UNDONE = 32
"""Number of wrong rewrites of one pass after which the whole pass is undone."""


@dataclass(frozen=True)
class Rest:
    """What is left of a pass without its wrong rewrites.

    Attributes:
        model: The model.
        change: How it differs from the one before the pass.
        checks: The checks that it passed.
        undone: The rewrites left out.
    """

    model: ir.Model
    change: Change
    checks: list[Check]
    undone: list[Application]


def undo_culprits(
    before: Snapshot,
    rewrites: Rewrites,
    first: int,
    culprit: Application,
    run: Callable[[], ir.Model],
    check: Callable[[ir.Model, Change], list[Check]],
    find: Callable[[Sequence[Application], frozenset[str]], Application | None],
) -> Rest | None:
    """Run a pass again without a wrong rewrite, until what is left passes its checks.

    Args:
        before: The model before the pass.
        rewrites: The record of the run. Where something is left of the pass, its rewrites
            are recorded in place of those that failed, and those left out are never made
            again; else it stays as it is.
        first: Position in the record at which the pass began.
        culprit: The first wrong rewrite.
        run: Runs the pass on the model before it, with that record.
        check: Checks a model as the pass was checked.
        find: Names the next wrong rewrite, given those applied and the keys left out.

    Returns:
        What is left; None where that is nothing, or no culprit is known any more.
    """
    applied, skip = rewrites.applied[first:], rewrites.skip
    numbers = {a.key: a.number for a in applied}
    undone: list[Application] = []
    found: Application | None = culprit
    while found is not None and len(undone) < MOST_UNDONE:
        # Each rerun numbers anew; the numbers told are those of the failure.
        undone.append(replace(found, number=numbers.get(found.key, found.number)))
        rewrites.skip |= {found.key}
        del rewrites.applied[first:]
        try:
            model = run()
            change = before.change(model)
        except OnnxPassesError:
            break
        if change is Change.NONE:
            break
        checks = check(model, change)
        if Checks(tuple(checks)).verdict is not Verdict.FAILED:
            return Rest(model, change, checks, undone)
        found = find(rewrites.applied[first:], rewrites.skip)
    rewrites.applied[first:], rewrites.skip = applied, skip
    return None
