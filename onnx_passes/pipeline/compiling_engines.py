"""Engines that compile: how far they get with a model, and its numbers where they execute.

What was only built is not verified. What was executed is compared with the original on the
same engine, as that of any other engine is.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from onnx_passes.configs.engine_configs import EngineStep
from onnx_passes.errors import ConfigError, EngineUnavailableError
from onnx_passes.passes.context import Application
from onnx_passes.pipeline.comparing import Comparing
from onnx_passes.pipeline.engine_side import Bench
from onnx_passes.report.run_report import EngineReport
from onnx_passes.runtime.engine_base import Engine, Feeds, Finding, Level, only_compiles
from onnx_passes.verify.content_key import exact_key
from onnx_passes.verify.evidence import Evidence
from onnx_passes.verify.interface_check import interface_of
from onnx_passes.verify.judge import Promise
from onnx_passes.verify.result import LEVEL, Check, Verdict

if TYPE_CHECKING:
    from onnx_passes.pipeline.compilers import Compiler
    from onnx_passes.pipeline.region_pairs import Batch


@dataclass
class CompiledLevels:
    """The engines of a pipeline that compile.

    Attributes:
        compilers: One for every engine.
        original: The original model; None where there are no such engines.
        comparing: Puts numbers side by side; None where nothing is executed.
    """

    compilers: list[Compiler] = field(default_factory=list)
    original: ir.Model | None = None
    comparing: Comparing | None = None

    def check(self, before: ir.Model, model: ir.Model, *moments: str) -> list[Check]:
        """Ask whether a model gets as far as the one before it, on the engines of moments.

        Numbers are held against those of the original.

        Args:
            before: The model before the pass.
            model: The model after it.
            *moments: Which engines are asked: those of "each", "checkpoint" or "end".
        """
        return [
            self._compared(compiler, before, model, "the model before")
            for compiler in self.compilers
            if compiler.when in moments
        ]

    def change(
        self,
        name: str,
        models: tuple[ir.Model, ir.Model],
        applied: Sequence[Application],
        promises: Sequence[Promise],
        engine: Engine,
    ) -> Batch | None:
        """Cut what a pass changed into parts that compilers run.

        Args:
            name: The pass.
            models: The model before and after it.
            applied: The rewrites that it recorded.
            promises: What it promises.
            engine: What runs the model before, for the values at the borders of parts.

        Returns:
            The parts; None where no compiler executes.
        """
        samples = next((c.samples for c in self.compilers if c.regions is not None), ())
        if not samples or not promises:
            return None
        from onnx_passes.pipeline.region_pairs import pair_up  # slow to import

        return pair_up(name, models, applied, promises, samples, engine)

    def later(self, known: tuple[Batch, ...], batch: Batch, limit: int) -> tuple[Batch, ...]:
        """Return what compilers are to run that are asked later, with one more pass.

        Args:
            known: What passes before it changed.
            batch: What the pass changed.
            limit: Bytes of recorded values that may be kept.
        """
        if all(c.regions is None or c.when == "each" for c in self.compilers):
            return known
        if batch.nbytes + sum(one.nbytes for one in known) > limit:
            batch = batch.not_kept()
        return (*known, batch)

    def by_region(
        self, batches: Sequence[Batch], *moments: str
    ) -> tuple[list[Check], list[Evidence]]:
        """Run what passes changed on the compilers of moments, as far as it was not run yet.

        Returns:
            A check for each pass and compiler, and what vouches for each part on the first.
        """
        checks: list[Check] = []
        evidence: list[Evidence] = []
        for compiler in self.compilers:
            if compiler.regions is None or compiler.when not in moments:
                continue
            found = batches if "each" in moments else compiler.regions.open(batches)
            judged = [compiler.regions.judge(batch) for batch in found]
            checks += [check for made, _ in judged for check in made]
            evidence = evidence or [one for _, found in judged for one in found]
        return checks, evidence

    def at_end(self, model: ir.Model, *, changed: bool) -> list[Check]:
        """Ask whether the result gets as far as the original, and as the pipeline demands.

        Args:
            model: The result.
            changed: Whether it differs from the original.
        """
        checks: list[Check] = []
        for compiler in self.compilers:
            assert self.original is not None
            check = self._compared(compiler, self.original, model, "the original")
            wanted = compiler.inner.require
            found = compiler.reach(model)
            if wanted is not None and found.level.rank < Level(wanted).rank:
                reason = f"the pipeline requires {wanted}: {compiler.told(found)}"
                check = Check(
                    LEVEL,
                    Verdict.FAILED,
                    check.engine,
                    reason=reason,
                    seconds=check.seconds,
                    level=check.level,
                )
            if changed or check.verdict is Verdict.FAILED:
                checks.append(check)
        return checks

    def _compared(
        self, compiler: Compiler, before: ir.Model, model: ir.Model, what: str
    ) -> Check:
        start = time.perf_counter()
        old, new = compiler.reach(before), compiler.reach(model)
        # A pass that may change how a model is called cannot be blamed for its numbers.
        called = interface_of(model) == compiler.called
        reached = old.level if called else min(old.level, Level.BUILT, key=lambda x: x.rank)
        worse = new.level.rank < reached.rank
        reason = compiler.told(new)
        if worse:
            reason = f"{old.level} {what}, and the result is {reason}"
        name = compiler.engine.name
        verdict = Verdict.FAILED if worse else Verdict.NOT_VERIFIED
        check = Check(LEVEL, verdict, name, reason=reason)
        if new.level is Level.EXECUTED and not worse:
            check = self._numbers(compiler, new)
        return replace(check, seconds=time.perf_counter() - start, level=str(new.level))

    def _numbers(self, compiler: Compiler, found: Finding) -> Check:
        """Hold numbers against those of the original, within the limits of drift."""
        name = compiler.engine.name
        if compiler.original.level is not Level.EXECUTED:
            reason = f"executed, and the original is not: {compiler.told(compiler.original)}"
            return Check(LEVEL, Verdict.NOT_VERIFIED, name, reason=reason)
        assert self.comparing is not None
        assert self.original is not None
        thresholds, ignored = self.comparing.thresholds, self.comparing.baseline.unstable
        noise = compiler.noise(self.original)
        limits = thresholds.above(thresholds.drift(), noise, ignored, "drift")
        bench = Bench(compiler.engine, compiler.when)
        expected, produced = compiler.original.outputs, found.outputs
        check = self.comparing.compare(LEVEL, bench, expected, produced, *limits)
        again = partial(self.comparing.compare, LEVEL, bench, expected, produced, limits[0])
        check = thresholds.or_noise(check, again)
        return check if check.reason else replace(check, reason=compiler.told(found))

    def reports(self, model: ir.Model | None = None) -> list[EngineReport]:
        """Report each engine, and how far a model got on it, or the original before that."""
        key = None if model is None else exact_key(model)
        found: list[EngineReport] = []
        for compiler in self.compilers:
            known = None if key is None else compiler.known(key)
            reached = known or compiler.original
            details = compiler.engine.describe()
            found.append(
                EngineReport(
                    compiler.engine.name,
                    compiler.when,
                    details,
                    level=str(reached.level),
                    level_reason=compiler.told(reached),
                )
            )
        return found


def begin(
    model: ir.Model, samples: Sequence[Feeds], engines: Sequence[EngineStep]
) -> CompiledLevels:
    """Find out how far the original gets on the engines that compile.

    Numbers are compared once ``comparing`` of what is returned is set.

    Args:
        model: The original.
        samples: Reference inputs, from which dynamic inputs get their profiles.
        engines: All engines of the pipeline; those that execute are left out.

    Raises:
        EngineUnavailableError: The pipeline demands a level that this machine cannot give.
        ConfigError: An option does not fit the engine or the model.
    """
    engines = [step for step in engines if only_compiles(step.engine)]
    if not engines:
        return CompiledLevels()
    # Few pipelines have such engines: the others do not wait until these are imported.
    from onnx_passes.pipeline.compilers import Compiler
    from onnx_passes.pipeline.region_builds import RegionBuilds
    from onnx_passes.runtime.tensorrt.engine import compiler_of, with_profiles_of

    found: list[Compiler] = []
    # Such engines take nothing of size 0, which one generated sample has.
    samples = [feeds for feeds in samples if _has_elements(feeds)] or samples
    for step in engines:
        inner = compiler_of(step.engine)
        assert inner is not None, "it only compiles"
        if inner.options.save:
            raise ConfigError(
                f"{inner.package}.save is not for pipelines, which build many models",
                where=step.where,
                help="onnx-passes build out.onnx -o out.engine",
            )
        if inner.options.load:
            raise ConfigError(
                f"{inner.package}.load is not for pipelines, whose models change",
                where=step.where,
                help="onnx-passes compare model.onnx --engine 'tensorrt-rtx{load=E.engine}'",
            )
        engine = with_profiles_of(step.engine, model, samples)
        compiler = Compiler(
            engine,
            compiler_of(engine) or inner,
            step.when,
            step.where,
            list(samples) if inner.executes else (),
            interface_of(model),
        )
        start = time.perf_counter()
        try:
            compiler.original = _first(compiler, model)
        except (ConfigError, EngineUnavailableError) as error:
            error.where = error.where or step.where
            raise
        if compiler.original.level is Level.EXECUTED and inner.options.region_builds:
            most, share = inner.options.region_builds, inner.options.region_share
            seconds = time.perf_counter() - start
            compiler.regions = RegionBuilds(engine, most, share, seconds)
        found.append(compiler)
    return CompiledLevels(found, model)


def _has_elements(feeds: Feeds) -> bool:
    return all(not isinstance(data, np.ndarray) or data.size for data in feeds.values())


def _first(compiler: Compiler, model: ir.Model) -> Finding:
    inner, wanted = compiler.inner, compiler.inner.require
    if wanted == Level.EXECUTED and inner.missing is None and not inner.executes:
        raise EngineUnavailableError(
            f"the pipeline requires {wanted} on {inner.name}: {inner.not_executed}",
            help="lower 'require' to built, which is no verification",
        )
    missing = inner.missing
    found = (
        compiler.finding(model)
        if missing is None
        else Finding(Level.ABSENT, missing.message, missing.help)
    )
    if wanted != Level.ABSENT and found.level is Level.ABSENT:
        asked = "" if wanted is None else f"the pipeline requires {wanted} on {inner.name}: "
        raise EngineUnavailableError(f"{asked}{found.reason}", help=found.help)
    return found
