"""Run a pipeline of one planted pass, right and wrong, and say what the gate made of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from benchmarks.faults.case import EVERYWHERE, Fault, Setting, Source
from onnx_passes.configs.pipeline_files import config_from_data
from onnx_passes.contracts import Metric
from onnx_passes.passes import registry
from onnx_passes.passes.base import Pass
from onnx_passes.pipeline.run import PipelineRun, run_pipeline
from onnx_passes.report.run_report import PassReport
from onnx_passes.verify.evidence import Check, Verdict
from onnx_passes.verify.reference_data import ReferenceData

SETTINGS: dict[Setting, dict[str, Any]] = {
    "default": {},
    "adversarial": {"verify": {"inputs": "adversarial"}},
    "given": {},
    "float64": {"verify": {"reference": "float64", "growth": 1.35}},
    "strict": {"strict": True},
}
"""How the gate is set; "given" runs on the inputs of the fault, as from a user's files."""

_FINE = (Verdict.PASSED, Verdict.UNCHANGED, Verdict.NOT_VERIFIED)


@dataclass(frozen=True)
class Seen:
    """What the gate made of a wrong pass under one setting.

    Attributes:
        verdict: Its verdict. "crashed" if the run ended in another error. "refused" if nothing
            could be checked and the setting refuses what is not verified.
        by: The check that failed first, or what it said where none did.
        named: Whether the culprit was named: "right", "wrong", "none", or "-" where
            the pass made no rewrites that could be.
        seconds: Wall time of the run.
        reason: What was reported.
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
        clean: Verdicts of the pass without the fault, by setting.
        clean_applications: Number of its rewrites, all of them right.
        clean_seconds: Wall time of that run, verified.
        seen: What the gate made of the fault, by setting.
    """

    fault: Fault
    at: str
    applications: int
    clean: dict[str, str]
    clean_applications: int
    clean_seconds: float
    seen: dict[str, Seen] = field(default_factory=dict)

    @property
    def setting(self) -> str:
        """The first setting that caught the fault, or the last one tried."""
        return next((s for s, seen in self.seen.items() if seen.caught), list(self.seen)[-1])

    @property
    def decisive(self) -> Seen:
        """What that setting made of the fault."""
        return self.seen[self.setting]

    @property
    def accused(self) -> list[str]:
        """The settings under which the pass without the fault was refused, and why."""
        return [f"{s}: {v}" for s, v in self.clean.items() if v not in _FINE]


def run(fault: Fault, at: str, *, full: bool, setting: Setting = "default") -> PipelineRun:
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
    if setting == "given":
        given = ReferenceData(list(fault.feeds), None, "the inputs of the fault")
    model = fault.source.model(full=full)
    with fault.planted(at):
        return run_pipeline(model, config_from_data(data), reference=given)


def chosen(fault: Fault, clean: PipelineRun) -> str:
    """Return the value that the fault computes wrongly, given a run without it."""
    if isinstance(fault.place, str):
        return fault.place
    rewrites = clean.report.passes[0].rewrites
    assert rewrites, f"{fault.name} matches nowhere in {fault.source.name}"
    return rewrites[round(fault.place * (len(rewrites) - 1))].replaced[0][0]


def examine(fault: Fault, *, full: bool) -> Outcome:
    """Run a fault by default settings, under that which it needs, and on its own inputs."""
    clean = run(fault, "", full=full)
    done = clean.report.passes[0]
    at, count = chosen(fault, clean), len(done.rewrites)
    outcome = Outcome(fault, at, 0, {"default": _said(clean)}, count, clean.report.seconds)
    given = ("given",) if fault.feeds else ()
    for setting in dict.fromkeys(("default", fault.needs, *given)):
        result = run(fault, at, full=full, setting=setting)
        outcome.seen[setting] = judge(result, fault, at)
        outcome.applications = len(result.report.passes[0].rewrites)
        if setting != "default":
            outcome.clean[setting] = _said(run(fault, "", full=full, setting=setting))
    return outcome


def _said(clean: PipelineRun) -> str:
    if clean.error is not None:
        return f"failed: {clean.error}"
    return str(clean.report.passes[0].verdict)


def judge(result: PipelineRun, fault: Fault, at: str) -> Seen:
    """Read from a run whether the fault was caught, by what, and whom it named."""
    report = result.report
    done = report.passes[0]
    failed = [c for c in (*done.checks, *report.final) if c.verdict is Verdict.FAILED]
    # What the end of the run fails is not a failure of one pass, and traced on its own.
    traced = {blame.number for blame in report.blame if blame.step == done.index}
    named = _named(done, at, {*done.culprits, *traced})
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


def _named(done: PassReport, at: str, numbers: set[int | None]) -> str:
    if not done.rewrites:
        return "-"
    names = {r.replaced[0][0] for r in done.rewrites if r.number in numbers}
    if not names:
        return "none"
    return "right" if at == EVERYWHERE or names <= set(at.split(",")) else "wrong"


METRIC = 0.5
"""Largest root mean square error that a pass with a metric may cause."""


@dataclass(frozen=True)
class Kept:
    """A correct pass, and what the gate made of it.

    Attributes:
        name: Name of the pass.
        model: Name of the model.
        contract: What it promises.
        applications: Number of rewrites.
        accused: Number of rewrites that the gate named or, where it named none, refused.
        verdict: Its verdict, and why.
    """

    name: str
    model: str
    contract: str
    applications: int
    accused: int
    verdict: str


def keep(cls: type[Pass], source: Source, *, full: bool) -> Kept:
    """Run a correct pass, verified.

    A pass with a metric is held to the root mean square error, which it keeps.
    """
    registry.register()(cls)
    data: dict[str, Any] = {"passes": [cls.name], "reproducers": False}
    if any(isinstance(contract, Metric) for contract in cls.contracts()):
        data["verify"] = {"metrics": {"rmse": [0, METRIC]}}
    config = config_from_data(data)
    run = run_pipeline(source.model(full=full), config)
    done = run.report.passes[0]
    refused = run.error is not None or done.verdict is Verdict.FAILED
    accused = max(1, len(done.culprits)) if refused else 0
    verdict = f"{done.verdict}: {run.error}" if refused else str(done.verdict)
    count = len(done.rewrites)
    return Kept(cls.name, source.name, done.contract, count, accused, verdict)
