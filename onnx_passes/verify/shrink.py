"""Make a failing case smaller: fewer nodes, then smaller dimensions, then simpler values.

Nothing is kept that was not seen to fail: each step runs both models.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir

from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.errors import OnnxPassesError
from onnx_passes.runtime.engine_base import Engine, Feeds
from onnx_passes.verify.case import (
    Case,
    arrays_of,
    declare_shapes,
    elements_of,
    places_of_nonzero,
    resized_cases,
    resizings_of,
    simpler_values,
    with_input,
    without_shapes,
)
from onnx_passes.verify.cut import around, values_of
from onnx_passes.verify.diverge import first_divergence
from onnx_passes.verify.result import OutputCheck

WHOLE = ", as whole models"


Judge = Callable[[Case], tuple[OutputCheck, ...] | None]
"""Says what differs in a case; None where it does not fail, or not in the same way."""


@dataclass
class Shrinker:
    """Shrinks a case.

    Attributes:
        case: The smallest case so far.
        judge: Says whether a case still fails.
        repeats: Whether the pass makes the same fault of a model; cases on which it does are
            not given up for smaller ones on which it does not.
        engine: What gives inner values.
        deadline: When to stop, on the clock of ``time.monotonic``.
        told: How far it came, a sentence each.
        tried: Number of cases judged.
    """

    case: Case
    judge: Judge
    repeats: Callable[[ir.Model, Feeds], bool]
    engine: Engine
    deadline: float
    told: list[str] = field(default_factory=list)
    tried: int = 0
    checks: tuple[OutputCheck, ...] = ()
    repeated: bool = False

    def run(self) -> Case:
        """Shrink as far as the time allows, and return the smallest case."""
        nodes, size = len(self.case.before.graph), elements_of(self.case)
        self.checks = self.judge(self.case) or ()
        self.repeated = self.repeats(self.case.before, self.case.feeds)
        self._fewer_nodes()
        if self._try(without_shapes(self.case)):
            self._smaller_dimensions()
        self._simpler_values()
        left = elements_of(self.case)
        counted = sum(places_of_nonzero(a).size for a in arrays_of(self.case).values())
        self.told.append(
            f"made smaller from {nodes} to {len(self.case.before.graph)} nodes in "
            f"before.onnx and from {size:,} to {left:,} input elements, {counted:,} of them "
            f"not 0, in {self.tried} tries"
        )
        if self._late():
            self.told.append("the time for it was over; more of it may not be needed")
        return self.case

    def _late(self) -> bool:
        return time.monotonic() > self.deadline

    def _try(self, case: Case) -> bool:
        if self._late():
            return False
        self.tried += 1
        try:
            if case.before is not self.case.before:
                case = self._declared(case)
            checks = self.judge(case)
        except Exception:
            # A case that cannot even be judged is dropped.
            return False
        if checks is None:
            return False
        if case.before is not self.case.before:
            repeated = self.repeats(case.before, case.feeds)
            if self.repeated and not repeated:
                return False
            self.repeated = repeated
        self.case, self.checks = case, checks
        return True

    def _declared(self, case: Case) -> Case:
        """Declare the shapes that values have by now: rules ask for them before they fire."""
        names = [str(v.name) for n in case.before.graph for v in n.outputs if v.name]
        try:
            values = values_of(case.before, names, case.feeds, self.engine)
        except OnnxPassesError:
            values = {}
        declare_shapes(case.before, {**values, **case.feeds}, inner=True)
        declare_shapes(case.after, case.feeds, inner=False)
        return case

    def _fewer_nodes(self) -> None:
        """Keep what lies between the first value that differs and those that agree."""
        case = self.case
        wrong = {check.output: check for check in self.checks if not check.passed}
        if not wrong:
            return
        limit = next(iter(wrong.values()))
        contract: Equality | Tolerance = Equality()
        if limit.rtol or limit.atol:
            contract = Tolerance(limit.rtol, limit.atol)
        try:
            parted = first_divergence(
                case.before, case.after, case.feeds, self.engine, contract
            )
            if parted is None:
                return
            small = around(
                case.before, case.after, parted.value.output, case.feeds, self.engine
            )
        except OnnxPassesError:
            return
        whole = len(case.before.graph) + len(case.after.graph)
        if small is not None and sum(len(m.graph) for m in small[:2]) < whole:
            before, after, feeds = small
            name = parted.value.output
            what = f"{case.what.removesuffix(WHOLE)}, up to {name}"
            self._try(Case(before, after, feeds, what, True, case.steps))

    def _smaller_dimensions(self) -> None:
        refused: set[tuple[int, int]] = set()
        while not self._late():
            step = next((s for s in resizings_of(self.case) if s not in refused), None)
            if step is None:
                break
            if not any(self._try(c) for c in resized_cases(self.case, *step, self._at())):
                refused.add(step)
        for name, array in arrays_of(self.case).items():
            for axis, size in enumerate(array.shape):
                if size > 1:
                    case = with_input(self.case, name, array.take([0], axis))
                    before, after = case.before.clone(), case.after.clone()
                    self._try(replace(case, before=before, after=after))

    def _at(self) -> tuple[int, ...]:
        return next((c.worst for c in self.checks if not c.passed and c.worst), ())

    def _simpler_values(self) -> None:
        for name in arrays_of(self.case):
            for simple in simpler_values(arrays_of(self.case)[name]):
                if self._try(with_input(self.case, name, simple)):
                    break
        for name in arrays_of(self.case):
            self._fewest_nonzero(name)

    def _fewest_nonzero(self, name: str) -> None:
        """Replace elements by zeros, halves of them first (ddmin)."""
        array = arrays_of(self.case)[name]
        if array.dtype.kind in "OSU":
            return
        left = places_of_nonzero(array)
        chunk = len(left) // 2
        while chunk >= 1 and not self._late():
            start = 0
            while start < len(left) and not self._late():
                candidate = arrays_of(self.case)[name].copy()
                candidate.reshape(-1)[left[start : start + chunk]] = 0
                if self._try(with_input(self.case, name, candidate)):
                    left = np.delete(left, slice(start, start + chunk))
                else:
                    start += chunk
            chunk = min(chunk, len(left)) // 2 if chunk > 1 else 0
