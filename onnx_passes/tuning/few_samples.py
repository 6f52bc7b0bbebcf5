"""Choices on the few samples of the scores: cheap runs that correct what is expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.errors import OnnxPassesError
from onnx_passes.runtime.engine_base import Outputs
from onnx_passes.tuning.choice import ChoiceTable
from onnx_passes.tuning.choice_runs import Choice
from onnx_passes.tuning.search_journal import Record
from onnx_passes.tuning.search_task import Task
from onnx_passes.tuning.smallest_subset import find_smallest_subset

DISAGREES = 1.5
"""Ratio of measured and predicted loss from which on decisions are bisected."""
_MOST_FACTOR = 8.0
_RESCORED = 20.0
"""What is expected to use more of the budget is not scored again."""
_SPENT = {"bisect": 1.0, "rescore": 0.6}
"""Runs of whole models, in passes over all samples, that a search spends at most."""


class FewSamples:
    """Runs of choices on few samples.

    Args:
        task: The task.
        table: What is expected; corrected by what is measured.
        record: Where outputs are kept; a search that is continued finds them there.
    """

    def __init__(self, task: Task, table: ChoiceTable, record: Record) -> None:
        self._task, self._table, self._record = task, table, record
        self.spent = 0.0
        """Runs of whole models, in passes over all samples."""
        self._bisected = 0.0

    def measure(self, choice: Choice) -> float:
        """Return the share of the budget that a choice uses on the samples."""
        return self._share(self._run(choice))

    def note(self, choice: Choice, outputs: list[Outputs] | None) -> float | None:
        """Use what a run on all samples computed on these; return its share of the budget.

        Args:
            choice: What was run.
            outputs: The outputs on all samples; None if they are not known.
        """
        if outputs is None:
            return None
        joined = self._task.join(outputs)
        self._record.add_outputs(self._table.names(choice), joined)
        self._table.note(choice, joined)
        return self._share(joined)

    def find_interaction(self, choice: Choice, measured: float, predicted: float) -> list[str]:
        """Return the fewest groups of a choice that lose more than expected together.

        Where runs are spent, groups that no run distinguished stay in the answer.

        Args:
            choice: The choice.
            measured: The share of the budget that it used.
            predicted: The share that it was predicted to use.

        Returns:
            Names of groups; nothing if it lost about as much as predicted, or few enough.
        """
        if measured <= max(1.0, DISAGREES * predicted):
            return []
        table, limit = self._table, self._bisected + _SPENT["bisect"]
        members = [i for i, pick in enumerate(choice) if pick]

        def harms(part: Sequence[int]) -> bool:
            some = tuple(pick if i in part else 0 for i, pick in enumerate(choice))
            if self._bisected >= limit:
                return False
            expected = table.predict_alone(some).total
            self._bisected += self._task.share
            return self.measure(some) > DISAGREES * max(expected, 1e-9)

        found = [
            table.rows[i][choice[i]].group
            for i in sorted(find_smallest_subset(members, harms))
        ]
        excess = min(_MOST_FACTOR, measured / max(predicted, 1e-9))
        for name in found:
            table.weights[name] = max(table.weights.get(name, 1.0), excess)
        return found

    def rescore(self, now: Choice, gap: float) -> bool:
        """Score what is expected to lose too much again, in the whole model.

        An engine may run a part by other kernels than within the model. Those that gain most
        come first, for less than one run on all samples takes.

        Args:
            now: The choice that others are tried beside.
            gap: What is gained has to be more than this share of the cost.

        Returns:
            Whether a score was replaced.
        """
        task, table = self._task, self._table
        cost = table.cost(now)
        gains = [
            (cost - table.cost(other), place, option)
            for place, row in enumerate(table.rows)
            for option in range(len(row))
            if table.cost(other := table.changed(now, place, option)) < cost * (1 - gap)
            and table.expected(other) < _RESCORED
        ]
        if not gains:
            return False
        limit, found = self.spent + _SPENT["rescore"], False
        before = table.measured(now) or self._run(now)
        for _, place, option in sorted(gains, reverse=True):
            if self.spent + task.share > limit:
                break
            other = table.changed(now, place, option)
            predicted = table.predict(other).total
            try:
                outputs = self._run(other)
                measured = self._share(outputs)
            except OnnxPassesError:
                continue  # it does not run, or its outputs have other shapes
            if measured * DISAGREES < predicted:
                old = table.rows[place][now[place]].effect if now[place] else ()
                table.replace(place, option, _effect(old, before, outputs))
                found = True
        return found

    def _share(self, outputs: list[Outputs]) -> float:
        return self._table.measure(outputs).total

    def _run(self, choice: Choice) -> list[Outputs]:
        task, names = self._task, self._table.names(choice)
        outputs = self._record.outputs(names)
        if outputs is None:
            with task.engine.prepare(task.build(names)) as session:
                outputs = task.join([session.run(feed) for feed in task.sketch])
            self.spent += task.share
            self._record.add_outputs(names, outputs)
        self._table.note(choice, outputs)
        return outputs


def _effect(
    old: Sequence[Mapping[str, Array]], before: Sequence[Outputs], after: Sequence[Outputs]
) -> list[dict[str, Array]]:
    """Return how far an option moves the outputs, from two runs.

    Args:
        old: How far the option moves them that the group has in the first run.
        before: Outputs of the first run.
        after: Outputs with the option.
    """
    found: list[dict[str, Array]] = []
    for place, (first, second) in enumerate(zip(before, after, strict=True)):
        moved = dict(old[place]) if place < len(old) else {}
        for name, value in second.items():
            start = first[name]
            if not isinstance(value, np.ndarray) or not isinstance(start, np.ndarray):
                continue
            if value.dtype.kind == "f" and value.shape == start.shape:
                moved[name] = value - start + moved.get(name, 0)
        found.append(moved)
    return found
