"""Leave a failed check as a folder that anyone can run, as small as still shows it."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import onnx_ir as ir

from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.errors import ConfigError, EngineError, OnnxPassesError, UsageError
from onnx_passes.model.copy import copy_model
from onnx_passes.pipeline.judgement import Judgement
from onnx_passes.pipeline.reproduce_level import LevelReproduction, built_files
from onnx_passes.pipeline.reproducer import Author, Failure
from onnx_passes.plain import PlainDict
from onnx_passes.report.run_report import RunReport
from onnx_passes.runtime.engine_base import Engine, Feeds, Finding, Level, Outputs, examine
from onnx_passes.runtime.isolated import IsolatedEngine
from onnx_passes.runtime.openvino import OpenVinoEngine
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.runtime.reference import ReferenceEngine
from onnx_passes.runtime.tensorrt.engine import built_layers, compiler_of
from onnx_passes.verify.bundle import Bundle, Replayable, write_failing
from onnx_passes.verify.case import Case
from onnx_passes.verify.double_precision import weigh_rounding
from onnx_passes.verify.judge import Promise
from onnx_passes.verify.result import EXECUTED, LEVEL, Check, OutputCheck
from onnx_passes.verify.score import score
from onnx_passes.verify.shrink import Shrinker

MOST_SAMPLES = 64
"""Number of samples that are searched for one that fails, if the check does not say."""

_LONGEST_NAME = 60


def leave_reproducer(
    failure: Failure, config: PipelineConfig, run: RunReport
) -> tuple[str | None, list[str]]:
    """Write the smallest case found that fails when its folder is run.

    Tried are, in this order, the regions in which the pairs of models differ, then the same
    as whole models; what fails is made smaller, for ``limits.reproducer_seconds``.

    Args:
        failure: What failed, with pairs of models.
        config: The pipeline file.
        run: The report of the run, for names.

    Returns:
        The folder, None where none could be written, and what a user should know of it.
    """
    author = _author_of(failure.judgement.check)(failure, config, run)
    stem = re.sub(r"[^\w.-]+", "-", f"{Path(run.model).stem or 'model'}")[:_LONGEST_NAME]
    folder = Path(str(config.reproducers)) / f"{stem}-{failure.name}"
    try:
        written, why = write_failing(author.every(), folder)
    except OnnxPassesError as error:
        return None, [f"no reproducer: {error.message}"]
    except Exception as error:
        # It explains a failure that is already certain, and must not replace it.
        return None, [f"no reproducer: {type(error).__name__}: {error}"]
    return str(written), [f"the reproducer does not fail by itself: {why}"] if why else []


def _author_of(check: Check) -> type[Author]:
    if check.kind != LEVEL:
        return _Numbers
    return Executed if check.level == EXECUTED else LevelReproduction


@dataclass
class _Judge:
    """Says what differs in a case; None where it passes, cannot run, or differs otherwise."""

    judgement: Judgement
    finite: bool = False
    least: float = 0.0
    measured: bool = False

    def _run(self, model: ir.Model, feeds: Feeds) -> Outputs:
        with self.judgement.engine.prepare(model) as session:
            return session.run(feeds)

    def settle(self, case: Case, results: Sequence[OutputCheck]) -> None:
        """Use a case as the fault that smaller ones have to show as well."""
        old, new = (self._run(m, case.feeds) for m in (case.before, case.after))
        self.finite = _all_finite(old)
        self.measured = all(c.max_abs is not None for c in results if not c.passed)
        size = score([old], [new], frozenset())
        # A fault must not dwindle into rounding on the way.
        self.least = 0.1 * size if math.isfinite(size) else 0.0

    def __call__(self, case: Case) -> tuple[OutputCheck, ...] | None:
        try:
            old = self._run(case.before, case.feeds)
        except EngineError:
            return None
        if self.finite and not _all_finite(old):
            return None
        try:
            new = self._run(case.after, case.feeds)
        except EngineError:
            return None if self.measured else ()
        results = self._compare(case, old, new)
        if all(result.passed for result in results):
            return None
        if self.measured:
            if any(r.max_abs is None for r in results if not r.passed):
                return None
            if min(score([old], [new], frozenset()), 1e30) < self.least:
                return None
        return results

    def _compare(self, case: Case, old: Outputs, new: Outputs) -> tuple[OutputCheck, ...]:
        """Compare as the check did: the limits that it applied, else those of inner values."""
        contract, overrides = self.judgement.limits
        check = self.judgement.check
        limits = dict(overrides)
        for output in check.outputs:
            if output.max_abs is not None and output.rmse_old is None:
                limits[output.output] = Tolerance(output.rtol, output.atol)
        unstable = () if case.part else self.judgement.gate.baseline.unstable
        old, new = ({k: v for k, v in o.items() if k not in unstable} for o in (old, new))
        promise = Promise(
            contract if check.engine is not None else Equality(),
            overrides=limits,
            inside=case.part,
            negative_zero=self.signed_zeros(case),
        )
        return promise.check(old, new)

    def signed_zeros(self, case: Case) -> bool:
        """Whether equality distinguishes -0 from 0."""
        return case.part or self.judgement.gate.settings.negative_zero


def _all_finite(outputs: Outputs) -> bool:
    arrays = (v for v in outputs.values() if isinstance(v, np.ndarray))
    return all(
        bool(np.isfinite(a).all())
        for a in arrays
        if a.dtype.kind in "fc" or "float" in a.dtype.name
    )


@dataclass
class _Numbers(Author):
    """Shows numbers that differ, and models that are not valid or do not run."""

    does = (
        "runs `before.onnx` and `after.onnx` on `inputs.npz`, prints where their outputs",
        "differ, and ends with exit code 1 while they do, 0 once they agree.",
        "It needs the packages onnx, onnxruntime and numpy, and openvino where that judged.",
    )
    packages = (
        "onnx-passes",
        "onnx",
        "onnx-ir",
        "onnxruntime",
        "openvino",
        "numpy",
        "python",
    )
    _shrunk: bool = False

    def judge(self, case: Case) -> tuple[OutputCheck, ...] | None:
        return _Judge(self.failure.judgement)(case)

    def cases(self) -> Iterator[Case]:
        judgement = self.failure.judgement
        engine = judgement.check.engine
        if engine is not None and not judgement.samples:
            raise UsageError("there are no reference samples")
        feeds = self._sample()
        if engine is not None:
            yield from self.cut(feeds, judgement.engine)
        yield from self.whole(feeds)

    def _sample(self) -> Feeds:
        """Return the sample that failed; the first that fails where the check does not say."""
        judgement = self.failure.judgement
        if not judgement.samples:
            return {}
        if judgement.check.engine is not None and judgement.check.sample is None:
            for feeds in judgement.samples[:MOST_SAMPLES]:
                *_, case = self.whole(feeds)
                if self.judge(case) is not None:
                    return feeds
        return judgement.feeds

    def bundles(self, case: Case, found: tuple[OutputCheck, ...] | None) -> Iterator[Bundle]:
        facts: list[str] = []
        if found and not self._shrunk:
            self._shrunk = True  # others would become the same
            small, checks, facts = self._made_smaller(case, found)
            if small is not case:
                yield self._bundle(small, checks, facts)
                facts = []
        elif found is None and self.failure.judgement.check.engine is not None:
            facts = ["none of the models that were tried fails in a run of its own"]
        yield self._bundle(case, found or (), facts)

    def _made_smaller(
        self, case: Case, found: Sequence[OutputCheck]
    ) -> tuple[Case, Sequence[OutputCheck], list[str]]:
        judge = _Judge(self.failure.judgement)
        judge.settle(case, found)
        deadline = time.monotonic() + self.config.limits.reproducer_seconds
        repeats = _repeats(self.failure, judge, case)
        shrinker = Shrinker(case, judge, repeats, self.failure.judgement.engine, deadline)
        small = shrinker.run()
        if self.failure.make is not None:
            does = "makes" if shrinker.repeated else "does not make"
            shrinker.told.append(f"the pass by itself {does} the same fault of before.onnx")
        return small, shrinker.checks, shrinker.told

    def _bundle(
        self, case: Case, results: Sequence[OutputCheck], facts: Sequence[str]
    ) -> Bundle:
        judgement = self.failure.judgement
        name, engine = judgement.bench.engine.name, _runnable(judgement.bench.engine)
        if engine.name != name:
            facts = [*facts, f"{name} needs more than onnx: repro.py asks {engine.name}"]
        before, after = (judgement.prepare(model) for model in (case.before, case.after))
        plain = case.before if before is not case.before else None
        return Bundle(
            before,
            after,
            case.feeds,
            limits={r.output: (r.rtol, r.atol) for r in results},
            ignored=() if case.part else tuple(judgement.gate.baseline.unstable),
            scaled=case.part,
            signed_zeros=_Judge(judgement).signed_zeros(case),
            engine=engine,
            kind=judgement.check.kind,
            pipeline=self._pipeline(case, engine),
            readme=self.readme(case, name, facts, "plain.onnx" if plain else "before.onnx"),
            plain=plain,
        )

    def _pipeline(self, case: Case, engine: Replayable) -> str:
        given: PlainDict = {}
        if isinstance(engine, OpenVinoEngine):
            given = asdict(engine)
        if isinstance(engine, OnnxRuntimeEngine):
            given = asdict(engine) | {"provider_options": dict(engine.provider_options)}
        # Sequences and elements of less than a byte have no form that reference data is read
        # from.
        plain = case.feeds and all(
            isinstance(v, np.ndarray) and not v.dtype.name.endswith(("int4", "int2"))
            for v in case.feeds.values()
        )
        reference = {"inputs": "inputs.npz", "allow_nan": True} if plain else None
        name = str(engine.describe()["engine"])
        return self.pipeline(case, {name: given}, reference=reference)


def _runnable(engine: Engine) -> Replayable:
    """Return the engine that repro.py runs in place of one."""
    if isinstance(engine, IsolatedEngine):
        return _runnable(engine.engine)
    if isinstance(engine, OnnxRuntimeEngine | OpenVinoEngine | ReferenceEngine):
        return engine
    return OnnxRuntimeEngine()


def _repeats(failure: Failure, judge: _Judge, like: Case) -> Callable[[ir.Model, Feeds], bool]:
    """Return what says whether the pass by itself makes the same fault of a model."""

    def repeats(model: ir.Model, feeds: Feeds) -> bool:
        if failure.make is None:
            return False
        try:
            result = failure.make()(copy_model(model)).model
            return (
                judge(replace(like, before=model, after=result, feeds=dict(feeds))) is not None
            )
        except Exception:
            # A pass may need more of the model than was left of it.
            return False

    return repeats


_NOT_OF_A_REPRODUCER = {"cache", "save", "load", "require", "timing_cache", "profiles"}


@dataclass
class Executed(LevelReproduction):
    """Shows two models that give other numbers on an engine that compiles them."""

    does = (
        "builds `before.onnx` and `after.onnx` on NVIDIA's compiler, runs both on",
        "`inputs.npz`, and ends with exit code 1 while they differ, 0 once they agree. It",
        "needs onnx-passes, the package of the engine, and a GPU. Beside them are the engine",
        "of `before.onnx` (`before.engine`), the layers of both by the engine's own names",
        "(`layers.txt`), and the timing cache where the builder kept one.",
    )

    def judge(self, case: Case) -> tuple[Finding, Finding] | None:
        engine = self._engine(case)
        try:
            found = [examine(engine, m, [case.feeds]) for m in (case.before, case.after)]
        except ConfigError:
            return None
        if any(one.level is not Level.EXECUTED for one in found):
            return None
        wrong = [one for one in self._compared(found) if not one.passed]
        shown = [one for one in wrong if not self._is_rounding(case, found, one.output)]
        return (found[0], found[1]) if shown else None

    def _compared(self, found: list[Finding]) -> tuple[OutputCheck, ...]:
        before, after = (one.outputs[0] for one in found)
        return self.failure.judgement.promise.check(before, after)

    def _is_rounding(self, case: Case, found: list[Finding], name: str) -> bool:
        before, after = (one.outputs[0].get(name) for one in found)
        if not isinstance(before, np.ndarray) or not isinstance(after, np.ndarray):
            return False
        feeds = {n: a for n, a in case.feeds.items() if isinstance(a, np.ndarray)}
        return weigh_rounding(case.before, case.after, feeds, before, after, name) is True

    def bundles(self, case: Case, found: tuple[Finding, Finding] | None) -> Iterator[Bundle]:
        engine = self._engine(case)
        inner = compiler_of(engine) or self._compiler.inner
        given = inner.options.model_dump(
            mode="json", exclude=_NOT_OF_A_REPRODUCER, exclude_defaults=True
        )
        given |= {"profiles": inner.options.spelled_profiles[:1]}
        results = self._compared(list(found)) if found else ()
        facts = [f"{o.output}: {o.reason or 'it differs'}" for o in results if not o.passed]
        yield Bundle(
            case.before,
            case.after,
            case.feeds,
            files={**built_files(engine, case), "layers.txt": _layers(engine, case)},
            kind=self.failure.judgement.check.kind,
            pipeline=self.pipeline(case, {inner.package: given}),
            readme=self.readme(
                case,
                inner.name,
                facts or ["none of the models that were tried shows it by itself"],
                "before.onnx",
            ),
            executed={
                "engine": inner.package,
                "options": given,
                "limits": {o.output: [o.rtol, o.atol] for o in results},
                "scaled": True,
            },
        )


def _layers(engine: Engine, case: Case) -> bytes:
    """Return the layers of both engines as text."""
    lines: list[str] = []
    for name, model in (("before.onnx", case.before), ("after.onnx", case.after)):
        told = [
            f"    {one.kind} {one.name} {one.nodes}" for one in built_layers(engine, model)
        ]
        lines += [name, *(line.rstrip() for line in told)]
    return "".join(f"{line}\n" for line in lines).encode()
