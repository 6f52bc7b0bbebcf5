"""The state of a pipeline run, and its models and rewrites as a report holds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import onnx_ir as ir

from onnx_passes.configs.resolve import PassStep
from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.errors import OnnxPassesError
from onnx_passes.model.walk import all_graphs, bytes_before_folding, operator_histogram
from onnx_passes.passes.base import ALL, Analysis, Pass
from onnx_passes.passes.compose import Operators, begins_nowhere, operators_of
from onnx_passes.passes.context import Application, PassContext, Rewrites
from onnx_passes.passes.rewriting import only_rewrites
from onnx_passes.pipeline.pass_execution import Instrument, KeptNodes
from onnx_passes.pipeline.state import Kept
from onnx_passes.plain import PlainDict
from onnx_passes.report.run_report import ModelSummary, PassReport, RewriteSummary, RunReport
from onnx_passes.verify.evidence import Check, Verdict
from onnx_passes.verify.snapshot import Snapshot

if TYPE_CHECKING:
    from onnx_passes.configs.sections import When
    from onnx_passes.pipeline.gate import Gate
    from onnx_passes.pipeline.objective import ProfitabilityFilter
    from onnx_passes.verify.reference_data import ReferenceData


def summarize(state: Snapshot) -> ModelSummary:
    """Return a model in numbers; its hash waits until somebody asks."""
    summary = ModelSummary(
        nodes=state.nodes,
        operators=operator_histogram(state.model),
        initializers=sum(len(graph.initializers) for graph in all_graphs(state.model)),
        weight_bytes=state.weight_bytes,
        opsets=dict(state.model.opset_imports),
        hash="",
    )
    summary.put_off_hash(lambda: state.hash)
    return summary


def rewrite_summary(application: Application) -> RewriteSummary:
    """Return one application of a rewrite rule."""
    return RewriteSummary(
        number=application.number,
        rule=application.rule,
        nodes=list(application.nodes),
        replaced=list(application.replaced),
        new_nodes=list(application.new_nodes),
    )


class Stopped(Exception):  # noqa: N818 - control flow, not an error of its own
    """A pass failed, and the pipeline stops there."""

    def __init__(self, cause: OnnxPassesError) -> None:
        super().__init__(str(cause))
        self.cause = cause


class DataCheck(Protocol):
    """What holds models against the original over the data set of a pipeline.

    ``reproducer`` is the folder of the last one; None before one is written.
    """

    reproducer: str | None

    def first_samples(self) -> ReferenceData:
        """Return the samples that each pass is checked on: the first of the order."""
        ...

    def check(
        self, model: ir.Model, moments: Sequence[When], small: Sequence[Check]
    ) -> list[Check]:
        """Compare a model with the original on every engine that executes at a moment.

        ``small`` are the checks on few samples, with the limits that were raised above noise.
        """
        ...


@dataclass
class RunState:
    """What the steps of a pipeline share.

    ``snapshot`` is the model before the current pass. Without verification there is no
    ``gate``. ``done`` counts the steps at top level that have ended.
    """

    model: ir.Model
    snapshot: Snapshot
    config: PipelineConfig
    report: RunReport
    gate: Gate | None = None
    instruments: Sequence[Instrument] = ()
    rewrites: Rewrites = field(default_factory=Rewrites)
    whole: DataCheck | None = None
    paying: ProfitabilityFilter | None = None
    done: int = 0

    def __post_init__(self) -> None:
        self.plain = self.config.plain()
        self.staying = KeptNodes.of(self.model, self.config)
        self.file_bytes = bytes_before_folding(self.model)
        self.state: PlainDict = {"counter": 0, "history": []}
        self.context = PassContext(rewrites=self.rewrites, file_bytes=self.file_bytes)
        if self.gate is not None and self.gate.baseline.given:
            self.context.samples = self.gate.baseline.samples
        elif self.gate is not None:
            self.context.made_up = self.gate.baseline.usual_samples
        self.valid: dict[str, type[Pass]] = {}  # passes whose results hold
        self.skipping = Skipping()
        self.kept: list[Kept] = []

    def add_report(
        self, name: str, contract: str, group: str, before: Snapshot | None = None
    ) -> PassReport:
        report = PassReport(len(self.report.passes) + 1, name, contract, group=group)
        before = before or self.snapshot
        report.nodes_before = report.nodes_after = before.nodes
        report.bytes_before = report.bytes_after = before.weight_bytes
        self.report.passes.append(report)
        return report

    def invalidate(self, pass_: Pass, applied: Sequence[Application] = ()) -> None:
        """Forget what a pass that changed the model does not preserve."""
        if ALL in (pass_.preserves, *pass_.preserves):
            return
        recorded = applied and only_rewrites(pass_)  # nothing else has changed
        self.valid = {
            name: cls
            for name, cls in self.valid.items()
            if name in pass_.preserves or (recorded and cls.holds_after(applied))
        }
        for name in [n for n in self.context.analyses if n not in self.valid]:
            del self.context.analyses[name]

    def recovered(self, original: Snapshot) -> Snapshot:
        """Return the last accepted state that can be restored; at worst ``original``."""
        return original if self.snapshot.lost else self.snapshot


def reason_of(checks: Sequence[Check]) -> str:
    """Return why the first failed check failed."""
    failed = [c for c in checks if c.verdict is Verdict.FAILED]
    first = failed[0]
    engine = f" on {first.engine}" if first.engine else ""
    return f"{first.reason or first.kind + ' failed'}{engine}"


@dataclass
class Skipping:
    """Which passes to skip.

    The rounds of a group run dozens of passes, and few of them find anything. A pass that
    depends on the model and its options alone (see ``Pass.repeats_itself``) does nothing if it
    did nothing to the very same model. Nor does it if the model has no operator that its rules
    begin at.
    """

    _model: Snapshot | None = None
    _left: dict[tuple[type[Pass], str], list[str]] = field(default_factory=dict)
    _operators: Operators = frozenset()

    def notes(self, pass_: Pass, step: PassStep, model: Snapshot) -> list[str] | None:
        """Return the notes of a pass that would change nothing; None if it has to run."""
        if not pass_.repeats_itself or isinstance(pass_, Analysis):
            return None
        self._look_at(model)
        key = (step.cls, step.text)
        if key in self._left:
            return self._left[key]
        return [] if begins_nowhere(pass_, self._operators) else None

    def note(self, step: PassStep, model: Snapshot, notes: list[str]) -> None:
        """Note that a pass left a model unchanged, and its notes."""
        self._look_at(model)
        self._left[(step.cls, step.text)] = list(notes)

    def _look_at(self, model: Snapshot) -> None:
        if model is not self._model:
            self._model = model
            self._left.clear()
            self._operators = operators_of(model.model)
