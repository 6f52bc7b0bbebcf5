"""Hold models against the original over a whole data set, at checkpoints and at the end."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx_ir as ir

from onnx_passes.configs.engine_configs import options_of
from onnx_passes.configs.schema import EngineUse, PipelineConfig
from onnx_passes.configs.sections import When
from onnx_passes.contracts import Tolerance
from onnx_passes.data.dataset import DataSet, make_plan
from onnx_passes.data.demand import Accuracy, Demand, RunOutcome
from onnx_passes.data.evaluation_job import (
    DataJob,
    EngineChoice,
    ModelFile,
    RunSpec,
    WorkerProcessors,
)
from onnx_passes.data.evaluation_result import DataResult, save_worst, verdict_text
from onnx_passes.data.input_binding import DataInterface
from onnx_passes.data.job_evaluation import evaluate
from onnx_passes.data.measures import Measures
from onnx_passes.data.workers import choose_executor
from onnx_passes.errors import OnnxPassesError
from onnx_passes.model.save import save_model
from onnx_passes.runtime.engine_base import Data
from onnx_passes.runtime.tensorrt.engine import compiler_of
from onnx_passes.verify.evidence import Check, MetricCheck, OutputCheck, Verdict
from onnx_passes.verify.reference_data import ReferenceData

KIND = "data set"
FEW = 3
"""Samples that each pass is checked on, where the pipeline does not say."""

_VERDICTS = {RunOutcome.PASSED: Verdict.PASSED, RunOutcome.FAILED: Verdict.FAILED}


class WholeData:
    """Holds models against the original over the data set of a pipeline."""

    def __init__(self, config: PipelineConfig, original: ir.Model) -> None:
        self._config, self._original = config, original
        data, accuracy = config.reference.data, config.verify.accuracy
        if data is None:
            raise ValueError("the pipeline has no data set")
        self._scores = data.scores
        spec = data.spec(
            str(config.folder or Path()),
            early=accuracy is not None and accuracy.early,
            allow_nan=config.reference.allow_nan,
        )
        self._plan = make_plan(spec, DataInterface.of(original))
        self.reproducer: str | None = None
        """The folder of the last reproducer; None before one is written."""

    def first_samples(self) -> ReferenceData:
        """Return the samples that each pass is checked on: the first of the order."""
        plan = self._plan
        data = DataSet(plan)
        count = min(self._config.reference.samples or FEW, plan.used)
        rows = data.rows(0, count)
        samples = [data.feeds(int(row)) for row in rows]
        expected: list[dict[str, Data]] | None = None
        if plan.binding.labels is not None:
            name = self._scores or str(self._original.graph.outputs[0].name)
            labels = [np.asarray(label) for label in data.take(rows)[plan.binding.labels]]
            stacked = plan.binding.stacked
            expected = [{name: label[None] if stacked else label} for label in labels]
        return ReferenceData(samples, expected, f"the first {count} of {plan.used:,} samples")

    def check(
        self, model: ir.Model, moments: Sequence[When], small: Sequence[Check]
    ) -> list[Check]:
        """Compare a model with the original on every engine that executes at a moment.

        ``small`` are the checks on few samples, with the limits that were raised above noise.
        """
        uses = [use for use in self._config.engines if use.when in moments]
        found: list[Check] = []
        with tempfile.TemporaryDirectory(prefix="onnx-passes-") as folder:
            paths = Path(folder) / "original.onnx", Path(folder) / "result.onnx"
            for path, one in zip(paths, (self._original, model), strict=True):
                save_model(one, path)
            for use in uses:
                choice = EngineChoice(use.name, options_of(self._config, use))
                engine = choice.make()
                compiler = compiler_of(engine)
                if compiler is None or compiler.executes:
                    limits = _applied(small, engine.name)
                    found.append(self._on(use, choice, engine.name, paths, limits))
        return found

    def _on(
        self,
        use: EngineUse,
        choice: EngineChoice,
        name: str,
        paths: tuple[Path, Path],
        limits: Mapping[str, Tolerance],
    ) -> Check:
        start = time.perf_counter()
        try:
            result = self._evaluate(choice, paths, limits)
        except OnnxPassesError as error:
            reason = f"over the data set: {error.message}"
            return Check(KIND, Verdict.NOT_VERIFIED, name, reason=reason)
        verdict = _VERDICTS.get(result.outcome, Verdict.NOT_VERIFIED)
        if verdict is Verdict.FAILED:
            self._reproduce(result, use, paths)
        return Check(
            KIND,
            verdict,
            name,
            reason=None if verdict is Verdict.PASSED else verdict_text(result.data),
            seconds=time.perf_counter() - start,
            outputs=_outputs(result),
            metrics=_metrics(result),
        )

    def _evaluate(
        self, choice: EngineChoice, paths: tuple[Path, Path], limits: Mapping[str, Tolerance]
    ) -> DataResult:
        config = self._config
        data, accuracy = config.reference.data, config.verify.accuracy
        assert data is not None
        limit = None
        if accuracy is not None:
            limit = Accuracy(accuracy.drop, accuracy.confidence, accuracy.early)
        rule = Demand(limit)
        job = DataJob(
            self._plan,
            tuple(ModelFile.of(path) for path in paths),
            tuple(RunSpec(place, choice, path.stem) for place, path in enumerate(paths)),
            Measures.of(Tolerance(), limits, scores=data.scores),
            config.imports,
        )
        executor = choose_executor(data.jobs, data.scheduler)
        return evaluate(
            job, rule, executor, accept=WorkerProcessors(job, allow_mixed=False).accept
        )

    def _reproduce(self, result: DataResult, use: EngineUse, paths: tuple[Path, Path]) -> None:
        """Leave both models, the worst samples, and how to compare them again."""
        if not self._config.reproducers:
            return
        folder = _free(Path(self._config.reproducers))
        for path, model in zip(paths, result.job.models, strict=True):
            for name in model.files:
                goal = folder / name
                goal.parent.mkdir(parents=True, exist_ok=True)
                goal.write_bytes((path.parent / name).read_bytes())
        save_worst(result, folder / "worst", models=[folder / path.name for path in paths])
        (folder / "result.json").write_text(result.text(), encoding="utf-8")
        engine = {use.name: dict(result.job.runs[0].engine.options)}
        (folder / "engine.json").write_text(json.dumps(engine, indent=2), encoding="utf-8")
        self.reproducer = str(folder)


def _applied(checks: Sequence[Check], engine: str) -> dict[str, Tolerance]:
    """Return the limits that an engine's outputs were held to."""
    return {
        output.output: Tolerance(output.rtol, output.atol)
        for check in checks
        if check.kind == "drift" and check.engine == engine
        for output in check.outputs
        if output.rtol or output.atol
    }


def _free(folder: Path) -> Path:
    number = 0
    while (free := folder / f"data-set-{number}").exists():
        number += 1
    return free


def _outputs(result: DataResult) -> tuple[OutputCheck, ...]:
    (pair,) = result.data["pairs"]
    if "accuracy" in pair["verdict"]:
        return ()
    return tuple(
        OutputCheck(
            name,
            passed=not found["failing_samples"],
            max_abs=None if found["rmse"] is None else float(found["max_abs"]),
            mismatched=found["failing_elements"],
            size=found["elements"],
        )
        for name, found in pair["found"]["outputs"].items()
    )


def _metrics(result: DataResult) -> tuple[MetricCheck, ...]:
    (pair,) = result.data["pairs"]
    found = pair["verdict"].get("accuracy")
    if found is None:
        return ()
    value, limit = float(found["drop"]), float(found["limit"])
    return (MetricCheck("accuracy drop", value, -1.0, limit, found["samples"]),)
