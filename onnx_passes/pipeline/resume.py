"""``--resume``: a run that ended early continues after its last accepted step at top level."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

import onnx_ir as ir

from onnx_passes.configs.imports import imported_files
from onnx_passes.configs.resolve import ResolvedPipeline, format_pipeline
from onnx_passes.contracts import metrics
from onnx_passes.errors import ModelError, OnnxPassesError
from onnx_passes.model.walk import all_graphs, meta, node_outputs
from onnx_passes.passes.context import Application
from onnx_passes.pipeline import states
from onnx_passes.pipeline.manager import PassManager
from onnx_passes.plain import PlainDict
from onnx_passes.report.json import from_json, to_json
from onnx_passes.report.run_report import RunReport
from onnx_passes.verify.interface_check import interface_of
from onnx_passes.verify.snapshot import Snapshot

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

    Attributes:
        folder: Where states are saved.
        files: The files of the model, the model itself first; absolute paths.
        wanted: Whether to go on from a saved state.
        began: Time before the files were read.
        hint: How to go on from what is saved; None if nothing is.
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
        """Run the steps of a pipeline, or those that a saved state leaves to do.

        Args:
            manager: Runs the steps.
            pipeline: The steps.

        Raises:
            Stopped: A pass failed, and the policy is to stop.
        """
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
            states.remove_state(self._source)
        told = [self.hint] if self.hint is not None else []
        if self._obstacle is not None:
            told.append(f"the state after step {self._done} is not saved: {self._obstacle}")
        if told:
            self._notes += [note for note in told if note not in self._notes]

    def remove(self) -> None:
        """Remove what was saved: the run has ended well, and its result is written."""
        states.remove_state(self._source)
        states.remove_state(self._saved)

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
            saved = states.save_state(self.folder, snapshot.model, state)
        except (OSError, OnnxPassesError) as error:
            self._failed = True
            self._notes.append(f"no state could be saved in {self.folder}: {_reason(error)}")
            return
        states.remove_state(self._saved)
        self._saved, self._latest, self._since = saved, None, time.monotonic()
        self._cost = self._since - start
        self.hint = f"--resume goes on {self._name(state)}"

    def _restore(self) -> None:
        """Go on from the newest state that fits, and note which, or why from none."""
        reason = None
        for path in states.list_states(self.folder):
            try:
                state = states.read_state(path)
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
        model, passes = states.read_model(path, state), from_json(state["passes"]).passes
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
        from onnx_passes.verify.runs.inputs import digest_of  # slow to import

        for path in (*self.files, *self._modules):
            found = path.stat()
            if max(found.st_mtime, found.st_ctime) > self.began:
                raise ModelError(f"{path} has changed since the run began")
        config, plain = self._manager.config, self._manager.config.plain()
        data = [*self._samples, *(self._gate.labels or ())]
        return {
            "the model": _digest(map(states.digest_file, self.files)),
            "the reference data": _digest(map(digest_of, data)),
            **{key: _digest([repr(plain[key])]) for key in plain if key not in _ASIDE},
            "limits.rewrites": str(config.limits.rewrites),
            _MODULES: _digest(map(states.digest_file, self._modules)),
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
