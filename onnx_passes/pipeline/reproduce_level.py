"""Leave a model that gets less far on a compiler as a folder that anyone can run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx_ir as ir

from onnx_passes.errors import ConfigError, EngineError, ModelError
from onnx_passes.pipeline.compilers import Compiler
from onnx_passes.pipeline.reproducer import Author
from onnx_passes.runtime.engine_base import Engine, Feeds, Finding, examine
from onnx_passes.runtime.tensorrt.bindings import MODULES
from onnx_passes.runtime.tensorrt.engine import (
    compiler_of,
    with_options,
    with_profiles_of,
    without_profiles,
)
from onnx_passes.verify.bundle import Bundle
from onnx_passes.verify.case import Case

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
        if samples and judgement.gate.baseline.benches:
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
    """Build both models once more; return the engine, the timing cache and the log.

    Args:
        engine: The engine.
        case: The models before and after.
    """
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
