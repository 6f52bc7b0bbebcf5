"""Undo rewrites that do not pay under the objective of a run.

Each rewrite that does not always pay (``onnx_passes.passes.paying``) is measured: the pass is
run again without the rewrites of its rule, and both models are compared where they differ.
What a pass that is named there changes without rules is measured and undone as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import onnx_ir as ir

from onnx_passes.configs.engine_configs import resolve_engines
from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.errors import ConfigError
from onnx_passes.passes.base import Pass
from onnx_passes.passes.context import Application
from onnx_passes.passes.paying import may_not_pay
from onnx_passes.pipeline.attempt import Attempt, Attempts
from onnx_passes.pipeline.checking import make_baseline
from onnx_passes.pipeline.objective import UNITS, Meter, Objective, RewriteCost, fast_form
from onnx_passes.report.pass_report import PaysReport

if TYPE_CHECKING:
    from onnx_passes.pipeline.gate import Gate
    from onnx_passes.runtime.engine_base import Feeds
    from onnx_passes.verify.reference_data import ReferenceData

_MOST_ROUNDS = 4
"""Undone rewrites give way to others, which are measured in turn, so many times at most."""


@dataclass
class Chosen:
    """What is left of a pass, and why.

    Attributes:
        rest: The pass with the rewrites that pay; None for nothing of it.
        skip: Keys of the rewrites that were undone.
        reports: What was measured.
    """

    rest: Attempt | None
    skip: frozenset[str] = frozenset()
    reports: list[PaysReport] = field(default_factory=list)

    @property
    def undone(self) -> bool:
        """Whether anything was undone."""
        return any(not report.kept for report in self.reports)

    @property
    def notes(self) -> list[str]:
        """Say what was undone, a sentence each."""
        return [
            f"undone, since it does not pay: {_told(r)}" for r in self.reports if not r.kept
        ]


@dataclass
class Paying:
    """Decides which rewrites of passes stay.

    Attributes:
        meter: Measures them.
    """

    meter: Meter
    _kept: set[str] = field(default_factory=set)

    @classmethod
    def of(
        cls,
        objective: Objective,
        config: PipelineConfig,
        original: ir.Model,
        gate: Gate | None,
        reference: ReferenceData | None,
    ) -> Paying:
        """Measure on the last engine of a pipeline.

        Args:
            objective: What has to be small.
            config: The pipeline file.
            original: The model before the first pass.
            gate: What checks; None where nothing is checked.
            reference: Reference data, in place of what the pipeline names or generates.

        Raises:
            ConfigError: There is no engine to measure on.
        """
        engines = resolve_engines(config)
        if not engines:
            raise ConfigError(
                "an objective needs an engine, and the pipeline has none",
                where=config.where("objective"),
                help="name one under 'engines'",
            )
        unchecked = cache(lambda: make_baseline(original, config, reference))

        def samples() -> Sequence[Feeds]:
            """Return inputs that the original runs on, as it is called now."""
            baseline = unchecked() if gate is None else gate.state.baseline
            baseline.ready("each")
            return baseline.samples

        fast = fast_form(engines[-1].engine)
        return cls(Meter(objective, fast, engines[0].engine, samples))

    def choose(self, pass_: Pass, attempts: Attempts, made: Attempt) -> Chosen:
        """Undo what does not pay.

        Args:
            pass_: The pass.
            attempts: Runs it again with fewer rewrites.
            made: What it made.

        Raises:
            EngineError: The engine does not run a model.
            OnnxPassesError: The pass raised in a second run.
        """
        if not made.applied:
            return self._choose_whole(pass_, attempts, made)
        chosen = Chosen(made)
        for _ in range(_MOST_ROUNDS):
            rules = [a.rule for a in self._open(pass_, chosen)]
            if not rules:
                break
            # What builds on the rewrites of an earlier rule is measured before them.
            for rule in dict.fromkeys(reversed(rules)):
                self._choose_of(rule, pass_, attempts, chosen)
        return chosen

    def _open(self, pass_: Pass, chosen: Chosen) -> list[Application]:
        """Return the rewrites that are still to be measured."""
        assert chosen.rest is not None
        return [
            a
            for a in chosen.rest.applied
            if a.key not in self._kept and may_not_pay(pass_, a.rule)
        ]

    def _choose_of(self, rule: str, pass_: Pass, attempts: Attempts, chosen: Chosen) -> None:
        """Measure the rewrites of one rule, and undo those that do not pay."""
        rest = chosen.rest
        assert rest is not None
        mine = [a for a in self._open(pass_, chosen) if a.rule == rule]
        if not mine:
            return
        keys = frozenset(a.key for a in mine)
        without = attempts.apply(skip=chosen.skip | keys)
        costs = self.meter.measure(without.model, rest.model, mine)
        if costs is None:  # they change how the model is called, which is asked for
            self._kept |= keys
            return
        lost: set[str] = set()
        for applied, cost in costs:
            part = {a.key for a in applied}
            chosen.reports.append(self._report(rule, sorted(part), cost))
            if cost.pays:
                self._kept |= part
            else:
                lost |= part
        if lost:
            chosen.skip |= lost
            all_lost = lost == keys
            chosen.rest = without if all_lost else attempts.apply(skip=chosen.skip)

    def _choose_whole(self, pass_: Pass, attempts: Attempts, made: Attempt) -> Chosen:
        """Measure a pass that records no rewrites, and undo all of it if that does not pay."""
        if not may_not_pay(pass_, pass_.name):
            return Chosen(made)
        costs = self.meter.measure(attempts.before.model, made.model, ())
        if costs is None:
            return Chosen(made)
        total = _sum([cost for _, cost in costs])
        report = self._report(pass_.name, [], total)
        return Chosen(made if total.pays else None, reports=[report])

    def _report(self, rules: str, keys: Sequence[str], cost: RewriteCost) -> PaysReport:
        meter = self.meter
        return PaysReport(
            rules,
            list(keys),
            meter.objective,
            UNITS[meter.objective],
            cost.without,
            cost.with_them,
            "model" if cost.whole else "region",
            cost.pays,
            meter.engine.name if meter.objective == "time" else None,
            cost.noise,
        )


def _sum(costs: Sequence[RewriteCost]) -> RewriteCost:
    noises = [cost.noise for cost in costs if cost.noise is not None]
    return RewriteCost(
        sum(cost.without for cost in costs),
        sum(cost.with_them for cost in costs),
        sum(noises) if noises else None,
        any(cost.whole for cost in costs),
    )


def _told(report: PaysReport) -> str:
    """Return a measurement as text: rewrites, and their cost before and after."""
    what = ", ".join(report.keys) or report.rules
    if report.unit == "s":
        numbers = f"{report.without * 1e6:.1f} -> {report.with_it * 1e6:.1f} us"
        noise = f", noise {(report.noise or 0.0) * 1e6:.1f} us"
        return f"{what} ({numbers}{noise}, {report.scope}, on {report.engine})"
    return f"{what} ({report.without:g} -> {report.with_it:g} {report.unit}, {report.scope})"
