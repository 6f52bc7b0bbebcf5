"""What follows from the checks of a pass: its evidence, and the state that comes next."""

from __future__ import annotations

from dataclasses import replace

from onnx_passes.contracts import Metric
from onnx_passes.pipeline.state import Checked, State
from onnx_passes.pipeline.step import Step
from onnx_passes.pipeline.weighing import BY_STRUCTURE
from onnx_passes.verify.evidence import Evidence, Kind, vouches
from onnx_passes.verify.region import changed_region
from onnx_passes.verify.result import Check, Verdict
from onnx_passes.verify.snapshot import Change

ONLY_NAMES = "only names, order or metadata changed"
DEFAULTS_FIXED = "inputs that had defaults are weights of the same content"


def only_renamed(
    state: State, step: Step, checks: list[Check], what: str = ONLY_NAMES
) -> Checked:
    """Say that nothing changed that is computed, so that nothing has to be run.

    Args:
        state: What the pass is held against.
        step: The pass.
        checks: What it was asked so far.
        what: What changed.
    """
    region = changed_region(step.before, step.model)
    if region is None or region.nodes:
        state = state.without_recordings()  # values have other names
    reason = f"{what}: nothing was run"
    evidence = [Evidence(step.pass_.name, Kind.PROVED, step.numbers, reason=BY_STRUCTURE)]
    found = Check("equality", Verdict.PASSED, scope="structure", reason=reason)
    return Checked([*checks, found], evidence, state)


def conclude(
    state: State,
    step: Step,
    checks: list[Check],
    evidence: list[Evidence],
    change: Change,
    *,
    charged: bool,
) -> Checked:
    """Return what follows, with the state in which the model is the accepted one.

    Args:
        state: What the pass was held against.
        step: The pass.
        checks: All that was asked.
        evidence: What shows that the pass kept its promise.
        change: How the model changed.
        charged: Whether checks charge the budgets of errors.
    """
    if any(check.verdict is Verdict.FAILED for check in checks):
        return Checked(checks, evidence, state.distrusted(checks))
    spent = {check.engine: check.budget for check in checks}
    known = tuple(
        replace(k, budget=k.budget.charged(spent.get(b.engine.name, ()), moved=not charged))
        for b, k in state.pairs()
    )
    moves = change is Change.COMPUTATION
    if moves and not state.moved:
        state.baseline.begin("end")  # now the end is going to ask
    by_metric = any(isinstance(c, Metric) for c in step.pass_.contracts())
    measured = by_metric and any(check.metrics for check in checks)
    state = replace(
        state,
        known=known,
        moved=state.moved or moves,
        vouched=state.vouched and (not moves or (step.by_type and vouches(evidence))),
        at_origin=measured and not step.promises,
    )
    return Checked(checks, evidence, state)
