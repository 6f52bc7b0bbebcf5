"""Leave a failed check as a folder that anyone can run, as small as still shows it."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import yaml

from onnx_passes.config.schema import PipelineConfig
from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.errors import EngineError, UsageError
from onnx_passes.graph.copy import copy_model
from onnx_passes.passes.base import Pass
from onnx_passes.pipeline.baseline import Bench
from onnx_passes.pipeline.gate import Gate
from onnx_passes.report.model import Blame, RunReport
from onnx_passes.runtime.base import Data, Feeds, Outputs
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.bundle import Bundle, write_bundle
from onnx_passes.verify.compare import compare
from onnx_passes.verify.cut import cut
from onnx_passes.verify.result import Check, OutputCheck, Verdict
from onnx_passes.verify.score import score
from onnx_passes.verify.shrink import WHOLE, Case, Shrinker

_LONGEST_NAME = 60


@dataclass(frozen=True)
class Pair:
    """Two models between which a fault may lie.

    Attributes:
        before: The one that is right.
        after: The one that is not.
        what: What is between them, in a few words.
        steps: The passes between them; empty for those of the failure.
    """

    before: ir.Model
    after: ir.Model
    what: str
    steps: tuple[str, ...] = ()


@dataclass(frozen=True)
class Failure:
    """A check that failed.

    Attributes:
        name: Names the folder: the place in the run and what failed.
        title: What failed, as text.
        error: The error, as text.
        contract: What was promised, as text.
        check: The check.
        pairs: Models that may show the fault, those that differ least first.
        steps: The passes to run, as the pipeline writes them.
        blame: What the failure was traced to.
        make: Creates the pass anew; None where it is not one pass that failed.
    """

    name: str
    title: str
    error: str
    contract: str
    check: Check
    pairs: Sequence[Pair]
    steps: Sequence[str]
    blame: Sequence[Blame] = ()
    make: Callable[[], Pass] | None = None


def failed_check(checks: Sequence[Check]) -> Check | None:
    """Return the check that failed, one of an engine if there is any."""
    failed = [c for c in checks if c.verdict is Verdict.FAILED]
    first = failed[0] if failed else None
    return next((c for c in failed if c.engine is not None), first)


def bench_of(gate: Gate, check: Check) -> Bench:
    """Return the engine that a check ran on, or the first one where it needed none."""
    benches = gate.baseline.benches
    named = [bench for bench in benches if bench.engine.name == check.engine]
    return (named or benches)[0]


def reproduce(failure: Failure, gate: Gate, config: PipelineConfig, run: RunReport) -> Path:
    """Write the smallest case found that still fails.

    Tried are, in this order, the regions in which the pairs of models differ, then the same
    as whole models. The first that fails on the engine is made smaller, for as long as
    ``limits.reproducer_seconds``; where none does, the last is written as it is.

    Returns:
        The folder.

    Raises:
        OnnxPassesError: There is no sample, or the folder cannot be written.
    """
    check, samples = failure.check, gate.baseline.samples
    feeds = dict(samples[check.sample or 0]) if samples else None
    if feeds is None and check.engine is not None:
        raise UsageError("there are no reference samples")
    bench = bench_of(gate, check)
    case: Case | None = None
    results: tuple[OutputCheck, ...] | None = None
    steps: Sequence[str] = ()
    for case, chosen in _cases(failure, bench, feeds or {}):
        steps = chosen
        results = _Judge(check, bench)(case)
        if results is not None:
            break
    assert case is not None
    told: list[str] = []
    if results:
        engine, judge = bench.engine, _Judge(check, bench)
        judge.settle(case, results)
        deadline = time.monotonic() + config.limits.reproducer_seconds
        shrinker = Shrinker(case, judge, _repeats(failure, judge, case), engine, deadline)
        case = shrinker.run()
        told, results = shrinker.told, shrinker.checks
        if failure.make is not None:
            does = "makes" if shrinker.repeated else "does not make"
            told.append(f"the pass by itself {does} the same fault of before.onnx")
    elif results is None and check.engine is not None:
        told.append("none of the models that were tried fails in a run of its own")
    stem = re.sub(r"[^\w.-]+", "-", f"{Path(run.model).stem or 'model'}")[:_LONGEST_NAME]
    folder = Path(str(config.reproducers)) / f"{stem}-{failure.name}"
    failure = replace(failure, steps=steps)
    bundle = _bundle(failure, config, run, bench, case, results or (), told)
    return write_bundle(bundle, folder)


def _cases(
    failure: Failure, bench: Bench, feeds: dict[str, Data]
) -> Iterator[tuple[Case, Sequence[str]]]:
    pairs = failure.pairs
    if failure.check.engine is not None:
        for pair in pairs:
            try:
                part = cut(pair.before, pair.after, feeds, bench.engine)
            except EngineError:
                continue
            if part is not None:
                before, after, values = part
                case = Case(before, after, dict(values), pair.what, part=True)
                yield case, pair.steps or failure.steps
    for pair in pairs:
        case = Case(pair.before, pair.after, feeds, pair.what + WHOLE)
        yield case, pair.steps or failure.steps


@dataclass
class _Judge:
    """Says what differs in a case; None where it passes, cannot run, or differs otherwise."""

    check: Check
    bench: Bench
    finite: bool = False
    least: float = 0.0
    measured: bool = False

    def _run(self, model: ir.Model, feeds: Feeds) -> Outputs:
        with self.bench.engine.prepare(model) as session:
            return session.run(feeds)

    def settle(self, case: Case, results: Sequence[OutputCheck]) -> None:
        """Take a case for the fault that smaller ones have to show as well."""
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
        limits = {o.output: Tolerance(o.rtol, o.atol) for o in self.check.outputs}
        contract: Equality | Tolerance = Equality()
        if self.check.kind in ("tolerance", "drift", "metric"):
            rtol = max((o.rtol for o in self.check.outputs), default=None)
            contract = Tolerance(rtol, max((o.atol for o in self.check.outputs), default=None))
        return compare(
            old,
            new,
            contract,
            overrides=limits,
            scale_by_max=case.part,
            negative_zero=case.part,
        )


def _all_finite(outputs: Outputs) -> bool:
    arrays = (v for v in outputs.values() if isinstance(v, np.ndarray))
    return all(
        bool(np.isfinite(a).all())
        for a in arrays
        if a.dtype.kind in "fc" or "float" in a.dtype.name
    )


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


def _bundle(
    failure: Failure,
    config: PipelineConfig,
    run: RunReport,
    bench: Bench,
    case: Case,
    results: Sequence[OutputCheck],
    told: Sequence[str],
) -> Bundle:
    engine = bench.engine
    settings = engine if isinstance(engine, OnnxRuntimeEngine) else OnnxRuntimeEngine()
    return Bundle(
        case.before,
        case.after,
        case.feeds,
        limits={r.output.partition("[")[0]: (r.rtol, r.atol) for r in results},
        scaled=case.part,
        signed_zeros=case.part,
        optimization=settings.optimization,
        prepacking=settings.prepacking,
        threads=settings.threads,
        kind=failure.check.kind,
        pipeline=_pipeline(failure.steps, config, settings, case.feeds),
        readme=_readme(failure, run, case, engine.name, told),
    )


def _pipeline(
    steps: Sequence[str], config: PipelineConfig, engine: OnnxRuntimeEngine, feeds: Feeds
) -> str:
    options = {"optimization": engine.optimization, "prepacking": engine.prepacking}
    data = {
        "imports": list(config.imports),
        "passes": list(steps),
        "engines": [{"onnxruntime": {**options, "threads": engine.threads, "when": "each"}}],
        "reference": {"inputs": "inputs.npz", "allow_nan": True},
        "reproducers": False,
    }
    # Sequences and elements of less than a byte have no form that reference data is read from.
    plain = bool(feeds) and all(
        isinstance(v, np.ndarray) and not v.dtype.name.endswith(("int4", "int2"))
        for v in feeds.values()
    )
    kept = {k: v for k, v in data.items() if v != [] and (plain or k != "reference")}
    return yaml.safe_dump(kept, sort_keys=False)


def _readme(
    failure: Failure, run: RunReport, case: Case, engine: str, told: Sequence[str]
) -> str:
    names = ("onnx-passes", "onnx", "onnx-ir", "onnxruntime", "numpy", "python")
    versions = ", ".join(f"{n} {run.versions[n]}" for n in names if n in run.versions)
    lines = [
        f"# `{failure.title}` fails on `{run.model}`",
        "",
        "    python repro.py",
        "",
        "runs `before.onnx` and `after.onnx` on `inputs.npz` with ONNX Runtime, prints where",
        "their outputs differ, and ends with exit code 1 while they do, 0 once they agree.",
        "It needs the packages onnx, onnxruntime and numpy.",
        "",
        f"- models: {case.what}",
        *[f"- {sentence}" for sentence in told],
        f"- promise: {failure.contract}; the check that failed: {failure.check.kind}",
        f"- engine: {engine}",
        f"- versions: {versions}",
    ]
    for blame in failure.blame:
        what = f"rewrite {blame.number}, rule {blame.rule}" if blame.rule else blame.name
        lines += [
            f"- {what}, {blame.how}:",
            "",
            *[f"      - {node}" for node in blame.nodes],
            *[f"      + {node}" for node in blame.new_nodes],
            "",
        ]
    several = len(failure.steps) > 1
    lines += [
        "",
        "What the run said:",
        "",
        *[f"    {line}" for line in failure.error.splitlines()],
        "",
        f"`pipeline.yaml` runs {'these passes' if several else 'this pass'} alone. Passes of "
        "your own are imported from the",
        "folder that you are in, so from theirs:",
        "",
        "    onnx-passes -c THIS_FOLDER/pipeline.yaml -o out.onnx THIS_FOLDER/before.onnx",
        "",
    ]
    return "\n".join(lines)
