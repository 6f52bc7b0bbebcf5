"""Write a failed check as a small folder that anyone can run.

The folder holds the models before and after, one sample, a pipeline and a script. For
compilers it shows the level that was lost.
"""

from __future__ import annotations

import math
import re
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir
import yaml

from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.errors import (
    ConfigError,
    EngineError,
    ModelError,
    OnnxPassesError,
    UsageError,
)
from onnx_passes.model.copy import copy_model
from onnx_passes.passes.base import Pass
from onnx_passes.pipeline.compiling_engines import Compiler
from onnx_passes.pipeline.culprit import Judgement
from onnx_passes.plain import PlainDict, PlainMapping
from onnx_passes.report.run_report import Blame, RunReport
from onnx_passes.report.text import one_line
from onnx_passes.runtime.engine_base import Engine, Feeds, Finding, Level, Outputs, examine
from onnx_passes.runtime.isolated import IsolatedEngine
from onnx_passes.runtime.openvino import OpenVinoEngine
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.runtime.reference import ReferenceEngine
from onnx_passes.runtime.tensorrt.bindings import MODULES
from onnx_passes.runtime.tensorrt.engine import (
    built_layers,
    compiler_of,
    with_options,
    with_profiles_of,
    without_profiles,
)
from onnx_passes.verify.bundle import Bundle, Replayable, write_failing
from onnx_passes.verify.evidence import EXECUTED, LEVEL, Check, OutputCheck
from onnx_passes.verify.judge import Promise, score
from onnx_passes.verify.region import cut
from onnx_passes.verify.rounding import rounding_verdict
from onnx_passes.verify.shrink import WHOLE, Case, Shrinker


@dataclass(frozen=True)
class Failure:
    """A check that failed, to be left as a reproducer.

    ``name`` is that of the folder. ``pairs`` are models that may show the fault, those that
    differ least first. ``make`` creates the pass anew; None if it is not one pass that failed.
    """

    judgement: Judgement
    name: str
    title: str
    error: str
    contract: str
    pairs: Sequence[Case]
    steps: Sequence[str]
    blame: Sequence[Blame] = ()
    make: Callable[[], Pass] | None = None


@dataclass
class Author(ABC):
    """Turns a failure into bundles."""

    failure: Failure
    config: PipelineConfig
    run: RunReport

    does: ClassVar[tuple[str, ...]]
    """What repro.py does and needs, a line each."""
    packages: ClassVar[tuple[str, ...]]
    """The packages whose versions matter."""

    @abstractmethod
    def cases(self) -> Iterator[Case]:
        """Yield models that may show the failure, those that differ least first."""

    @abstractmethod
    def judge(self, case: Case) -> Any:
        """Return what is wrong in a case; None where it does not show the failure."""

    @abstractmethod
    def bundles(self, case: Case, found: Any) -> Iterator[Bundle]:
        """Yield what to write of a case, the smallest first."""

    def every(self) -> Iterator[Bundle]:
        """Yield what to write, the smallest first; where none fails, the last case."""
        case, shown = None, False
        for case in self.cases():
            found = self.judge(case)
            if found is not None:
                shown = True
                yield from self.bundles(case, found)
        if case is not None and not shown:
            yield from self.bundles(case, None)

    def cut(self, feeds: Feeds, engine: Engine) -> Iterator[Case]:
        """Yield the regions in which the pairs of models differ."""
        for pair in self.failure.pairs:
            try:
                part = cut(pair.before, pair.after, feeds, engine)
            except EngineError:
                continue
            if part is not None:
                before, after, values = part
                yield replace(pair, before=before, after=after, feeds=values, part=True)

    def whole(self, feeds: Feeds) -> Iterator[Case]:
        for pair in self.failure.pairs:
            yield replace(pair, feeds=dict(feeds), what=pair.what + WHOLE)

    def pipeline(self, case: Case, engine: PlainMapping, **more: object) -> str:
        """Return a pipeline that runs the passes of a case alone."""
        data = {
            "imports": list(self.config.imports),
            "passes": list(case.steps or self.failure.steps),
            "engines": [{name: {**given, "when": "each"} for name, given in engine.items()}],
            **more,
            "reproducers": False,
        }
        kept = {key: value for key, value in data.items() if value}
        return yaml.safe_dump({**kept, "reproducers": False}, sort_keys=False)

    def readme(self, case: Case, engine: str, facts: Sequence[str], model: str) -> str:
        failure, known = self.failure, self.run.versions
        versions = ", ".join(f"{n} {known[n]}" for n in self.packages if n in known)
        lines = [
            f"# `{failure.title}` fails on `{self.run.model}`",
            "",
            "    python repro.py",
            "",
            *self.does,
            "",
            f"- models: {case.what}",
            *[f"- {fact}" for fact in facts],
            f"- promise: {failure.contract}; "
            f"the check that failed: {failure.judgement.check.kind}",
            f"- engine: {engine}",
            f"- versions: {versions}",
        ]
        for blame in failure.blame:
            what = f"rewrite {blame.number}, rule {blame.rule}" if blame.rule else blame.name
            lines += [f"- {what}, {blame.how}:", ""]
            lines += [f"      - {node}" for node in blame.nodes]
            lines += [f"      + {node}" for node in blame.new_nodes]
            lines.append("")
        passes = "these passes" if len(case.steps or failure.steps) > 1 else "this pass"
        lines += ["", "What the run said:", ""]
        lines += [f"    {line}" for line in failure.error.splitlines()]
        lines += [
            "",
            f"`pipeline.yaml` runs {passes} alone. Passes of your own are imported from the",
            "folder that you are in, so from theirs:",
            "",
            f"    onnx-passes -c THIS_FOLDER/pipeline.yaml -o out.onnx THIS_FOLDER/{model}",
            "",
        ]
        return "\n".join(map(one_line, lines))


_OPTIONS = {"compute_capabilities", "tf32"}


@dataclass
class LevelReproduction(Author):
    """Shows two models, and how far each gets; nothing is executed."""

    does = (
        "hands `before.onnx` and `after.onnx` to NVIDIA's compiler, prints what it says, and",
        "ends with exit code 1 while the second gets less far, 0 once it gets as far. Nothing",
        "is executed. It needs the package tensorrt-rtx, or tensorrt and a GPU. Beside them",
        "are the engine of `before.onnx` (`before.engine`), what the compiler logged of",
        "`after.onnx` (`builder.log`), and the timing cache where the builder kept one.",
    )
    packages = ("onnx-passes", "onnx", "onnx-ir", "tensorrt", "tensorrt-rtx", "python")

    @property
    def _compiler(self) -> Compiler:
        return self.failure.judgement.compiler

    def _engine(self, case: Case) -> Engine:
        engine = self._compiler.engine
        return (
            with_profiles_of(without_profiles(engine), case.before, [case.feeds])
            if case.part
            else engine
        )

    def cases(self) -> Iterator[Case]:
        judgement = self.failure.judgement
        samples = judgement.samples
        feeds = judgement.feeds if samples else {}
        if samples and judgement.state.baseline.benches:
            for case in self.cut(feeds, judgement.engine):
                try:
                    _type_outputs(judgement.engine, case.feeds, case.before, case.after)
                    yield case
                except (EngineError, ModelError):
                    continue
        yield from self.whole(feeds)

    def judge(self, case: Case) -> tuple[Finding, Finding] | None:
        engine = self._engine(case)
        try:
            before, after = (examine(engine, model) for model in (case.before, case.after))
        except ConfigError:
            return None  # no sample gives the shapes of these inputs of a part
        return (before, after) if after.level.rank < before.level.rank else None

    def bundles(self, case: Case, found: tuple[Finding, Finding] | None) -> Iterator[Bundle]:
        inner = compiler_of(self._engine(case)) or self._compiler.inner
        options = inner.options.model_dump(mode="json", include=_OPTIONS)
        profiles = inner.options.spelled_profiles
        given = {key: value for key, value in options.items() if value}
        facts = ["none of the models that were tried shows it in a build of its own"]
        if found is not None:
            before, after = found
            told = f"before.onnx is {before.level}, after.onnx is {after.level}"
            facts = [f"{told}: {after.reason}"]
        yield Bundle(
            case.before,
            case.after,
            case.feeds,
            files=built_files(self._engine(case), case),
            kind=self.failure.judgement.check.kind,
            pipeline=self.pipeline(case, {inner.package: {**given, "profiles": profiles[:1]}}),
            readme=self.readme(case, inner.name, facts, "before.onnx"),
            levels={
                "module": MODULES[inner.package],
                **options,
                "profiles": profiles[0] if profiles else {},
            },
        )


def built_files(engine: Engine, case: Case) -> dict[str, bytes]:
    """Build both models once more; return the engine, the timing cache and the log."""
    names = {"save": "before.engine", "timing_cache": "timing.cache"}
    with tempfile.TemporaryDirectory(prefix="onnx-passes-") as folder:
        paths = {option: str(Path(folder, name)) for option, name in names.items()}
        with suppress(ConfigError):
            examine(with_options(engine, **paths, cache=""), case.before)
        found = {p.name: p.read_bytes() for p in sorted(Path(folder).iterdir())}
    with suppress(ConfigError):
        told = examine(with_options(engine, verbosity="verbose", cache=""), case.after)
        lines = [line for line in (told.reason, told.log) if line]
        found["builder.log"] = "".join(f"{line}\n" for line in lines).encode()
    return {name: content for name, content in found.items() if content}


def _type_outputs(engine: Engine, feeds: Feeds, *models: ir.Model) -> None:
    """Set the types of outputs of parts, as a run gives them: TensorRT needs them."""
    with engine.prepare(models[0]) as session:
        found = session.run(feeds)
    for model in models:
        for value in model.graph.outputs:
            array = found.get(str(value.name))
            if value.type is None and isinstance(array, np.ndarray):
                value.type = ir.TensorType(ir.DataType.from_numpy(array.dtype))
                value.shape = ir.Shape([None] * array.ndim)


MOST_SAMPLES = 64
"""Number of samples that are searched for one that fails, if the check does not say."""

_LONGEST_NAME = 60


def leave_reproducer(
    failure: Failure, config: PipelineConfig, run: RunReport
) -> tuple[str | None, list[str]]:
    """Write the smallest case found that fails when its folder is run.

    Tried are, in this order, the regions in which the pairs of models differ, then the same as
    whole models; what fails is made smaller, for ``limits.reproducer_seconds``. Returns the
    folder, None if none could be written, and sentences for the user.
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
        unstable = () if case.part else self.judgement.state.baseline.unstable
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
        return case.part or self.judgement.state.comparing.settings.negative_zero


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
            ignored=() if case.part else tuple(judgement.state.baseline.unstable),
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
        return rounding_verdict(case.before, case.after, feeds, before, after, name) is True

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
