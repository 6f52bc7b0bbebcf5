"""Differences that come from where an engine rounds, and not from what a model computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from onnx_passes.errors import OnnxPassesError
from onnx_passes.pipeline.engine_side import Bench
from onnx_passes.report.text import bound
from onnx_passes.runtime.engine_base import Outputs
from onnx_passes.verify.float64 import evaluate, rounding_spread
from onnx_passes.verify.growth import error_growth
from onnx_passes.verify.result import Check, OutputCheck, Verdict

if TYPE_CHECKING:
    from onnx_passes.pipeline.state import State

_SPREADS = 4.0
"""How many times the spread of a few random roundings an element may be off."""
_GROWTH = 2.0
"""How many times the error of values of 32 bits may be what it is where each node rounds."""
_MOST_WORK = 1 << 33
"""Products and results, on all samples, up to which a float32 model runs in doubles."""


@dataclass(frozen=True)
class ContextNoise:
    """Asks how near both models are to the original in double precision, on one engine.

    Attributes:
        state: What is known of the original.
        model: The result.
        plain: An engine that runs node by node, and finds the two to agree.
        bench: The engine that does not.
    """

    state: State
    model: ir.Model
    plain: Bench
    bench: Bench

    def excuse(self, check: Check) -> Check | None:
        """Return what a check is if the places of roundings are all that differs.

        The original and the result run on the engine. Each must be as near to the original in
        double precision as it is where each node rounds; below float32, or as random roundings
        are.
        """
        baseline, plain, bench = self.state.baseline, self.plain, self.bench
        if check.scope == "region" or not check.outputs:
            return None
        wrong = {o.output for o in check.outputs if not o.passed}
        named = {name.partition("[")[0] for name in wrong}
        low = named <= self.state.comparing.low.keys()
        try:
            exact = self._exact(low=low)
            if exact is None:
                return None
            sides = [
                (plain.original, bench.original),
                (
                    plain.run(self.model, baseline.samples),
                    bench.run(self.model, baseline.samples),
                ),
            ]
        except OnnxPassesError:
            return None
        limit = self.state.comparing.settings.growth if low else _GROWTH
        for rounded, fused in sides:
            for old, new, right in zip(rounded, fused, exact, strict=True):
                expected, actual, reference = (
                    {name: values[name] for name in named if name in values}
                    for values in (old, new, right)
                )
                found = error_growth(expected, actual, reference, limit)
                far = {one.output for one in found if one.output in wrong and not one.passed}
                if not low and (far or not _as_near(named, expected, actual, reference)):
                    return None
                if far and not self._within_rounding(fused, exact, far):
                    return None
        size = max((o.max_abs or 0.0 for o in check.outputs if o.output in wrong), default=0.0)
        names = ", ".join(sorted(wrong)[:3])
        below = "below float32 " if low else ""
        reason = (
            f"context noise of up to {bound(size)} in {names}: {check.engine} rounds {below}"
            f"at other places in the result, {plain.engine.name} finds them to agree, and "
            "both are as near to float64 as where each node rounds"
        )
        outputs = tuple(settled(o) if o.output in wrong else o for o in check.outputs)
        return replace(
            check,
            verdict=Verdict.PASSED,
            reason=reason,
            sample=None,
            outputs=outputs,
            budget=(),
        )

    def _exact(self, *, low: bool) -> Sequence[Outputs] | None:
        """Return the outputs of the original in double precision, if that is not too much."""
        truth = self.state.comparing.truth
        if low or truth.wanted:
            return truth.outputs if truth.usable else None
        return evaluate(
            self.state.original.model, self.state.baseline.samples, most=_MOST_WORK
        ).outputs

    def _within_rounding(
        self, produced: Sequence[Outputs], exact: Sequence[Outputs], names: set[str]
    ) -> bool:
        """Whether each element is as near to the truth as random roundings are."""
        try:
            spreads = rounding_spread(self.state.original.model, self.state.baseline.samples)
        except OnnxPassesError:
            return False
        for found, right, spread in zip(produced, exact, spreads, strict=True):
            for name in names & spread.keys():
                new, truth = np.asarray(found[name]), np.asarray(right[name])
                if new.shape != truth.shape:
                    return False
                error = np.abs(new.astype(np.float64) - truth)
                if not (error <= _SPREADS * spread[name]).all():
                    return False
        return all(names <= spread.keys() for spread in spreads)


def _as_near(names: set[str], old: Outputs, new: Outputs, exact: Outputs) -> bool:
    """Whether no element is much farther from the truth than the farthest was before."""
    for name in names:
        sides = [outputs.get(name) for outputs in (old, new, exact)]
        if not all(isinstance(side, np.ndarray) for side in sides):
            return False
        before, after, right = (np.asarray(side, np.float64) for side in sides)
        most = float(np.nanmax(np.abs(before - right), initial=0.0))
        if not np.nanmax(np.abs(after - right), initial=0.0) <= _SPREADS * most:
            return False
    return True


def settled(output: OutputCheck, reason: str = "context noise") -> OutputCheck:
    """Return an output as passed.

    Args:
        output: What was found of it.
        reason: Why it passes.
    """
    return replace(output, passed=True, reason=reason, mismatched=0)
