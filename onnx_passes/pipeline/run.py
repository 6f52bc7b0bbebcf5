"""A whole run: reference data, passes, saved states, and the last check of the result.

A run that ended early continues after its last saved state. A saved state is a folder with a
model and a record of its steps.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import cached_property
from hashlib import sha256
from importlib import import_module
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from onnx_passes.configs.imports import imported_files, search_path
from onnx_passes.configs.resolve import ResolvedPipeline, format_pipeline, resolve
from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.contracts import metrics
from onnx_passes.errors import ModelError, OnnxPassesError, VerificationError
from onnx_passes.model.load import load_model
from onnx_passes.model.save import changed_files, save_model, stamps_of
from onnx_passes.model.walk import all_graphs, meta, node_outputs
from onnx_passes.passes.context import Application, Rewrites
from onnx_passes.pipeline.garbage_collection import patient_collector
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
from onnx_passes.plain import PlainDict
from onnx_passes.report.json import from_json, to_json
from onnx_passes.report.report_files import Laps
from onnx_passes.report.run_report import RunReport
from onnx_passes.report.summary import outcome
from onnx_passes.risky_runs import take_notes
from onnx_passes.runtime.environment import machine, versions
from onnx_passes.verify.evidence import ENGINE, Check, Verdict
from onnx_passes.verify.snapshot import Snapshot, interface_of

if TYPE_CHECKING:
    from onnx_passes.pipeline.run_state import DataCheck
    from onnx_passes.verify.reference_data import ReferenceData


FOLDER = "states-2"
"""Where states are in a cache: the name of their layout."""

KEPT = 4
"""Number of states that are kept; the oldest are removed first."""

_TORN = ".tmp"


def save_state(folder: Path, model: ir.Model, state: PlainDict) -> Path:
    """Save a model with data that JSON can hold, and remove the oldest states.

    Raises ModelError or OSError if the model or the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(_TORN, dir=folder, ignore_cleanup_errors=True) as temporary:
        files = save_model(model, Path(temporary, "model.onnx"), external_data="inline")
        digests = {file.name: digest_file(file) for file in files}
        text = json.dumps({**state, "id": temporary, "files": digests}).encode()
        Path(temporary, "state.json").write_bytes(text)
        path = Path(temporary).rename(folder / hashlib.sha256(text).hexdigest())
    for old in (*list_states(folder)[KEPT:], *list_states(folder, _TORN)[KEPT:]):
        remove_state(old)
    return path


def list_states(folder: Path, suffix: str = "") -> list[Path]:
    """Return the states in a folder, the newest first.

    ``suffix`` is the ending of those that are listed; empty for complete ones.
    """
    found: list[tuple[float, Path]] = []
    with suppress(OSError):
        for path in folder.iterdir():
            with suppress(FileNotFoundError):  # another process has removed it
                found.append((path.stat().st_mtime, path))
    return [path for _, path in sorted(found, reverse=True) if path.suffix == suffix]


def read_state(path: Path) -> PlainDict:
    """Read the data of a state; raise ModelError if it is missing or damaged."""
    _check_digest(path / "state.json", path.name)
    state: PlainDict = json.loads((path / "state.json").read_bytes())
    return state


def read_model(path: Path, state: PlainDict) -> ir.Model:
    """Read the model of a state, which counts as new; raise ModelError if it is damaged."""
    for name, digest in state["files"].items():
        _check_digest(path / name, digest)
    os.utime(path)
    return load_model(path / "model.onnx").model


def remove_state(path: Path | None) -> None:
    """Remove a state, if there is one."""
    if path is not None:
        shutil.rmtree(path, ignore_errors=True)


def digest_file(path: Path) -> str:
    """Hash the content of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_digest(path: Path, digest: str) -> None:
    if digest_file(path) != digest:
        raise ModelError(f"{path} is damaged")


SHARE = 0.05
"""Share of a run's time that saving states as it goes may take."""
SPEED = 2e8
"""Bytes of weights per second at which the first state is expected to be saved."""

_MODULES = "the modules under imports"
# Steps are compared one by one. The rest decides only what a run leaves besides its result,
# or what becomes of passes that fail: a decision that was made stays.
_ASIDE = {"passes", "exhaustive", "imports", "cache", "dump_after", "dump_dir", "logging"}
_ASIDE |= {"reproducers", "save", "strict", "on_failure", "granularity", "limits"}
_EARLIER = Application(0, "of an earlier run", "", (), (), ())  # only their number counts


@dataclass
class Resume:
    """Saves the state of a run that ends early, and continues from one.

    ``files`` are absolute paths, the model itself first. With ``wanted`` the run continues
    from a saved state; ``hint`` says how, None if nothing is saved. ``began`` is the time
    before the files were read.
    """

    folder: Path
    files: Sequence[Path]
    wanted: bool = False
    began: float = field(default_factory=time.time)
    hint: str | None = None
    _done: int = 0
    _latest: tuple[Snapshot, PlainDict] | None = None
    _obstacle: str | None = None
    _failed: bool = False
    _source: Path | None = None
    _saved: Path | None = None

    def run(self, manager: PassManager, pipeline: ResolvedPipeline) -> None:
        """Run the steps of a pipeline, or those that a saved state leaves to do."""
        self._notes = manager.report.notes
        if manager.gate is not None:
            self._manager, self._gate, self._steps = manager, manager.gate, pipeline.steps
            self._texts = [format_pipeline(ResolvedPipeline((s,))) for s in pipeline.steps]
            self._interface = interface_of(manager.model)
            self._samples = list(manager.gate.baseline.samples)
            self._modules = imported_files(
                manager.config, [p.cls.__module__ for p in pipeline.passes]
            )
            self._since = time.monotonic()
            self._cost = 0.5 + manager.snapshot.weight_bytes / SPEED
            manager.after_step = self._accept
            if self.wanted:
                self._restore()
        elif self.wanted:
            self._notes.append("nothing is resumed: no state is saved without verification")
        manager.run(pipeline.steps[self._done :])

    def save(self) -> None:
        """Save the last accepted state, and note in the report how to go on from it."""
        self._write()
        if self._saved is not None:
            remove_state(self._source)
        told = [self.hint] if self.hint is not None else []
        if self._obstacle is not None:
            told.append(f"the state after step {self._done} is not saved: {self._obstacle}")
        if told:
            self._notes += [note for note in told if note not in self._notes]

    def remove(self) -> None:
        """Remove what was saved: the run has ended well, and its result is written."""
        remove_state(self._source)
        remove_state(self._saved)

    def _accept(self) -> None:
        """Note the place after a step; save it if that takes a small share of the time."""
        manager, report = self._manager, self._manager.report
        self._done += 1
        data = {
            "steps": self._texts[: self._done],
            "reports": len(report.passes),
            "shared": {k: v for k, v in manager.state.items() if k != "history"},
            "applied": len(manager.rewrites.applied),
            "skip": sorted(manager.rewrites.skip),
            "budget": self._gate.remember(),
        }
        plain = _copy_plain(data)
        self._obstacle = None
        if any(done.action in ("warned", "waived") for done in report.passes):
            self._obstacle = "a failed check was passed over"
        elif interface_of(manager.model) != self._interface:
            self._obstacle = "a pass has changed the inputs or outputs of the model"
        elif plain is None or _has_notes(manager.model):
            self._obstacle = "passes have left objects that no file holds"
        else:
            self._latest = (manager.snapshot, plain)
            if (time.monotonic() - self._since) * SHARE > self._cost:
                self._write()

    def _write(self) -> None:
        if self._latest is None or self._failed:
            return
        (snapshot, state), start = self._latest, time.monotonic()
        count, passes = len(state["steps"]), self._manager.report.passes[: state["reports"]]
        state["model"] = str(self.files[0])
        state["passes"] = to_json(RunReport("", None, "", True, passes=passes))
        state["written"] = datetime.now().astimezone().isoformat(timespec="seconds")
        try:
            state["parts"] = parts = dict(self._parts)
            if not self._runs_own_code(count):
                del parts[_MODULES]
            saved = save_state(self.folder, snapshot.model, state)
        except (OSError, OnnxPassesError) as error:
            self._failed = True
            self._notes.append(f"no state could be saved in {self.folder}: {_reason(error)}")
            return
        remove_state(self._saved)
        self._saved, self._latest, self._since = saved, None, time.monotonic()
        self._cost = self._since - start
        self.hint = f"--resume goes on {self._name(state)}"

    def _restore(self) -> None:
        """Go on from the newest state that fits, and note which, or why from none."""
        reason = None
        for path in list_states(self.folder):
            try:
                state = read_state(path)
                if state["model"] != str(self.files[0]):
                    continue
                why = self._compare(state)
                if why is None:
                    self._load(path, state)
                    return
            except (OSError, OnnxPassesError) as error:
                why = f"a saved state is not used: {_reason(error)}"
            reason = reason or why
        reason = reason or "no state of this model is saved"
        self._notes.append(f"nothing is resumed: {reason}")

    def _compare(self, state: PlainDict) -> str | None:
        """Return what differs from the run that has saved a state; None if it fits."""
        ours, theirs = self._parts, state["parts"]
        names = [name for name in {**theirs, **ours} if ours.get(name) != theirs.get(name)]
        names = [n for n in names if n in theirs or n != _MODULES]
        if self._texts[: len(state["steps"])] != state["steps"]:
            names.append("the steps")
        since = f"since the run of {state['written']}"
        return f"{since}, {' and '.join(names)} changed" if names else None

    def _load(self, path: Path, state: PlainDict) -> None:
        """Put the manager at the place of a state."""
        manager, report = self._manager, self._manager.report
        model, passes = read_model(path, state), from_json(state["passes"]).passes
        manager.model, manager.snapshot = model, Snapshot(model)
        manager.state.update(state["shared"])
        manager.rewrites.applied += [_EARLIER] * state["applied"]
        manager.rewrites.skip = frozenset(state["skip"])
        self._gate.recall(state["budget"])
        self._source, self._done = path, len(state["steps"])
        report.passes += [replace(done, resumed=True) for done in passes]
        report.resumed = self._name(state)
        report.notes.append(f"resumed {report.resumed}")
        self.hint = f"--resume goes on {report.resumed}"

    def _name(self, state: PlainDict) -> str:
        done, total = len(state["steps"]), len(self._steps)
        return f"after step {done} of {total} (verified {state['written']})"

    def _runs_own_code(self, steps: int) -> bool:
        """Return whether passes so far, metrics or engines are not of this package."""
        code: list[Any] = [p.cls for p in ResolvedPipeline(self._steps[:steps]).passes]
        code += [metrics.lookup(n).function for n in self._manager.config.verify.metrics]
        code += [type(bench.engine) for bench in self._gate.baseline.benches]
        return any(not one.__module__.startswith("onnx_passes.") for one in code)

    @cached_property
    def _parts(self) -> dict[str, str]:
        """A digest of each thing that two runs must agree in, besides their steps."""
        from onnx_passes.verify.runs.runner import digest_of  # slow to import

        for path in (*self.files, *self._modules):
            found = path.stat()
            if max(found.st_mtime, found.st_ctime) > self.began:
                raise ModelError(f"{path} has changed since the run began")
        config, plain = self._manager.config, self._manager.config.plain()
        data = [*self._samples, *(self._gate.labels or ())]
        return {
            "the model": _digest(map(digest_file, self.files)),
            "the reference data": _digest(map(digest_of, data)),
            **{key: _digest([repr(plain[key])]) for key in plain if key not in _ASIDE},
            "limits.rewrites": str(config.limits.rewrites),
            _MODULES: _digest(map(digest_file, self._modules)),
            "the versions of packages": repr(self._manager.report.versions),
        }


def _copy_plain(data: PlainDict) -> PlainDict | None:
    """Return a copy of data as JSON holds it; None if that is not the same."""
    try:
        copied: PlainDict = json.loads(json.dumps(data, allow_nan=False))
    except (TypeError, ValueError):
        return None
    return copied if copied == data else None


def _reason(error: OSError | OnnxPassesError) -> str:
    return error.message if isinstance(error, OnnxPassesError) else str(error)


def _has_notes(model: ir.Model) -> bool:
    """Return whether passes have noted something that is not written to files."""
    noted: list[Any] = [model]
    for graph in all_graphs(model):
        nodes = list(graph)
        noted += [graph, *nodes, *graph.inputs, *graph.initializers.values()]
        noted += chain.from_iterable(map(node_outputs, nodes))
    found = (store.data for store in map(meta, noted) if store is not None)
    return any(set(data) - {"quant_parameter_tensor_names"} for data in found if data)


def _digest(parts: Iterable[str]) -> str:
    return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


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
    resume: Resume | None = None,
    laps: Laps | None = None,
) -> PipelineRun:
    """Run the passes of a pipeline over a model, each checked before the next one runs.

    Passes may change ``model`` in place. ``reference`` replaces what the pipeline names or
    generates. The caller removes what ``resume`` saved once the result is written. A failed
    check or pass does not raise: see ``PipelineRun.error``. A wrong pipeline, data that does
    not fit, or an original that does not run do. If nothing was checked, call
    ``report.settle()`` before the model changes.
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

        gate.baseline.settle()
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
