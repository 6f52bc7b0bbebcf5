"""The jobs beside a pipeline: compare, inspect, reduce, certify, and choose precisions."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import onnx
import onnx_ir as ir

from onnx_passes.api.models import AnyModel, take_model, take_samples
from onnx_passes.bench import inspection as inspecting
from onnx_passes.bench.comparison_report import comparison_lines
from onnx_passes.bench.reducing import Boundary, Reducer, Reduction
from onnx_passes.bench.reducing.candidates import (
    CheckOutcome,
    ModelCheck,
    SmallerModel,
    Status,
)
from onnx_passes.bench.reducing.checks import RunCheck
from onnx_passes.bench.reducing.parts import Parts
from onnx_passes.bench.runs import Found, Runner, Settings
from onnx_passes.bench.runs import compare as compare_runs
from onnx_passes.bench.runs.judges import read_limits
from onnx_passes.bench.runs.runner import read_generate
from onnx_passes.configs.engine_text import parse_engine
from onnx_passes.configs.pipeline_files import config_from_data, load_config
from onnx_passes.errors import UsageError
from onnx_passes.model.save import save_model, to_proto
from onnx_passes.plain import Plain, PlainDict, PlainMapping
from onnx_passes.report.text import one_line, plural
from onnx_passes.runtime.engine_base import Feeds
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.tuning.budget_search import TuningSearch
from onnx_passes.tuning.configured_search import task_of
from onnx_passes.tuning.search_record import SearchResult, inspector, lines, to_json
from onnx_passes.verify.reference_data import ReferenceData, check_feeds


@dataclass(frozen=True)
class Comparison:
    """Models side by side; ``found`` holds the result in full."""

    found: Found

    @property
    def passed(self) -> bool:
        """Whether at least two runs were compared, and agree."""
        return self.found.passed

    def __str__(self) -> str:
        """Return what ``onnx-passes compare`` prints."""
        return "\n".join(comparison_lines(self.found))

    def __repr__(self) -> str:
        """Return the verdict on one line."""
        return f"<{'agree' if self.passed else 'DIFFER'}, {len(self.found.runs)} runs>"


def compare(
    *models: AnyModel,
    engines: Sequence[str] = ("onnxruntime",),
    inputs: Feeds | Sequence[Feeds] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    outputs: Sequence[str] | None = None,
) -> Comparison:
    """Run models on engines, and compare what they give with the first.

    Args:
        models: Paths, ``onnx.ModelProto`` or ``onnx_ir.Model``.
        engines: As on the command line: ``"onnxruntime{optimization=all}"``.
        inputs: Samples, arrays by input name; three are generated if None.
        rtol: Relative tolerance; that of each output's type if None.
        atol: Absolute tolerance; the same.
        outputs: Names of values, inner ones too; the outputs if None.

    Raises:
        UsageError: There is no model, or a value does not exist.
        ModelError: A model cannot be read.
        ReferenceDataError: A sample does not fit a model.
    """
    if not models:
        raise UsageError("there is no model to run")
    runners, seen = [], set()
    for place, model in enumerate(models):
        taken, name, _ = take_model(model)
        label = f"{name} ({place})" if name in seen else name
        seen.add(name)
        for engine in engines:
            made = parse_engine(engine)
            runners.append(Runner(taken, made, name=f"{label} on {made.name}"))
    if inputs is None:
        samples = list(read_generate(()).make(runners[0].model))
    else:
        samples = take_samples(inputs, runners[0].model)
    limits = read_limits(None, *([] if x is None else [str(x)] for x in (rtol, atol)))
    settings = Settings(outputs=outputs, judge=limits, limits=limits)
    return Comparison(compare_runs(runners, samples, settings=settings))


@dataclass(frozen=True)
class Description:
    """What a model holds, as ``onnx-passes inspect model --json`` prints it."""

    data: PlainMapping

    def __repr__(self) -> str:
        """Return the lines that ``onnx-passes inspect model`` prints."""
        return "\n".join(map(one_line, inspecting.inspect_lines(dict(self.data))))


def inspect(model: AnyModel, show: Sequence[str] = ()) -> Description:
    """List the inputs, outputs, opsets and nodes of a model.

    Args:
        model: A path, an ``onnx.ModelProto`` or an ``onnx_ir.Model``.
        show: Further "layers", "attrs", "weights" or "values".

    Raises:
        ModelError: The model cannot be read.
    """
    return Description(inspecting.inspect_model(take_model(model)[0], show))


@dataclass
class _Predicate:
    """A function of a model as a check."""

    fails: Callable[[ir.Model], bool]
    text: str
    reads_values: bool = False

    def judge(self, candidate: SmallerModel, number: int) -> CheckOutcome:
        """Call the function; what it raises reaches the caller."""
        del number
        return CheckOutcome(Status.BAD if self.fails(candidate.model) else Status.GOOD)


def reduce(
    model: AnyModel,
    fails: Callable[[ir.Model], bool] | None = None,
    *,
    engine: str | None = None,
    against: str | None = None,
) -> Reduction:
    """Find the smallest model that still fails.

    Args:
        model: A path, an ``onnx.ModelProto`` or an ``onnx_ir.Model``; it stays as it is.
        fails: Returns whether a candidate fails.
        engine: Or: the engine in doubt, as on the command line.
        against: The engine that is right; without one a model fails that ``engine`` cannot
            run, or for which it makes NaN or Inf of finite inputs.

    Raises:
        UsageError: Not one of ``fails`` and ``engine`` is given, or the model does not fail.
        ModelError: The model cannot be taken apart.
    """
    if (fails is None) == (engine is None):
        raise UsageError("reduce needs a function, or an engine in doubt")
    taken, _, _ = take_model(model)
    boundary = Boundary(taken, OnnxRuntimeEngine())
    if fails is not None:
        check: ModelCheck = _Predicate(fails, getattr(fails, "__name__", "a function"))
    else:
        other = parse_engine(against) if against is not None else None
        if other is not None:
            boundary.engine = other
        check = RunCheck(parse_engine(str(engine)), other)
    return Reducer(Parts(taken, boundary), check).run()


def certify(
    names: str | Sequence[str],
    *,
    level: str = "all",
    seconds: float = 10.0,
    models: int = 200,
    seed: int = 0,
) -> list[PlainDict]:
    """Test and prove rewrite rules on their own, each in a process of its own.

    Args:
        names: Of passes or groups, or ``module:object`` of rules; one, or several.
        level: "test", "prove" or "all".
        seconds: For the property test of a rule.
        models: Models that end it before its time.
        seed: Of all choices.

    Returns:
        A verdict for each rule: its pass under "pass", and "rule", "verdict", "reason" and
        what led to it.

    Raises:
        UnknownPassError: No pass has one of the names.
    """
    from onnx_passes.certifying.certification import certify_apart
    from onnx_passes.certifying.rewrite_rule import Job, resolve, rules_of
    from onnx_passes.certifying.rule_paths import cap
    from onnx_passes.passes.registry import collect

    subjects: list[tuple[str, str, object]] = []
    for name in [names] if isinstance(names, str) else names:
        if ":" in name:
            subjects.append((name, name, resolve(name)))
            continue
        subjects += [
            (cls.name, f"{cls.__module__}:{cls.__qualname__}", cls) for cls in collect([name])
        ]
    found: list[PlainDict] = []
    for label, subject, target in subjects:
        indices = range(len(rules_of(target)))
        jobs = (Job(subject, i, level, seconds, seed, models=models) for i in indices)
        rows = [{"pass": label, **certify_apart(job)} for job in jobs]
        cap(rows)
        found += rows
    return found


@dataclass(frozen=True)
class TuneResult:
    """What a search found.

    Attributes:
        found: The search, in full.
    """

    found: SearchResult

    @property
    def model(self) -> ir.Model:
        """The best model that keeps the budget; the original if no other does."""
        return self.found.model

    @property
    def formats(self) -> dict[str, str]:
        """The format of each group."""
        return dict(self.found.best.names)

    @cached_property
    def data(self) -> PlainDict:
        """All but the model, as ``--json`` has it."""
        return to_json(self.found)

    def proto(self) -> onnx.ModelProto:
        """Return the model as ONNX's own."""
        return to_proto(self.model)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model as ``-o`` does, and return where it is.

        Raises:
            ModelError: The file cannot be written.
            VerificationError: What was read back does not hold the formats that were chosen.
        """
        goal = Path(path)
        save_model(self.model, goal, inspect=inspector(self.found))
        return goal

    def __str__(self) -> str:
        """Return what ``onnx-passes tune`` prints."""
        return "\n".join(lines(self.data))

    def __repr__(self) -> str:
        """Return the gain on one line."""
        cost = self.data["cost"]
        saved = 1 - cost["chosen"] / cost["original"] if cost["original"] else 0.0
        tried = plural(len(self.found.tried), "model")
        return f"<{self.found.task.objective}: {saved:.1%} less, {tried} tried>"


def tune(
    model: AnyModel,
    pipeline: Plain,
    *,
    inputs: Feeds | Sequence[Feeds] | None = None,
    labels: Sequence[Feeds] | None = None,
    progress: Callable[[str], object] | None = None,
) -> TuneResult:
    """Choose the precision of each part of a model, within a budget of what may be lost.

    Args:
        model: A path, an ``onnx.ModelProto`` or an ``onnx_ir.Model``; it stays as it is.
        pipeline: The path of a YAML file, or a mapping as such a file holds it: the budget
            (``verify.metrics``, ``tune.flips``), the formats and the objective (``tune``).
        inputs: Samples, arrays by input name; those of the pipeline if None.
        labels: What is expected of each sample, by output name.
        progress: Called with a sentence on each step.

    Returns:
        The result. Without a better model it holds the original.

    Raises:
        ConfigError: The pipeline is wrong, has no budget, or there is no data.
        ReferenceDataError: The data does not fit the model.
        ModelError: The model cannot be read.
        EngineError: The engine does not run the original.
    """
    if isinstance(pipeline, Mapping):
        config = config_from_data(pipeline)
    else:
        config = load_config(pipeline, ())
    taken, _, _ = take_model(model)
    reference = None
    if inputs is not None:
        samples = take_samples(inputs, taken)
        for sample in samples:
            check_feeds(sample, taken, {})
        expected = None if labels is None else [dict(each) for each in labels]
        reference = ReferenceData(samples, expected, "samples of the caller")
    task = task_of(taken, config, reference)
    return TuneResult(TuningSearch(task, progress or (lambda text: None)).run())
