"""Leave a failed check as a folder that anyone can run, as small as still shows it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir
import yaml

from onnx_passes.config.resolve import PassStep
from onnx_passes.config.schema import PipelineConfig
from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.errors import EngineError, OnnxPassesError, UsageError
from onnx_passes.passes.base import Pass
from onnx_passes.passes.context import Application, Rewrites
from onnx_passes.pipeline.baseline import Bench
from onnx_passes.pipeline.gate import Gate
from onnx_passes.report.model import PassReport, RunReport
from onnx_passes.runtime.base import Data, Feeds
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.bundle import Bundle, write_bundle
from onnx_passes.verify.compare import compare
from onnx_passes.verify.cut import cut
from onnx_passes.verify.result import Check, OutputCheck, Verdict
from onnx_passes.verify.snapshot import Snapshot

_LONGEST_NAME = 60


@dataclass(frozen=True)
class Failure:
    """A pass whose check failed.

    Attributes:
        step: The pass.
        make: Creates it anew.
        report: What is reported of it, checks included.
        before: The model before it.
        after: The model that it made.
        applied: The rewrites that it made.
        culprit: The one that is to blame, where that is known.
        skip: Keys of rewrites that it was not to make.
    """

    step: PassStep
    make: Callable[[], Pass]
    report: PassReport
    before: Snapshot
    after: ir.Model
    applied: Sequence[Application]
    culprit: Application | None
    skip: frozenset[str] = frozenset()

    @property
    def check(self) -> Check:
        """The check that failed, one of an engine if there is any."""
        failed = [c for c in self.report.checks if c.verdict is Verdict.FAILED]
        return next((c for c in failed if c.engine is not None), failed[0])


@dataclass(frozen=True)
class _Case:
    before: ir.Model
    after: ir.Model
    feeds: Mapping[str, Data]
    what: str
    part: bool = False


def reproduce(failure: Failure, gate: Gate, config: PipelineConfig, run: RunReport) -> Path:
    """Write the smallest case found that still fails.

    Tried are, in this order, the region that the guilty rewrite changed, the region that
    changed up to it, and that of the whole pass, then the same as whole models. A case that
    does not fail on the engine is passed over; the last is written as it is.

    Returns:
        The folder.

    Raises:
        OnnxPassesError: There is no sample, or the folder cannot be written.
    """
    check, samples = failure.check, gate.baseline.samples
    if not samples:
        raise UsageError("there are no reference samples")
    bench = _bench(gate, check)
    last, results = None, None
    for last in _cases(failure, gate, bench, samples[check.sample or 0]):
        results = _failing(last, check, bench)
        if results is not None:
            break
    assert last is not None
    name = re.sub(r"[^\w.-]+", "-", f"{Path(run.model).stem or 'model'}")[:_LONGEST_NAME]
    folder = Path(str(config.reproducers))
    folder /= f"{name}-{failure.report.index:04d}-{failure.step.cls.name}"
    return write_bundle(_bundle(failure, config, run, bench, last, results or ()), folder)


def _bench(gate: Gate, check: Check) -> Bench:
    benches = gate.baseline.benches
    named = [bench for bench in benches if bench.engine.name == check.engine]
    return (named or benches)[0]


def _cases(failure: Failure, gate: Gate, bench: Bench, feeds: Feeds) -> Iterator[_Case]:
    whole = failure.before.model, failure.after
    if failure.check.kind in ("drift", "metric"):
        # Both hold the model against the original: no single rewrite need be at fault.
        yield _Case(gate.original.model, failure.after, feeds, "the whole models")
        return
    pairs = [(*pair, what) for pair, what in _prefixes(failure)]
    pairs.append((*whole, "what the pass changed"))
    if failure.check.engine is not None:
        for old, new, what in pairs:
            try:
                part = cut(old, new, feeds, bench.engine)
            except EngineError:
                continue
            if part is not None:
                yield _Case(*part, what, part=True)
    for old, new, what in pairs:
        yield _Case(old, new, feeds, f"{what}, as whole models")


def _prefixes(failure: Failure) -> Iterator[tuple[tuple[ir.Model, ir.Model], str]]:
    if failure.culprit is None:
        return
    count = list(failure.applied).index(failure.culprit) + 1
    number = failure.culprit.number
    try:
        good, bad = (_limited(failure, n) for n in (count - 1, count))
    except Exception:
        # A pass that does not repeat what it did is shown as a whole.
        return
    yield (good, bad), f"what rewrite {number} changed"
    yield (failure.before.model, bad), f"what the pass changed up to rewrite {number}"


def _limited(failure: Failure, count: int) -> ir.Model:
    pass_ = failure.make()
    pass_.context.rewrites = Rewrites(limit=count, skip=failure.skip)
    model = pass_(failure.before.restore()).model
    keys = [a.key for a in pass_.context.rewrites.applied]
    if keys != [a.key for a in failure.applied[:count]]:
        raise OnnxPassesError("the pass does not repeat its rewrites")
    return model


def _failing(case: _Case, check: Check, bench: Bench) -> Sequence[OutputCheck] | None:
    """Return the comparison of a case that fails; None for one that passes, or cannot run."""
    try:
        old = bench.run(case.before, [case.feeds])[0]
    except EngineError:
        return None
    try:
        new = bench.run(case.after, [case.feeds])[0]
    except EngineError:
        return ()
    limits = {o.output: Tolerance(o.rtol, o.atol) for o in check.outputs}
    contract: Equality | Tolerance = Equality()
    if check.kind in ("tolerance", "drift"):
        rtol = max((o.rtol for o in check.outputs), default=0.0)
        contract = Tolerance(rtol, max((o.atol for o in check.outputs), default=0.0))
    results = compare(
        old,
        new,
        contract,
        overrides=limits,
        scale_by_max=case.part,
        negative_zero=case.part,
    )
    return None if all(result.passed for result in results) else results


def _bundle(
    failure: Failure,
    config: PipelineConfig,
    run: RunReport,
    bench: Bench,
    case: _Case,
    results: Sequence[OutputCheck],
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
        pipeline=_pipeline(failure.step, config, settings, case.feeds),
        readme=_readme(failure, run, case, engine.name),
    )


def _pipeline(
    step: PassStep, config: PipelineConfig, engine: OnnxRuntimeEngine, feeds: Feeds
) -> str:
    options = {"optimization": engine.optimization, "prepacking": engine.prepacking}
    data = {
        "imports": list(config.imports),
        "passes": [step.text],
        "engines": [{"onnxruntime": {**options, "threads": engine.threads, "when": "each"}}],
        "reference": {"inputs": "inputs.npz", "allow_nan": True},
        "reproducers": False,
    }
    kept = {k: v for k, v in data.items() if v != [] and (feeds or k != "reference")}
    return yaml.safe_dump(kept, sort_keys=False)


def _readme(failure: Failure, run: RunReport, case: _Case, engine: str) -> str:
    names = ("onnx-passes", "onnx", "onnx-ir", "onnxruntime", "numpy", "python")
    versions = ", ".join(f"{n} {run.versions[n]}" for n in names if n in run.versions)
    lines = [
        f"# `{failure.step.text}` fails on `{run.model}`",
        "",
        "    python repro.py",
        "",
        "runs `before.onnx` and `after.onnx` on `inputs.npz` with ONNX Runtime, prints where",
        "their outputs differ, and ends with exit code 1 while they do, 0 once they agree.",
        "It needs the packages onnx, onnxruntime and numpy.",
        "",
        f"- models: {case.what}",
        f"- promise: {failure.report.contract}; the check that failed: {failure.check.kind}",
        f"- engine: {engine}",
        f"- versions: {versions}",
    ]
    if failure.culprit is not None:
        rewrite = failure.culprit
        lines += [
            f"- rewrite {rewrite.number}, rule {rewrite.rule}:",
            "",
            *[f"      - {node}" for node in rewrite.nodes],
            *[f"      + {node}" for node in rewrite.new_nodes],
        ]
    lines += [
        "",
        "What the run said:",
        "",
        *[f"    {line}" for line in (failure.report.error or "").splitlines()],
        "",
        "`pipeline.yaml` runs this pass alone. Passes of your own are imported from the",
        "folder that you are in, so from theirs:",
        "",
        "    onnx-passes -c THIS_FOLDER/pipeline.yaml -o out.onnx THIS_FOLDER/before.onnx",
        "",
    ]
    return "\n".join(lines)
