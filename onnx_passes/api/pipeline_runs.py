"""Run a pipeline over a model."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx_ir as ir

from onnx_passes.api.models import (
    AnyModel,
    notebook_frame,
    take_model,
    take_samples,
    with_functions,
)
from onnx_passes.configs.pipeline_files import config_from_data, default_config, load_config
from onnx_passes.configs.resolve import note_of_presets, with_budget
from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.errors import OnnxPassesError, UsageError, VerificationError
from onnx_passes.model.save import save_model, to_proto
from onnx_passes.passes.base import Pass
from onnx_passes.pipeline.pass_execution import Instrument
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.plain import Plain, PlainMapping
from onnx_passes.report.html import to_html
from onnx_passes.report.run_report import PassReport, RunReport
from onnx_passes.report.summary import Words, outcome
from onnx_passes.report.text import plural
from onnx_passes.runtime.engine_base import Feeds
from onnx_passes.verify.reference_data import (
    ReferenceData,
    check_feeds,
    count_samples,
    split_sample,
)


@dataclass(frozen=True)
class RunResult:
    """What a pipeline left.

    Attributes:
        model: The result; if the run failed, the last model that was accepted.
        report: What happened, pass by pass.
        error: What made the run fail; None if it did not.
    """

    model: ir.Model
    report: RunReport
    error: OnnxPassesError | None = None

    @property
    def words(self) -> Words:
        """The verdict with its reason."""
        return outcome(self.report)

    @property
    def verdict(self) -> str:
        """VERIFIED, UNCHANGED, PARTLY VERIFIED, NOT VERIFIED, or FAILED with where."""
        return self.words.head

    @property
    def passed(self) -> bool:
        """Whether nothing failed; not all has to be verified."""
        return self.error is None

    def raise_for_verdict(self, *, strict: bool = False) -> RunResult:
        """Raise what made the run fail; return the result otherwise.

        Args:
            strict: Whether what could not be verified is a failure as well.

        Raises:
            OnnxPassesError: The run failed.
            VerificationError: Something could not be verified, and ``strict`` is set.
        """
        if self.error is not None:
            raise self.error
        if strict and self.verdict not in ("VERIFIED", "UNCHANGED"):
            raise VerificationError(f"{self.verdict}: {self.words.why}")
        return self

    def proto(self) -> onnx.ModelProto:
        """Return the result as ONNX's own model, which holds what ``-o`` writes."""
        return to_proto(with_functions(self.model))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the result as ``-o`` does, and return where it is.

        Raises:
            OnnxPassesError: The run failed, or the file cannot be written.
        """
        self.raise_for_verdict()
        goal = Path(path)
        save_model(with_functions(self.model), goal)
        return goal

    def html(self) -> str:
        """Return the report as a page."""
        return to_html(self.report)

    def __repr__(self) -> str:
        """Return the verdict and what changed, on one line."""
        before, after = self.report.before, self.report.after
        nodes = "" if before is None else f"{before.nodes} nodes"
        if before is not None and after is not None and before.nodes != after.nodes:
            nodes = f"{before.nodes} -> {plural(after.nodes, 'node')}"
        parts = [self.verdict, nodes, plural(len(self.report.passes), "pass")]
        return f"<{', '.join(filter(None, parts))}>"

    def _repr_html_(self) -> str:
        """Return the report for a notebook: a page of its own in a frame."""
        return notebook_frame(self.html())


class _Progress(Instrument):
    def __init__(self, progress: Callable[[PassReport], None]) -> None:
        self._progress = progress

    def after_pass(self, pass_: Pass, model: ir.Model, report: PassReport) -> None:
        self._progress(report)


def run(
    model: AnyModel,
    pipeline: object = "optimize",
    *,
    inputs: Feeds | Sequence[Feeds] | None = None,
    engines: Sequence[str | PlainMapping] | None = None,
    options: PlainMapping | None = None,
    verify: bool = True,
    progress: Callable[[PassReport], None] | None = None,
) -> RunResult:
    """Run passes over a model, each verified before the next one runs.

    Args:
        model: A path, an ``onnx.ModelProto`` or an ``onnx_ir.Model``; it stays as it is.
        pipeline: The name of a shipped pipeline, the path of a YAML file, a mapping as such a
            file holds it, or a list of passes. Passes are texts as on the command line
            (``"fold-constants{size_limit=1MiB}"``), or registered classes.
        inputs: Samples to verify on, arrays by input name; generated if None.
        engines: Names of engines, or mappings as in YAML; those of the pipeline if None.
        options: Further keys of the pipeline: ``{"verify.tolerance.rtol": 1e-3}``.
        verify: False checks nothing, and the verdict says so.
        progress: Called after each pass with its report.

    Returns:
        The result. A failed check does not raise: see ``RunResult.raise_for_verdict``.

    Raises:
        ConfigError: The pipeline or an option is wrong.
        ReferenceDataError: The inputs do not fit the model.
        ModelError: The model cannot be read.
        EngineError: An engine cannot run the original model.
    """
    config = _config(pipeline, _overrides(options or {}, engines, verify=verify))
    taken, name, notes = take_model(model)
    config, budget = with_budget(config, taken, given=inputs is not None)
    done = run_pipeline(
        taken,
        config,
        name=name,
        reference=None if inputs is None else _reference(inputs, taken),
        instruments=[] if progress is None else [_Progress(progress)],
        notes=[*note_of_presets(config), *budget, *notes],
    )
    done.report.settle()
    return RunResult(done.model, done.report, done.error)


def _overrides(
    options: PlainMapping, engines: Sequence[str | PlainMapping] | None, *, verify: bool
) -> list[str]:
    given = dict(options)
    if engines is not None:
        given["engines"] = list(engines)
    if not verify:
        given["verify"] = False
    # JSON is YAML: values keep their types.
    return [f"{key}={json.dumps(value)}" for key, value in given.items()]


def _config(pipeline: Plain, overrides: Sequence[str]) -> PipelineConfig:
    if isinstance(pipeline, str | os.PathLike):
        return load_config(pipeline, overrides)
    if isinstance(pipeline, Mapping):
        if overrides:
            raise UsageError(
                "a pipeline that is a mapping holds its options and engines itself",
                help="put them into the mapping",
            )
        return config_from_data(pipeline)
    return default_config(overrides, [_step(each) for each in pipeline])


def _step(given: object) -> str:
    if isinstance(given, str):
        return given
    name = getattr(given, "name", None)
    if isinstance(given, type) and isinstance(name, str):
        return name
    raise UsageError(
        f"{given!r} is not a pass",
        help="give the text of a step, or a class that is registered; its options go into "
        "the text: 'fold-constants{size_limit=1MiB}'",
    )


def _reference(inputs: Feeds | Sequence[Feeds], model: ir.Model) -> ReferenceData:
    samples: list[Feeds] = [
        part
        for sample in take_samples(inputs, model)
        for part in split_sample(sample, count_samples(sample, model))
    ]
    for sample in samples:
        check_feeds(sample, model, {})
    return ReferenceData(samples, None, f"{plural(len(samples), 'sample')} of the caller")
