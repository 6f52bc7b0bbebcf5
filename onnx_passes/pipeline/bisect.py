"""The first bad pass and rewrite of a pipeline, found by score, with or without a gate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import onnx_ir as ir

from onnx_passes.configs.engine_configs import resolve_engines
from onnx_passes.configs.resolve import resolve
from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.configs.sections import Logging
from onnx_passes.errors import ConfigError
from onnx_passes.passes.base import Pass
from onnx_passes.pipeline.baseline import Baseline
from onnx_passes.pipeline.culprit import error_of
from onnx_passes.pipeline.noise import LEVELS, Noise
from onnx_passes.pipeline.pass_execution import Attempts, Instrument
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.pipeline.samples import prepare_baseline
from onnx_passes.pipeline.state import Checked
from onnx_passes.plain import PlainDict
from onnx_passes.report.run_report import PassReport, RewriteSummary
from onnx_passes.runtime.inputs import InputSearch, make_samples, without_crashes
from onnx_passes.runtime.tensorrt.engine import compiler_of
from onnx_passes.verify.judge import NOISE_FACTOR, exceeds_noise, geometric_mean, resolution
from onnx_passes.verify.reference_data import load_reference
from onnx_passes.verify.shrink import first_above
from onnx_passes.verify.snapshot import Snapshot

MOST = 32
"""Number of further bad rewrites after which no more are looked for."""


class Judge(Protocol):
    """What says how bad a model is."""

    @property
    def noise(self) -> float:
        """Score of what is known to be right."""
        ...

    def __call__(self, model: ir.Model) -> float:
        """Return the score of a model: 0 is perfect."""
        ...


@dataclass(frozen=True)
class BisectionResult:
    """What a bisection found.

    The outcome is "sound" if the result is right, and "undecided" if noise allows no answer.
    ``noise`` is the score of what is known to be right, and ``final`` that of the result.
    ``good`` and ``bad`` are the scores before and after the first bad pass ``done``. If its
    rewrites cannot be separated, there is no ``rewrite``. ``also`` is what was found without
    the rewrites found before.
    """

    outcome: Literal["found", "sound", "undecided"]
    noise: float
    final: float
    passes: int
    runs: int
    done: PassReport | None = None
    rewrite: RewriteSummary | None = None
    good: float = 0.0
    bad: float = 0.0
    also: tuple[BisectionResult, ...] = ()

    @property
    def culprits(self) -> list[RewriteSummary]:
        found = (self.rewrite, *(other.rewrite for other in self.also))
        return [rewrite for rewrite in found if rewrite is not None]


@dataclass
class ByScore:
    """Judges by the error of the outputs against those of the original."""

    original: ir.Model
    baseline: Baseline
    _noise: float | None = None

    @property
    def noise(self) -> float:
        """Spread of the original over two runs and the engine's optimization levels."""
        if self._noise is None:
            ignored = self.baseline.unstable
            spread = [runs.score(ignored) for runs in Noise(self.baseline).every(*LEVELS)]
            expected = self.baseline.benches[0].original
            self._noise = max(resolution(expected, ignored), *spread)
        return self._noise

    def __call__(self, model: ir.Model) -> float:
        return error_of(model, self.baseline.benches[0], self.baseline)


@dataclass
class ByCheck:
    """Judges by a predicate, which noise does not touch."""

    holds: Callable[[ir.Model], bool]
    noise: float = 0.0

    def __call__(self, model: ir.Model) -> float:
        return 0.0 if self.holds(model) else math.inf


def judge_by_score(model: ir.Model, config: PipelineConfig) -> ByScore:
    """Run the original on the pipeline's reference data and first engine that executes."""
    resolve(config)  # imports the modules that may register engines
    settings = config.reference
    given = load_reference(settings.model_dump(), model, config.folder).samples
    samples = given or without_crashes(
        make_samples(
            model,
            seed=settings.seed,
            samples=settings.samples,
            ranges=settings.ranges,
            dims=settings.dims,
        )
    )
    engines = [s for s in resolve_engines(config) if compiler_of(s.engine) is None][:1]
    if not engines:
        raise ConfigError(
            "no engine of the pipeline executes the model, so no numbers can be judged",
            help="add 'onnxruntime' to its engines, or give --check",
        )
    others = InputSearch(
        model, settings.seed, settings.samples, settings.ranges, settings.dims
    )
    baseline = prepare_baseline(model, samples, engines, given=bool(given), substitutes=others)
    baseline.ready("each", "checkpoint", "end")
    return ByScore(model, baseline)


def bisect(model: ir.Model, config: PipelineConfig, judge: Judge) -> BisectionResult:
    """Find the first pass, and in it the first rewrite, after which a model is bad.

    The pipeline runs unchecked, and models are judged in a logarithmic number: those after
    passes, then those of the pipeline limited to so many rewrites.

    A rewrite found is left out, and the search continues until the result is right. Whether
    the pipeline verifies does not matter, and the model is not changed. A pass that raises
    ends the search with its error.
    """
    original, quiet = Snapshot(model), _quiet(config)
    bisection = _Bisection(original, quiet, judge)
    first = bisection.run()
    also: list[BisectionResult] = []
    last, skip = first, frozenset[str]()
    while last.outcome == "found" and last.rewrite is not None and len(also) < MOST:
        skip |= {_key(last.rewrite)}
        last = _Bisection(original, quiet, judge, skip).run()
        if last.outcome == "found":
            also.append(_renumbered(last, bisection.numbers))
    runs = first.runs + sum(other.runs for other in also)
    runs += last.runs if last.outcome != "found" and last is not first else 0
    return replace(first, also=tuple(also), runs=runs)


def _key(rewrite: RewriteSummary) -> str:
    """Return what the driver knows a rewrite by."""
    return f"{rewrite.rule}@{','.join(old for old, _ in rewrite.replaced)}"


def _renumbered(finding: BisectionResult, numbers: dict[str, int]) -> BisectionResult:
    """Give a rewrite the number that it had before others were left out."""
    one = finding.rewrite
    if one is None or _key(one) not in numbers:
        return finding
    return replace(finding, rewrite=replace(one, number=numbers[_key(one)]))


@dataclass
class _States(Instrument):
    """Keeps the model after each pass that changed it, and what repeats that pass."""

    before: Snapshot
    skip: frozenset[str]
    models: list[Snapshot] = field(default_factory=list)
    passes: list[Attempts] = field(default_factory=list)
    reports: list[PassReport] = field(default_factory=list)
    _analyses: PlainDict = field(default_factory=dict)

    def before_pass(self, pass_: Pass, model: ir.Model, report: PassReport) -> None:
        pass_.context.rewrites.skip |= self.skip
        self._analyses = dict(pass_.context.analyses)

    def after_pass(self, pass_: Pass, model: ir.Model, report: PassReport) -> None:
        if report.changed:
            before = self.models[-1] if self.models else self.before
            context = replace(pass_.context, analyses=self._analyses)
            first = report.rewrites[0].number - 1 if report.rewrites else 0

            def make() -> Pass:
                return type(pass_)(pass_.config, dict(pass_.state_dict), **pass_.options)

            self.passes.append(Attempts(make, before, context, first, lambda *_: Checked()))
            self.models.append(Snapshot(model))
            self.reports.append(report)


@dataclass
class _Bisection:
    original: Snapshot
    config: PipelineConfig
    judge: Judge
    skip: frozenset[str] = frozenset()
    runs: int = 0
    numbers: dict[str, int] = field(default_factory=dict)

    def run(self) -> BisectionResult:
        states = _States(self.original, self.skip)
        model = self.original.restore()
        run_pipeline(model, self.config, instruments=[states]).raise_for_failure()
        models = [snapshot.model for snapshot in states.models]
        every = (rewrite for report in states.reports for rewrite in report.rewrites)
        self.numbers = {_key(rewrite): rewrite.number for rewrite in every}
        noise = self.judge.noise
        final = self._score(models[-1]) if models else 0.0

        def finding(outcome: Literal["found", "sound", "undecided"]) -> BisectionResult:
            return BisectionResult(outcome, noise, final, len(models), self.runs)

        if final <= noise:
            return finding("sound")
        if final < NOISE_FACTOR * noise:
            return finding("undecided")
        threshold = geometric_mean(noise, final)
        index, good, bad = first_above(
            len(models), lambda n: self._score(models[n - 1]), final, threshold
        )
        done, rewrite = states.reports[index - 1], None
        if done.rewrites:
            attempts, before = states.passes[index - 1], good
            number, good, bad = first_above(
                len(done.rewrites),
                lambda n: self._score(attempts.apply(count=n).model),
                bad,
                threshold,
            )
            good = before if number == 1 else good
            rewrite = done.rewrites[number - 1]
        if not exceeds_noise(good, bad, noise):
            return replace(finding("undecided"), good=good, bad=bad, done=done)
        return replace(finding("found"), done=done, rewrite=rewrite, good=good, bad=bad)

    def _score(self, model: ir.Model) -> float:
        self.runs += 1
        return self.judge(model)


def _quiet(config: PipelineConfig) -> PipelineConfig:
    """Return a pipeline that checks and writes nothing."""
    off = config.verify.model_copy(update={"enabled": False})
    return config.model_copy(
        update={
            "verify": off,
            "reproducers": "",
            "dump_after": "none",
            "logging": Logging(),
        }
    )
