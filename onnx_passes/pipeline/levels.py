"""Engines that compile and do not execute: what they say of a model is no verification."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_passes.config.engines import EngineStep
from onnx_passes.errors import ConfigError, EngineUnavailableError
from onnx_passes.graph.digest import Key
from onnx_passes.report.model import EngineReport
from onnx_passes.runtime.base import Engine, Feeds
from onnx_passes.runtime.levels import Finding, Level, examine
from onnx_passes.runtime.tensorrt.engine import TensorRtEngine, compiler_of, fitted
from onnx_passes.verify.result import LEVEL, Check, Verdict
from onnx_passes.verify.snapshot import exact_key

KEPT = 4
"""Models of which it is remembered how far they got."""


@dataclass
class Compiler:
    """One engine that compiles.

    Attributes:
        engine: The engine, with profiles for the samples.
        inner: The same, as it is in its child process.
        when: "each", "checkpoint" or "end".
        where: Excerpt of the place it was written at.
        original: How far the original got.
    """

    engine: Engine
    inner: TensorRtEngine
    when: str
    where: str | None
    original: Finding = field(default_factory=lambda: Finding(Level.ABSENT))
    _known: list[tuple[Key, Finding]] = field(default_factory=list)

    def finding(self, model: ir.Model) -> Finding:
        """Return how far a model gets; one that was asked for just before is not built again.

        Raises:
            ConfigError: An option does not fit the engine or the model.
        """
        key = exact_key(model)
        known = self.known(key)
        if known is None:
            known = examine(self.engine, model)
            self._known = [*self._known[1 - KEPT :], (key, known)]
        return known

    def known(self, key: Key) -> Finding | None:
        """Return how far a model got that was asked for."""
        return next((finding for other, finding in self._known if other == key), None)

    def told(self, found: Finding) -> str:
        """Return a finding as one sentence."""
        match found.level:
            case Level.BUILT:
                return (
                    f"built for {self.inner.target}, not executed: {self.inner.not_executed}"
                )
            case Level.PARSED:
                return f"parsed, not built for {self.inner.target}: {found.reason}"
            case _:
                aside = f" ({found.help})" if found.help else ""
                return f"{found.level}: {found.reason}{aside}"


@dataclass
class Levels:
    """The engines of a pipeline that compile and do not execute.

    Attributes:
        compilers: One for every engine.
        original: The original model; None where there are no such engines.
    """

    compilers: list[Compiler] = field(default_factory=list)
    original: ir.Model | None = None

    def check(self, before: ir.Model, model: ir.Model, *moments: str) -> list[Check]:
        """Ask whether a model gets as far as the one before it, on the engines of moments."""
        return [
            _compared(compiler, before, model, "the model before")
            for compiler in self.compilers
            if compiler.when in moments
        ]

    def at_end(self, model: ir.Model, *, changed: bool) -> list[Check]:
        """Ask whether the result gets as far as the original, and as the pipeline demands."""
        checks: list[Check] = []
        for compiler in self.compilers:
            assert self.original is not None
            check = _compared(compiler, self.original, model, "the original")
            wanted = compiler.inner.require
            found = _finding(compiler, model)
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


def begin(model: ir.Model, samples: Sequence[Feeds], engines: Sequence[EngineStep]) -> Levels:
    """Find out how far the original gets on the engines that compile.

    Args:
        model: The original.
        samples: Reference inputs, from which dynamic inputs get their profiles.
        engines: All engines of the pipeline; those that execute are left out.

    Raises:
        EngineUnavailableError: The pipeline demands a level that this machine cannot give.
        ConfigError: An option does not fit the engine or the model.
    """
    found: list[Compiler] = []
    for step in engines:
        inner = compiler_of(step.engine)
        if inner is None:
            continue
        if inner.options.save:
            raise ConfigError(
                f"{inner.package}.save is not for pipelines, which build many models",
                where=step.where,
                help="onnx-passes build out.onnx -o out.engine",
            )
        engine = fitted(step.engine, model, samples)
        compiler = Compiler(engine, compiler_of(engine) or inner, step.when, step.where)
        try:
            compiler.original = _first(compiler, model)
        except (ConfigError, EngineUnavailableError) as error:
            error.where = error.where or step.where
            raise
        found.append(compiler)
    return Levels(found, model if found else None)


def _first(compiler: Compiler, model: ir.Model) -> Finding:
    inner, wanted = compiler.inner, compiler.inner.require
    if wanted == Level.EXECUTED and inner.missing is None:
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
    if wanted is not None and found.level is Level.ABSENT:
        raise EngineUnavailableError(
            f"the pipeline requires {wanted} on {inner.name}: {found.reason}", help=found.help
        )
    return found


def _finding(compiler: Compiler, model: ir.Model) -> Finding:
    if compiler.original.level is Level.ABSENT:
        return compiler.original  # nothing will appear in the course of a run
    try:
        return compiler.finding(model)
    except ConfigError as error:
        # The options fitted the original: what a pass made of its interface does not.
        return Finding(Level.PARSED, error.message, error.help)


def _compared(compiler: Compiler, before: ir.Model, model: ir.Model, what: str) -> Check:
    start = time.perf_counter()
    old, new = _finding(compiler, before), _finding(compiler, model)
    worse = new.level.rank < old.level.rank
    reason = compiler.told(new)
    if worse:
        reason = f"{old.level} {what}, and the result is {reason}"
    return Check(
        LEVEL,
        Verdict.FAILED if worse else Verdict.NOT_VERIFIED,
        compiler.engine.name,
        reason=reason,
        seconds=time.perf_counter() - start,
        level=str(new.level),
    )
