"""A failed check, asked again: on its engine, on its sample, within its limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import onnx_ir as ir

from onnx_passes.configs.sections import OutputTolerance
from onnx_passes.contracts import Contract, Equality, Tolerance
from onnx_passes.errors import EngineError
from onnx_passes.passes.context import Application
from onnx_passes.passes.patterns import describe
from onnx_passes.pipeline.attempt import Attempts
from onnx_passes.pipeline.baseline import Baseline
from onnx_passes.pipeline.compilers import Compiler
from onnx_passes.pipeline.culprit import Culprit
from onnx_passes.pipeline.engine_side import Bench
from onnx_passes.pipeline.gate import Gate
from onnx_passes.pipeline.lost_support import Regions
from onnx_passes.report.run_report import Blame
from onnx_passes.runtime.engine_base import Engine, Feeds, Level
from onnx_passes.runtime.engine_models import with_barriers, with_seeds
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.diverge import first_divergence
from onnx_passes.verify.judge import Promise
from onnx_passes.verify.local import LocalScore, local_scores
from onnx_passes.verify.result import ENGINE, LEVEL, Check, Verdict
from onnx_passes.verify.score import score
from onnx_passes.verify.witness import Witnesses


def error_of(model: ir.Model, bench: Bench, baseline: Baseline) -> float:
    """Return how far the outputs of a model are from those of the original, on one engine.

    One that does not run is infinitely far off.

    Args:
        model: The model.
        bench: The engine, with the outputs of the original.
        baseline: The samples, and the outputs that do not repeat.
    """
    try:
        produced = bench.run(model, baseline.samples)
    except EngineError:
        return math.inf
    return score(bench.original, produced, baseline.unstable)


@dataclass(frozen=True)
class Judgement:
    """A check that failed, and what it was made with.

    Attributes:
        gate: What checked.
        check: The check.
        contracts: What the pass promises; none where several passes are judged.
        override: The tolerance that the pipeline gives the pass.
    """

    gate: Gate
    check: Check
    contracts: Sequence[Contract] = ()
    override: OutputTolerance | None = None

    @classmethod
    def of(
        cls,
        gate: Gate,
        checks: Sequence[Check],
        contracts: Sequence[Contract] = (),
        override: OutputTolerance | None = None,
    ) -> Judgement | None:
        """Return the first check that failed, one of an engine if there is any.

        Args:
            gate: The gate that checked.
            checks: The checks of a pass.
            contracts: Its contracts.
            override: Limits of this use of the pass; None for none.
        """
        failed = [check for check in checks if check.verdict is Verdict.FAILED]
        failed.sort(key=lambda check: (check.engine is None, check.kind == ENGINE))
        return cls(gate, failed[0], contracts, override) if failed else None

    @property
    def numeric(self) -> bool:
        """Whether numbers decided: an engine ran the models on samples."""
        check = self.check
        return bool(check.engine and check.kind != LEVEL and self.samples)

    @property
    def samples(self) -> Sequence[Feeds]:
        """The reference samples."""
        return self.gate.baseline.samples

    @property
    def feeds(self) -> Feeds:
        """The sample that failed."""
        return self.samples[self.check.sample or 0]

    @cached_property
    def bench(self) -> Bench:
        """The engine of the check, or the first one where it needed none."""
        benches = self.gate.baseline.benches
        named = [bench for bench in benches if bench.engine.name == self.check.engine]
        return (named or benches)[0]

    @property
    def engine(self) -> Engine:
        """What runs the models that are judged, whole or in parts."""
        return self.bench.engine

    def prepare(self, model: ir.Model) -> ir.Model:
        """Return a model as the engine runs it, for scripts without this package."""
        model = with_seeds(model, getattr(self.engine, "seed", 0))
        return with_barriers(model) if self.bench.node_by_node else model

    @cached_property
    def limits(self) -> tuple[Equality | Tolerance, dict[str, Tolerance]]:
        """What values inside a model are held to, and those of single values."""
        limit, single = self.gate.local_limit(self.check.kind, self.contracts, self.override)
        by_type = isinstance(limit, Tolerance) and limit.rtol is None and limit.atol is None
        wrong = [output for output in self.check.outputs if not output.passed]
        # Without its absolute part, the limit of a type is where double precision decided.
        decided = any(o.limit and not o.atol for o in wrong)
        if by_type and decided and self.check.kind == "tolerance":
            return Tolerance(atol=0.0), single
        return limit, single

    @property
    def promise(self) -> Promise:
        """What values inside a model must keep on an engine that compiles."""
        contract, overrides = self.limits
        return Promise(contract, overrides=overrides, inside=True, negative_zero=True)

    def scores(
        self, attempts: Attempts, applied: Sequence[Application], skip: frozenset[str]
    ) -> list[LocalScore | None]:
        """Score each rewrite of a pass by itself, by numbers or by what a compiler takes.

        Args:
            attempts: Runs the pass.
            applied: The rewrites that it makes.
            skip: Keys of the rewrites that are left out.

        Raises:
            OnnxPassesError: The pass raised, or does not repeat its rewrites.
        """
        regions = self.check.kind == LEVEL and bool(self.samples)
        if not (self.numeric or regions) or not applied:
            return []
        witnesses = Witnesses()
        keys = [application.key for application in applied]
        after = attempts.apply(skip=skip, expected=keys, witness=witnesses).model
        before, pieces = attempts.before.model, witnesses.pieces
        if regions and self.check.level == Level.EXECUTED:
            return self.regions(before, after).measured(pieces, self.promise)
        if regions:
            return self.regions(before, after).scores(pieces)
        return local_scores(before, after, pieces, self.feeds, self.engine, *self.limits)

    @property
    def compiler(self) -> Compiler:
        """The engine of a check of levels."""
        compilers = self.gate.levels.compilers
        return next(c for c in compilers if c.engine.name == self.check.engine)

    def regions(self, before: ir.Model, after: ir.Model) -> Regions:
        """Return the regions between two models, for the compiler of the check.

        Args:
            before: The model before the pass.
            after: The model after it.
        """
        executing = [bench.engine for bench in self.gate.baseline.benches]
        engine = executing[0] if executing else OnnxRuntimeEngine()
        said = self.check.reason or ""
        return Regions(self.compiler, before, after, self.feeds, engine, said)

    def blame(
        self,
        culprits: Sequence[Culprit],
        before: ir.Model,
        after: ir.Model,
        place: tuple[int | None, str],
    ) -> list[Blame]:
        """Return what a failure is due to: rewrites, or the first value that diverges.

        Args:
            culprits: The rewrites found wrong.
            before: A model that is right.
            after: The model that is not.
            place: Index and name of the pass.
        """
        sample = self.check.sample
        found = [
            Blame(
                *place,
                culprit.how,
                culprit.application.number,
                culprit.application.rule,
                list(culprit.application.nodes),
                list(culprit.application.new_nodes),
                culprit.value,
                culprit.score,
                sample,
            )
            for culprit in culprits
        ]
        if not self.numeric or (found and found[0].value is not None):
            return found
        parted = first_divergence(before, after, self.feeds, self.engine, *self.limits)
        if parted is None:
            return found
        if found:
            found[0].value = parted.value
            return found
        nodes, new = ([describe(n)] if n else [] for n in (parted.before, parted.after))
        how, value = "the first value that diverges", parted.value
        return [Blame(*place, how, nodes=nodes, new_nodes=new, value=value, sample=sample)]
