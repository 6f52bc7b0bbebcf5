"""Leave a model that gets less far on a compiler as a folder that anyone can run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import yaml

from onnx_passes.config.schema import PipelineConfig
from onnx_passes.errors import ConfigError, EngineError, ModelError
from onnx_passes.pipeline.gate import Gate
from onnx_passes.pipeline.levels import Compiler
from onnx_passes.pipeline.reproduce import Failure
from onnx_passes.report.model import RunReport
from onnx_passes.runtime.base import Data, Engine, Feeds
from onnx_passes.runtime.levels import Finding, examine
from onnx_passes.runtime.tensorrt.bindings import MODULES
from onnx_passes.runtime.tensorrt.engine import compiler_of, fitted, without_profiles
from onnx_passes.verify.bundle import Bundle, write_bundle
from onnx_passes.verify.cut import cut

_LONGEST_NAME = 60
_OPTIONS = ("compute_capabilities", "tf32")


@dataclass(frozen=True)
class _Case:
    """Two models, and how far each got; findings are None where that was not asked again."""

    before: ir.Model
    after: ir.Model
    feeds: Mapping[str, Data]
    engine: Engine
    what: str
    steps: Sequence[str]
    found: tuple[Finding, Finding] | None = None


def reproduce_level(
    failure: Failure, gate: Gate, config: PipelineConfig, run: RunReport
) -> Path:
    """Write the smallest case found that still gets less far.

    Tried are, in this order, the regions in which the pairs of models differ, then the same
    as whole models; where none shows it by itself, the last is written as it is.

    Returns:
        The folder.

    Raises:
        OnnxPassesError: The folder cannot be written.
    """
    compiler = next(c for c in gate.levels.compilers if c.engine.name == failure.check.engine)
    case = None
    for case in _cases(failure, gate, compiler):
        if case.found is not None:
            break
    assert case is not None
    stem = re.sub(r"[^\w.-]+", "-", f"{Path(run.model).stem or 'model'}")[:_LONGEST_NAME]
    folder = Path(str(config.reproducers)) / f"{stem}-{failure.name}"
    inner = compiler_of(case.engine) or compiler.inner
    options = inner.options.model_dump(mode="json", include=set(_OPTIONS))
    profiles = inner.options.spelled_profiles
    levels = {
        "module": MODULES[inner.package],
        **options,
        "profiles": profiles[0] if profiles else {},
    }
    kept = {key: value for key, value in options.items() if value}
    pipeline = {
        "imports": list(config.imports),
        "passes": list(case.steps),
        "engines": [{inner.package: {**kept, "profiles": profiles[:1], "when": "each"}}],
        "reproducers": False,
    }
    bundle = Bundle(
        case.before,
        case.after,
        case.feeds,
        kind=failure.check.kind,
        pipeline=yaml.safe_dump({k: v for k, v in pipeline.items() if v != []}),
        readme=_readme(failure, run, case, inner.name),
        levels=levels,
    )
    return write_bundle(bundle, folder)


def _cases(failure: Failure, gate: Gate, compiler: Compiler) -> Iterator[_Case]:
    samples = gate.baseline.samples
    feeds: Feeds = samples[failure.check.sample or 0] if samples else {}
    for pair in failure.pairs if samples and gate.baseline.benches else ():
        runner = gate.baseline.benches[0].engine
        try:
            part = cut(pair.before, pair.after, feeds, runner)
            if part is not None:
                _type_outputs(runner, part[2], *part[:2])
        except (EngineError, ModelError):
            continue
        if part is not None:
            before, after, values = part
            steps = pair.steps or failure.steps
            engine = fitted(without_profiles(compiler.engine), before, [values])
            what = f"{pair.what}, cut out"
            yield _asked(_Case(before, after, values, engine, what, steps))
    for pair in failure.pairs:
        steps = pair.steps or failure.steps
        what = f"{pair.what}, as whole models"
        yield _asked(_Case(pair.before, pair.after, feeds, compiler.engine, what, steps))


def _type_outputs(engine: Engine, feeds: Feeds, *models: ir.Model) -> None:
    """Say the types of the outputs of parts, as a run gives them: TensorRT wants them.

    Raises:
        EngineError: The first model does not run.
    """
    with engine.prepare(models[0]) as session:
        found = session.run(feeds)
    for model in models:
        for value in model.graph.outputs:
            array = found.get(str(value.name))
            if value.type is None and isinstance(array, np.ndarray):
                value.type = ir.TensorType(ir.DataType.from_numpy(array.dtype))
                value.shape = ir.Shape([None] * array.ndim)


def _asked(case: _Case) -> _Case:
    """Ask the compiler about both; a case that does not show the fault stays without."""
    try:
        before, after = (examine(case.engine, model) for model in (case.before, case.after))
    except ConfigError:
        return case  # a part has inputs that no sample tells the shapes of
    if after.level.rank >= before.level.rank:
        return case
    return _Case(
        case.before,
        case.after,
        case.feeds,
        case.engine,
        case.what,
        case.steps,
        (before, after),
    )


def _readme(failure: Failure, run: RunReport, case: _Case, engine: str) -> str:
    names = ("onnx-passes", "onnx", "onnx-ir", "tensorrt", "tensorrt-rtx", "python")
    versions = ", ".join(f"{n} {run.versions[n]}" for n in names if n in run.versions)
    shown: list[Any] = ["none of the models that were tried shows it in a build of its own"]
    if case.found is not None:
        before, after = case.found
        shown = [f"before.onnx is {before.level}, after.onnx is {after.level}: {after.reason}"]
    lines = [
        f"# `{failure.title}` fails on `{run.model}`",
        "",
        "    python repro.py",
        "",
        "hands `before.onnx` and `after.onnx` to NVIDIA's compiler, prints what it says, and",
        "ends with exit code 1 while the second gets less far, 0 once it gets as far. Nothing",
        "is executed. It needs the package tensorrt-rtx, or tensorrt and a GPU.",
        "",
        f"- models: {case.what}",
        *[f"- {sentence}" for sentence in shown],
        f"- engine: {engine}",
        f"- versions: {versions}",
        "",
        "What the run said:",
        "",
        *[f"    {line}" for line in failure.error.splitlines()],
        "",
    ]
    return "\n".join(lines)
