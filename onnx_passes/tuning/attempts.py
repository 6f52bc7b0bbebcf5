"""Choices that are run: on few samples first, and on all if these allow it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import onnx_ir as ir

from onnx_passes.model.save import written_bytes
from onnx_passes.runtime.engine_base import Outputs
from onnx_passes.tuning.all_samples import AllSamples, RejectedError
from onnx_passes.tuning.choice import ChoiceTable
from onnx_passes.tuning.choice_runs import Choice
from onnx_passes.tuning.failures import why_of
from onnx_passes.tuning.few_samples import DISAGREES, FewSamples
from onnx_passes.tuning.loss_budget import Spent
from onnx_passes.tuning.search_journal import Record, plain
from onnx_passes.tuning.search_task import Task, TriedModel
from onnx_passes.tuning.sketch import Sketch
from onnx_passes.tuning.tried_models import find_tried, record_tried

_DOUBT, _LEAST_DOUBT = 1.5, 1.02
"""Choices may lose less than expected. Cheaper ones that are expected to use up to this share
of the budget are run on few samples as well. The truer expectations were, the fewer are."""
_CLEAR = 0.6
"""What is expected to use less of the budget is run on all samples at once."""
_DESCENTS = 6


class TuningAttempts:
    """Runs choices, and corrects what is expected of others.

    Args:
        task: The task.
        table: What is expected.
        record: Where decisions are written.
        whole: All samples.
        refuses: Returns why an engine that has to build a model does not; None if all do.
        report: Called with a sentence on each step.
    """

    def __init__(
        self,
        task: Task,
        table: ChoiceTable,
        record: Record,
        whole: AllSamples,
        refuses: Callable[[ir.Model, Mapping[str, str]], str | None],
        report: Callable[[str], object],
    ) -> None:
        self._task, self._table, self._record = task, table, record
        self._whole, self._refuses, self._report = whole, refuses, report
        self.few = FewSamples(task, table, record)
        self.rejected: set[Choice] = set()
        self.tried: list[TriedModel] = []
        self.runs = 0
        """Runs of whole models on all samples."""
        self._expected: dict[Choice, float] = {}
        self._errors: list[float] = []
        self._ratios: list[float] = []
        self._less = False

    @property
    def measured(self) -> int:
        """The number of choices that were run on all samples, in an earlier search or here."""
        return sum(tried.spent is not None for tried in self.tried)

    @property
    def doubt(self) -> float:
        """Up to which expected share of the budget a choice may still keep it."""
        if not self._errors:
            return _DOUBT
        return min(_DOUBT, max(_LEAST_DOUBT, *(1 / error for error in self._errors)))

    @property
    def loses_less(self) -> bool:
        """Whether a model lost much less than its groups do by themselves, or none was run."""
        return self._less or not self._errors

    def propose(
        self, limit: float, below: float, gap: float = 0.0
    ) -> tuple[Choice | None, float]:
        """Return the cheapest choice that may keep the budget, and its expected loss.

        Args:
            limit: The share of the budget that the choice may be expected to use.
            below: The cost that it has to be below.
            gap: How far above the cheapest its cost may be, as a share.
        """
        return self._table.best(limit, below, self.rejected, gap)

    def attempt(
        self, choice: Choice, limit: float
    ) -> tuple[Choice, TriedModel, ir.Model | None]:
        """Run a choice, or a cheaper one that few samples allow.

        Args:
            choice: The choice.
            limit: The share of the budget that it may be expected to use.

        Returns:
            The choice that was run last, what was found, and its model if it was accepted.
        """
        passed: tuple[Choice, float | None] | None = None
        for _ in range(_DESCENTS):
            found = self._run_few(choice, limit)
            if isinstance(found, TriedModel):
                self._reject(choice, found)
                if passed is None:
                    return choice, found, None
            else:
                passed = choice, found
                if found is None:
                    break
            below = self._table.cost(passed[0]) * (1 - self._task.gap)
            cheaper, _ = self.propose(1.0, below, self._task.gap / 2)
            if cheaper is None:
                break
            choice = cheaper
        assert passed is not None, "a choice that did not pass was returned above"
        return self._run_all(*passed)

    def _reject(self, choice: Choice, tried: TriedModel) -> None:
        self.rejected.add(choice)
        self.tried.append(tried)
        self._report(f"rejected: {tried.why}")

    def _run_few(self, choice: Choice, limit: float) -> TriedModel | float | None:
        """Run a choice on few samples.

        Returns:
            Why it is rejected, or the share of the budget that it uses; None if it is clear.
        """
        table = self._table
        expected = table.expected(choice)
        self._expected[choice] = expected
        flips = self._task.budget.flips
        if expected <= _CLEAR and not flips:
            return None
        predicted = table.predict(choice).total
        try:
            few = self.few.measure(choice)
            self._compare(choice, few, predicted)
        except Exception as error:
            return self._note(choice, None, why_of(error))
        # What all samples show beyond few is not known before the first run on all.
        most = min(limit, 1.0) if self._ratios else min(limit, 1.1)
        if few * table.factor > most and not flips:
            self._errors.append(_within(few * table.factor / expected if expected else 1.0))
            return self._note(
                choice,
                None,
                f"uses {few:.3g} of the budget on {len(self._task.sketch)} samples",
            )
        return few

    def _run_all(
        self, choice: Choice, few: float | None
    ) -> tuple[Choice, TriedModel, ir.Model | None]:
        table, names = self._table, self._table.names(choice)
        older = find_tried(self._record, names)  # of an earlier search
        if older is not None and older.spent is None:
            self._reject(choice, older)
            return choice, older, None
        try:
            model = self._task.build(names)
            reason = None if older is not None else self._refuses(model, names)
        except Exception as error:
            reason, model = why_of(error), None
        predicted = table.predict(choice).total
        spent = None if older is None else older.spent
        if reason is None and model is not None and spent is None:
            try:
                spent = self._whole.measure(model)
                self.runs += 1
            except RejectedError as error:
                reason = str(error)
        if model is None or spent is None:
            tried = self._note(choice, None, reason or "")
            self._reject(choice, tried)
            return choice, tried, None
        why = "" if spent.holds else f"uses {spent.total:.3g} of the budget"
        tried = self._note(choice, spent, why, model)
        if few is None:
            held = None if older is not None else self._last_few()
            few = self.few.note(choice, held or self._record.outputs(names))
            if few is not None:
                self._compare(choice, few, predicted)
        self._learn(self._expected[choice], few, spent.total)
        if not tried.accepted:
            self._reject(choice, tried)
            return choice, tried, None
        self.tried.append(tried)
        return choice, tried, model

    def _last_few(self) -> list[Outputs] | None:
        """Return what the last model computed on the samples of the scores."""
        outputs, task = self._whole.last, self._task
        drawn = task.drawn or Sketch(task.sketch)
        return None if outputs is None else drawn.take(task.feeds, outputs)

    def _note(
        self, choice: Choice, spent: Spent | None, why: str, model: ir.Model | None = None
    ) -> TriedModel:
        table = self._table
        cost, expected = table.cost(choice), self._expected[choice]
        if model is not None and self._task.objective == "size":
            cost = float(written_bytes(model))
        accepted = spent is not None and spent.holds
        names = table.names(choice)
        tried = TriedModel(names, cost, expected, spent, accepted, why)
        if find_tried(self._record, names) is None:
            record_tried(self._record, tried)
        return tried

    def _learn(self, expected: float, few: float | None, spent: float) -> None:
        """Correct what is expected by what was measured on all samples."""
        base = expected / self._table.factor if few is None else few
        if base > 0 and math.isfinite(spent) and spent > 0:
            self._ratios.append(_within(spent / base))
            # One model says little of the next one: the mean is drawn towards 1.
            logs = sum(map(math.log, self._ratios)) / (len(self._ratios) + 1)
            self._table.factor = math.exp(logs)
        if expected > 0 and spent > 0:
            self._errors.append(_within(spent / expected))

    def _compare(self, choice: Choice, few: float, predicted: float) -> None:
        """Hold what few samples show against what was predicted of them."""
        alone = self._table.predict_alone(choice).total
        self._less = self._less or few * DISAGREES < alone
        culprits = self.few.find_interaction(choice, few, predicted)
        if culprits:
            self._record.add(
                "interaction",
                groups=culprits,
                predicted=plain(predicted),
                measured=plain(few),
            )
            names = ", ".join(culprits)
            self._report(f"more is lost than expected beside each other: {names}")


def _within(ratio: float) -> float:
    return min(4.0, max(0.25, ratio))
