"""Run a pipeline of one planted pass, right and wrong, and say what the gate made of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from benchmarks.faults.case import EVERYWHERE, Fault, Setting
from onnx_passes.config.load import config_from_data
from onnx_passes.passes import registry
from onnx_passes.pipeline.run import Run, run_pipeline
from onnx_passes.report.model import PassReport
from onnx_passes.verify.reference import Reference
from onnx_passes.verify.result import Check, Verdict

SETTINGS: dict[Setting, dict[str, Any]] = {
    "default": {},
    "adversarial": {"verify": {}},
    "float64": {"verify": {}},
    "strict": {"strict": True},
}


@dataclass(frozen=True)
class Seen:
    """What the gate made of a wrong pass under one setting.

    Attributes:
        verdict: Its verdict, "crashed" where the run ended in another error, "refused" where
            nothing could be checked and the setting refuses what is not verified.
        by: The check that failed first, or what it said where none did.
        named: Whether the guilty application was named: "right", "wrong", "none", or "-" where
            the pass made no rewrites that could be.
        seconds: Wall time of the run.
        reason: What was told.
    """

    verdict: str
    by: str
    named: str
    seconds: float
    reason: str = ""

    @property
    def caught(self) -> bool:
        """Whether the fault was refused by a check."""
        return self.verdict in (Verdict.FAILED, "refused")


@dataclass
class Outcome:
    """A fault under each setting that it was run with.

    Attributes:
        fault: The fault.
        at: The value that it computes wrongly.
        applications: Number of rewrites of the pass.
        clean: Verdict of the pass without the fault.
        clean_applications: Number of its rewrites, all of them right.
        clean_seconds: Wall time of that run, verified.
        seen: What the gate made of the fault, by setting.
    """

    fault: Fault
    at: str
    applications: int
    clean: str
    clean_applications: int
    clean_seconds: float
    seen: dict[str, Seen] = field(default_factory=dict)

    @property
    def decisive(self) -> Seen:
        """What the setting that the fault needs makes of it."""
        return self.seen[self.fault.needs]


def run(fault: Fault, at: str, *, full: bool, setting: Setting = "default") -> Run:
    """Run the pass of a fault, verified, on its model.

    Args:
        fault: The fault.
        at: Where the pass is wrong; "" for nowhere.
        full: Whether on the full model or the small one.
        setting: How the gate is set.
    """
    registry.register()(fault.cls)
    step = {fault.name: {"at": at}}
    data = {"passes": [step], "reproducers": False, **SETTINGS[setting]}
    given = None
    if setting == "adversarial":
        given = Reference(list(fault.feeds), None, "special values")
    model = fault.source.model(full=full)
    return run_pipeline(model, config_from_data(data), reference=given)


def chosen(fault: Fault, clean: Run) -> str:
    """Return the value that the fault computes wrongly, given a run without it."""
    if isinstance(fault.place, str):
        return fault.place
    rewrites = clean.report.passes[0].rewrites
    assert rewrites, f"{fault.name} matches nowhere in {fault.source.name}"
    return rewrites[round(fault.place * (len(rewrites) - 1))].replaced[0][0]


def examine(fault: Fault, *, full: bool) -> Outcome:
    """Run a fault under the default setting, and under that which it needs."""
    clean = run(fault, "", full=full)
    at = chosen(fault, clean)
    done = clean.report.passes[0]
    verdict = str(done.verdict) if clean.error is None else f"failed: {clean.error}"
    outcome = Outcome(fault, at, 0, verdict, len(done.rewrites), clean.report.seconds)
    for setting in dict.fromkeys(("default", fault.needs)):
        result = run(fault, at, full=full, setting=setting)
        outcome.seen[setting] = judge(result, fault, at)
        outcome.applications = len(result.report.passes[0].rewrites)
    return outcome


def judge(result: Run, fault: Fault, at: str) -> Seen:
    """Read from a run whether the fault was caught, by what, and whom it named."""
    report = result.report
    done = report.passes[0]
    failed = [c for c in (*done.checks, *report.final) if c.verdict is Verdict.FAILED]
    named = _named(done, at)
    if failed:
        reason = str(failed[0].reason)
        return Seen("failed", _describe(failed[0]), named, report.seconds, reason)
    if result.error is not None:
        return Seen("crashed", str(result.error), named, report.seconds)
    if report.exit_code:
        return Seen("refused", "not verified", named, report.seconds)
    return Seen(str(done.verdict), "-", named, report.seconds)


def _describe(check: Check) -> str:
    return check.kind if check.engine is None else f"{check.kind}, {check.scope}"


def _named(done: PassReport, at: str) -> str:
    if not done.rewrites:
        return "-"
    names = {
        rewrite.replaced[0][0] for rewrite in done.rewrites if rewrite.number in done.culprits
    }
    if not names:
        return "none"
    return "right" if at == EVERYWHERE or names <= set(at.split(",")) else "wrong"
