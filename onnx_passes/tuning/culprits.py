"""The fewest nodes that must stay in float32, so that a format of all others does no harm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.report.text import plural
from onnx_passes.tuning.all_samples import RejectedError
from onnx_passes.tuning.loss_budget import Spent
from onnx_passes.tuning.part_formats import Format, convert
from onnx_passes.tuning.search_task import Task
from onnx_passes.tuning.smallest_subset import find_smallest_subset


@dataclass(frozen=True)
class Culprits:
    """What was found.

    Attributes:
        format: The format of all other nodes.
        nodes: The nodes that must stay in float32; none of them may be left out.
        spent: What the model uses of the budget with these in float32.
        without: What it uses with none in float32; None if it does not run.
        runs: Number of models that were run.
        model: The model with these in float32.
    """

    format: str
    nodes: tuple[str, ...]
    spent: Spent
    without: Spent | None
    runs: int
    model: ir.Model


def find_culprits(
    task: Task, item: Format, report: Callable[[str], object] = lambda text: None
) -> Culprits:
    """Find the fewest nodes that must stay in float32.

    No node of the result can be left out.

    Args:
        task: What is asked; its ranges are recorded.
        item: The format.
        report: Called with a sentence on each step.

    Raises:
        ConfigError: The original does not keep the budget.
        EngineError: The engine does not run the original.
        IncompleteDataError: A part of the data could not be evaluated.
        PassError: The pass of the format refuses the model.
    """
    search = _Search(task, item)
    try:
        return _find(search, report)
    finally:
        search.whole.close()


def _find(search: _Search, report: Callable[[str], object]) -> Culprits:
    task, item = search.task, search.item
    search.whole.begin()
    nodes = [name for group in task.groups for name in group.nodes]
    without = search.measure(())
    if without is not None and without.holds:
        return Culprits(item.name, (), without, without, search.runs, search.model)
    report(f"{len(nodes)} nodes in {item.name} do harm; looking for the fewest that do")
    found = find_smallest_subset(nodes, search.holds)
    spent = search.measure(found)
    assert spent is not None, "these nodes were seen to suffice"
    report(f"{plural(len(found), 'node')} found, {plural(search.runs, 'model')} run")
    order = {name: place for place, name in enumerate(nodes)}
    kept = tuple(sorted(found, key=order.__getitem__))
    return Culprits(item.name, kept, spent, without, search.runs, search.model)


class _Search:
    def __init__(self, task: Task, item: Format) -> None:
        self.task, self.item, self.runs = task, item, 0
        self.model = task.model
        self.whole = task.whole()
        self._known: dict[frozenset[str], Spent | None] = {}

    def measure(self, kept: Sequence[str]) -> Spent | None:
        """Return what the model uses of the budget if some nodes stay in float32."""
        key = frozenset(kept)
        if key in self._known and self._known[key] is None:
            return None
        task = self.task
        chosen = [n for g in task.groups for n in g.nodes if n not in key]
        try:
            self.model = convert(
                task.model, {self.item.name: chosen}, {self.item.name: self.item}, task.known
            )
            self._known[key] = self.whole.measure(self.model)
        except RejectedError:
            self._known[key] = None
        finally:
            self.runs += 1
        return self._known[key]

    def holds(self, kept: Sequence[str]) -> bool:
        """Whether the budget is kept if some nodes stay in float32."""
        key = frozenset(kept)
        if key not in self._known:
            self.measure(kept)
        spent = self._known[key]
        return spent is not None and spent.holds
