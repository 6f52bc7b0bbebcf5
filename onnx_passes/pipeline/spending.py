"""The error budgets of a run: one for each engine, charged once a pass is accepted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from onnx_passes.pipeline.baseline import Bench
from onnx_passes.pipeline.budget import Budget
from onnx_passes.runtime.base import Outputs
from onnx_passes.verify.result import Check, Spent


@dataclass
class Spending:
    """What passes take of the budget of each output on each engine.

    Attributes:
        charged: Whether the pass at hand promises closeness, so that its step is charged;
            what another moves is where distances are measured from afterwards.
    """

    charged: bool = True
    _budgets: dict[str, Budget] = field(default_factory=dict)
    _spent: dict[str, Sequence[Spent]] = field(default_factory=dict)

    def begin(self, *, charged: bool) -> None:
        """Forget what a pass spent that was not accepted, and begin with the next one."""
        self._spent.clear()
        self.charged = charged

    def origin(self, bench: Bench) -> list[Outputs]:
        """Return the outputs that distances are measured from."""
        budget = self._of(bench)
        if budget.moved:
            budget.start_from(bench.accepted)
        return bench.original if budget.origin is None else budget.origin

    def spend(self, bench: Bench, drift: Check, step: Check) -> Check:
        """Charge a pass; see :meth:`Budget.spend`."""
        found = self._of(bench).spend(drift, step.outputs)
        self._spent[bench.key] = found.budget
        return found

    def accept(self, benches: Sequence[Bench]) -> None:
        """Take what the pass spent for spent."""
        for bench in benches:
            budget = self._of(bench)
            budget.accept(self._spent.get(bench.key, ()))
            budget.moved |= not self.charged
        self._spent.clear()

    def distrust(self, benches: Sequence[Bench], checks: Sequence[Check]) -> None:
        """Take for spent what a model spent that failed, and is gone on with nevertheless.

        Args:
            benches: The engines.
            checks: Its checks. A failure of another kind is not charged to later passes.
        """
        charged = {check.engine: check.budget for check in checks if check.budget}
        for bench in benches:
            budget = self._of(bench)
            budget.accept(charged.get(bench.engine.name, ()))
            budget.moved |= bench.engine.name not in charged
            budget.unsure = True
        self._spent.clear()

    def unsure(self, bench: Bench) -> bool:
        """Whether the outputs of the accepted model have to be computed before a charge."""
        return self._of(bench).unsure

    def sure(self, bench: Bench) -> None:
        """Note that they were computed."""
        self._of(bench).unsure = False

    def remember(self) -> dict[str, Any]:
        """Return what was spent, as JSON has it."""
        return {key: budget.remember() for key, budget in self._budgets.items()}

    def recall(self, remembered: dict[str, Any]) -> None:
        """Take it for what was spent by the passes so far."""
        for key, one in remembered.items():
            budget = self._budgets.setdefault(key, Budget())
            budget.recall(one)
            budget.unsure = True

    def _of(self, bench: Bench) -> Budget:
        return self._budgets.setdefault(bench.key, Budget())
