"""Leave a model that an engine executes otherwise, once compiled, as a folder to run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from onnx_passes.errors import ConfigError
from onnx_passes.pipeline.reproduce_level import LevelReproduction, built_files
from onnx_passes.runtime.compiler_levels import Finding, Level, examine
from onnx_passes.runtime.engine_base import Engine
from onnx_passes.runtime.layers import built_layers
from onnx_passes.runtime.tensorrt.engine import compiler_of
from onnx_passes.verify.bundle import Bundle
from onnx_passes.verify.case import Case
from onnx_passes.verify.double_precision import weigh_rounding
from onnx_passes.verify.result import OutputCheck

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
