"""A whole run: reference data, baseline, passes, and the last look at the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import onnx_ir as ir

from onnx_passes.configs.imports import search_path
from onnx_passes.configs.resolve import ResolvedPipeline, format_pipeline, resolve
from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.errors import ModelError, OnnxPassesError, VerificationError
from onnx_passes.model.save import changed_files, stamps_of
from onnx_passes.passes.context import Rewrites
from onnx_passes.pipeline.collector import patient_collector
from onnx_passes.pipeline.instruments import Dump, Instrument, SeedLogging
from onnx_passes.pipeline.manager import PassManager
from onnx_passes.pipeline.report_entries import summarize
from onnx_passes.pipeline.resume import Resume
from onnx_passes.pipeline.run_state import Stopped
from onnx_passes.pipeline.unverified import list_preconditions, list_unverified
from onnx_passes.pipeline.waiving import list_waivers, waive_result
from onnx_passes.report.report_files import Laps
from onnx_passes.report.run_report import RunReport
from onnx_passes.report.summary import outcome
from onnx_passes.risky_runs import take_notes
from onnx_passes.runtime.environment import machine, versions
from onnx_passes.verify.result import ENGINE, Check, Verdict
from onnx_passes.verify.snapshot import Snapshot

if TYPE_CHECKING:
    from onnx_passes.pipeline.whole_data import WholeData
    from onnx_passes.verify.reference_data import ReferenceData


@dataclass
class PipelineRun:
    """What a run left.

    Attributes:
        model: The result; where the run failed, the last model that was accepted, or the
            original where nothing was checked, as no states between are kept then.
        report: What happened.
        error: What ended the run early, or made it fail; None where it did not.
        usable: Whether the model is one that the policy lets out.
    """

    model: ir.Model
    report: RunReport
    error: OnnxPassesError | None = None
    usable: bool = True

    def raise_for_failure(self) -> None:
        """Raise what made the run fail.

        Raises:
            OnnxPassesError: The run failed.
        """
        if self.error is not None:
            raise self.error


def run_pipeline(
    model: ir.Model,
    config: PipelineConfig,
    *,
    name: str = "model",
    reference: ReferenceData | None = None,
    instruments: Sequence[Instrument] = (),
    notes: Sequence[str] = (),
    resume: Resume | None = None,
    laps: Laps | None = None,
) -> PipelineRun:
    """Run the passes of a pipeline over a model, each checked before the next one runs.

    Args:
        model: The model; passes may change it in place.
        config: The pipeline.
        name: What the report calls the model.
        reference: Reference data, in place of what the pipeline names or generates.
        instruments: Who looks on.
        notes: Sentences for the report.
        resume: Saves the state if the run ends early, and continues from one; None for
            neither. The caller removes what was saved once the result is written.
        laps: The clock of the run, if it began earlier.

    Returns:
        The result. A failed check or pass does not raise: see ``PipelineRun.error``. If
        nothing was checked, call ``report.settle()`` before the model changes.

    Raises:
        ConfigError: The pipeline names something that does not exist.
        ReferenceDataError: The reference data does not fit the model.
        EngineError: An engine cannot run the original model.
    """
    laps = laps or Laps()
    pipeline = resolve(config)
    report = RunReport(
        model=name,
        output=None,
        pipeline=format_pipeline(pipeline),
        verify=config.verify.enabled,
        versions=versions(),
        machine=machine(),
        notes=list(notes),
        started=datetime.now().astimezone().isoformat(timespec="seconds"),
        planned=len(pipeline.passes),
        waivers=list_waivers(config, date.today()),
    )
    stamps, report.times = stamps_of(model), laps.times
    watchers = [*instruments, *_own_instruments(config)]
    with search_path(config.folder), patient_collector():
        run = _run(model, config, pipeline, report, watchers, reference, resume, laps)
    if changed := changed_files(stamps):
        run.usable = False  # the weights of the original are lost, and with them all evidence
        told = f"{', '.join(changed)} changed while the run read weights from it"
        run.error = run.error or ModelError(told, help="restore the file, and run again")
    report.notes += take_notes()
    report.seconds = laps.end("result")
    report.exit_code = _exit_code(run, strict=config.strict)
    if run.error is not None:
        report.error = report.error or f"{type(run.error).__name__}: {run.error}"
    for watcher in watchers:
        watcher.finish(report, run.model)
    return run


def _run(
    model: ir.Model,
    config: PipelineConfig,
    pipeline: ResolvedPipeline,
    report: RunReport,
    watchers: Sequence[Instrument],
    reference: ReferenceData | None,
    resume: Resume | None,
    laps: Laps,
) -> PipelineRun:
    original = Snapshot(model)
    report.before = summarize(original)
    gate = None
    whole = _whole_data(config, original)
    if whole is not None and reference is None and config.reference.inputs is None:
        reference = whole.first_samples()
    if config.verify.enabled:
        from onnx_passes.pipeline.checking import make_gate  # slow to import

        gate = make_gate(original, config, pipeline, report, reference)
    for watcher in watchers:
        watcher.start(report, model)
    rewrites = Rewrites(limit=config.limits.rewrites)
    manager = PassManager(model, original, config, report, gate, watchers, rewrites)
    manager.whole = whole
    if gate is None and (reference is not None or config.reference.inputs is not None):
        from onnx_passes.verify.reference_data import load_reference  # passes record on it

        spec, folder = config.reference.model_dump(), config.folder or Path()
        reference = reference or load_reference(spec, model, folder)
        manager.context.samples = reference.samples
    if config.objective is not None:
        from onnx_passes.pipeline.objective import Paying

        manager.paying = Paying.of(config.objective, config, original.model, gate, reference)
    laps.end("preparing")
    error: OnnxPassesError | None = None
    stopped_at: OnnxPassesError | None = None
    try:
        if resume is not None:
            resume.run(manager, pipeline)
        else:
            manager.run(pipeline.steps)
    except Stopped as stopped:
        error = stopped.cause
        stopped_at = stopped.cause
        failed = next((p for p in report.passes if p.action == "stopped"), None)
        report.error = failed.error if failed is not None else None
        manager.snapshot = manager.recovered(original)
        manager.model = manager.snapshot.restore()
    laps.end("passes")
    _divide(report)
    report.after = summarize(manager.snapshot)
    if gate is not None and error is None:
        from onnx_passes.pipeline.stepping import drift_along_steps
        from onnx_passes.runtime.engine_models import forget_split, keep_split

        changed = not manager.snapshot.is_alike(original)
        moments = ("each", "checkpoint", "end") if changed else ()
        keep_split(manager.model)  # it is written for all engines once
        report.final = gate.against_original(manager.model, moments)
        forget_split(manager.model)
        report.final += gate.levels.at_end(manager.model, changed=changed)
        report.final += gate.levels.by_region(gate.state.changes, "checkpoint", "end")[0]
        report.final += drift_along_steps(gate, manager.model, config.reference)
        failures = [c for c in report.final if c.verdict is Verdict.FAILED]
        if failures:
            engines = all(c.kind == ENGINE for c in failures)
            told = "" if engines else "the result is too far from the original: "
            error = VerificationError(f"{told}{_say(failures)}")
            laps.end("result")
            traced = manager.trace(report.final, "result", error.message)
            laps.end("cause")
            report.blame, report.reproducer = traced.blame, traced.folder
            report.notes += traced.notes
            if waive_result(config, report):
                error = None
        if error is None and changed and manager.whole is not None:
            error = _over_the_data(manager.whole, manager.model, report)
        if config.onnxruntime.full_context_dump:
            from onnx_passes.pipeline.context_dump import dump_context

            folder = (config.folder or Path()) / config.dump_dir
            gate.baseline.ready("each")
            report.notes += dump_context(manager.model, gate.baseline, folder)
    if gate is not None:
        from onnx_passes.pipeline.checking import report_baseline

        gate.baseline.settle()
        report_baseline(report, gate, manager.model)
    report.not_verified = list_unverified(report, config)
    report.preconditions = list_preconditions(report, config)
    if gate is not None and any(p.changed for p in report.passes):
        report.not_verified += [
            f"output {name!r}: the original gives another result each time"
            for name in sorted(gate.baseline.unstable)
        ]
        report.not_verified += gate.baseline.unheard
    usable = error is None or (stopped_at is None and config.on_failure == "warn")
    if error is None and any(p.action == "warned" for p in report.passes):
        error = VerificationError("a check failed, and the policy is to go on")
    if error is not None and resume is not None:
        resume.save()
    return PipelineRun(manager.model, report, error, usable)


def _divide(report: RunReport) -> None:
    """Count apart what passes and their checks took, and what came between them."""
    passes = [each for each in report.passes if not each.resumed]
    checks = sum(each.verify_seconds for each in passes)
    between = report.times["passes"] - checks - sum(each.pass_seconds for each in passes)
    report.move_time(checks, "passes", "checks")
    report.move_time(between, "passes", "between passes")


def _whole_data(config: PipelineConfig, original: Snapshot) -> WholeData | None:
    """Return what compares over the data set of a pipeline; None if it has none."""
    if config.reference.data is None or not config.verify.enabled:
        return None
    # Few pipelines have one: the others do not wait until it is imported.
    from onnx_passes.pipeline.whole_data import WholeData

    return WholeData(config, original.model)


def _over_the_data(
    whole: WholeData, model: ir.Model, report: RunReport
) -> VerificationError | None:
    """Compare the result over the whole data set; return what makes the run fail."""
    found = whole.check(model, ("each", "checkpoint", "end"), report.final)
    report.final += found
    failures = [check for check in found if check.verdict is Verdict.FAILED]
    if not failures:
        return None
    report.reproducer = report.reproducer or whole.reproducer
    return VerificationError(_say(failures))


def _own_instruments(config: PipelineConfig) -> list[Instrument]:
    folder = config.folder or Path()
    found: list[Instrument] = []
    which = config.dump_after
    if which != "none":
        dumped = which if isinstance(which, str) else list(which)
        found.append(Dump(dumped, folder / config.dump_dir))
    logging = config.logging
    if logging.checkpoint or logging.keep_intermediates:
        found.append(SeedLogging(logging.checkpoint, logging.keep_intermediates, folder))
    return found


def _say(checks: Sequence[Check]) -> str:
    return "; ".join(
        str(c.reason) if c.kind == ENGINE else f"{c.reason} on {c.engine}" for c in checks
    )


def _exit_code(run: PipelineRun, *, strict: bool) -> int:
    if run.error is not None:
        return run.error.exit_code
    report = run.report
    doubts = {*report.not_verified, *report.preconditions} - set(report.waived)
    nothing = report.verify and outcome(report).head == "NOT VERIFIED"
    return 4 if doubts and (strict or nothing) else 0
