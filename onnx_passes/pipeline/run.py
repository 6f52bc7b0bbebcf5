"""A whole run: reference data, passes, and the last check of the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import onnx_ir as ir

from onnx_passes.configs.imports import search_path
from onnx_passes.configs.resolve import ResolvedPipeline, format_pipeline, resolve
from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.errors import ModelError, OnnxPassesError, VerificationError
from onnx_passes.model.save import changed_files, stamps_of
from onnx_passes.passes.context import Rewrites
from onnx_passes.pipeline.garbage_collection import only_new_objects, patient_collector
from onnx_passes.pipeline.manager import PassManager
from onnx_passes.pipeline.pass_execution import Dump, Instrument, SeedLogging
from onnx_passes.pipeline.policy import (
    list_preconditions,
    list_sizes,
    list_unverified,
    list_waivers,
    waive_result,
)
from onnx_passes.pipeline.run_state import Stopped, summarize
from onnx_passes.report.report_files import Laps
from onnx_passes.report.run_report import RunReport
from onnx_passes.report.summary import outcome
from onnx_passes.risky_runs import take_notes
from onnx_passes.runtime.environment import machine, versions
from onnx_passes.verify.evidence import ENGINE, Check, Verdict
from onnx_passes.verify.snapshot import Snapshot

if TYPE_CHECKING:
    from onnx_passes.pipeline.run_state import DataCheck
    from onnx_passes.verify.reference_data import ReferenceData


Unfinished: TypeAlias = Callable[[ir.Model, int], object]
"""Takes the last accepted model of a run that ends early, and the number of the next step."""


@dataclass
class PipelineRun:
    """What a run left; the policy lets the model out only if it is ``usable``.

    If the run failed, the model is the last one accepted. It is the original if nothing was
    checked, because no states between are kept then. ``error`` ended the run early, or made it
    fail.
    """

    model: ir.Model
    report: RunReport
    error: OnnxPassesError | None = None
    usable: bool = True

    def raise_for_failure(self) -> None:
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
    start_at: str | None = None,
    unfinished: Unfinished | None = None,
    laps: Laps | None = None,
) -> PipelineRun:
    """Run the passes of a pipeline over a model, each checked before the next one runs.

    Passes may change ``model`` in place. ``reference`` replaces what the pipeline names or
    generates. Steps before ``start_at``, a name or a number from 1, are left out.
    ``unfinished`` gets the last accepted model if a step does not end, by a failure or an
    interrupt. A failed check or pass does not raise: see ``PipelineRun.error``. A wrong
    pipeline, data that does not fit, or an original that does not run do. If nothing was
    checked, call ``report.settle()`` before the model changes.
    """
    laps = laps or Laps()
    pipeline = resolve(config)
    if start_at is not None:
        pipeline = pipeline.starting_at(start_at)
        told = f"steps before {pipeline.first} are left out: the result is held against {name}"
        notes = [*notes, told]
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
    with search_path(config.folder), patient_collector(), only_new_objects():
        run = _run(model, config, pipeline, report, watchers, reference, unfinished, laps)
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
    unfinished: Unfinished | None,
    laps: Laps,
) -> PipelineRun:
    original = Snapshot(model)
    report.before = summarize(original)
    gate = None
    whole = _whole_data(config, original)
    if whole is not None and reference is None and config.reference.inputs is None:
        reference = whole.first_samples()
    if config.verify.enabled:
        from onnx_passes.pipeline.gate import make_gate  # slow to import

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
        from onnx_passes.pipeline.objective import ProfitabilityFilter

        manager.paying = ProfitabilityFilter.of(
            config.objective,
            config,
            original.model,
            reference,
            None if gate is None else lambda: gate.baseline,
        )
    laps.end("preparing")
    error: OnnxPassesError | None = None
    stopped_at: OnnxPassesError | None = None
    try:
        manager.run(pipeline.steps)
    except Stopped as stopped:
        error = stopped.cause
        stopped_at = stopped.cause
        failed = next((p for p in report.passes if p.action == "stopped"), None)
        report.error = failed.error if failed is not None else None
        manager.snapshot = manager.recovered(original)
        manager.model = manager.snapshot.restore()
        _hand_over(manager, original, pipeline, unfinished)
    except BaseException:  # an interrupt
        _hand_over(manager, original, pipeline, unfinished)
        raise
    laps.end("passes")
    _divide(report)
    report.after = summarize(manager.snapshot)
    if gate is not None and error is None:
        from onnx_passes.pipeline.gate import drift_along_steps
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
            from onnx_passes.pipeline.failure import trace

            traced = trace(manager, report.final, "result", error.message)
            laps.end("cause")
            report.blame, report.reproducer = traced.blame, traced.folder
            report.notes += traced.notes
            if waive_result(config, report):
                error = None
        if error is None and changed and manager.whole is not None:
            error = _over_the_data(manager.whole, manager.model, report)
        if config.onnxruntime.full_context_dump:
            from onnx_passes.pipeline.recorder import dump_context

            folder = (config.folder or Path()) / config.dump_dir
            gate.baseline.ready("each")
            report.notes += dump_context(manager.model, gate.baseline, folder)
    if gate is not None:
        from onnx_passes.pipeline.gate import report_baseline

        report_baseline(report, gate, manager.model)
    report.not_verified = list_unverified(report, config)
    report.preconditions = list_preconditions(report, config)
    if gate is not None and not gate.baseline.given:
        models = original.model, manager.model
        report.preconditions += gate.baseline.assumptions
        report.preconditions += list_sizes(report, config, gate.baseline.samples, models)
    if gate is not None and any(p.changed for p in report.passes):
        report.not_verified += [
            f"output {name!r}: the original gives another result each time"
            for name in sorted(gate.baseline.unstable)
        ]
        report.not_verified += gate.baseline.unheard
    usable = error is None or (stopped_at is None and config.on_failure == "warn")
    if error is None and any(p.action == "warned" for p in report.passes):
        error = VerificationError("a check failed, and the policy is to go on")
    return PipelineRun(manager.model, report, error, usable)


def _hand_over(
    manager: PassManager,
    original: Snapshot,
    pipeline: ResolvedPipeline,
    unfinished: Unfinished | None,
) -> None:
    """Give away the last accepted model, if it was checked, and is not the original."""
    state = manager.recovered(original)
    if unfinished is None or manager.gate is None or state.is_alike(original):
        return
    unfinished(state.restore(), pipeline.first + manager.done)


def _divide(report: RunReport) -> None:
    """Count apart what passes and their checks took, and what came between them."""
    checks = sum(each.verify_seconds for each in report.passes)
    between = report.times["passes"] - checks - sum(p.pass_seconds for p in report.passes)
    report.move_time(checks, "passes", "checks")
    report.move_time(between, "passes", "between passes")


_OVER_DATA = "onnx_passes.data.whole_data"
"""The module that compares over whole data sets, which is above this room."""


def _whole_data(config: PipelineConfig, original: Snapshot) -> DataCheck | None:
    """Return what compares over the data set of a pipeline; None if it has none."""
    if config.reference.data is None or not config.verify.enabled:
        return None
    made: DataCheck = import_module(_OVER_DATA).WholeData(config, original.model)
    return made


def _over_the_data(
    whole: DataCheck, model: ir.Model, report: RunReport
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
