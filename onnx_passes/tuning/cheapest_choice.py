"""The cheapest of all choices, tried before anything is scored.

Where it keeps the budget, it is the optimum, and no part of the model has to be run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.runtime.engine_base import Outputs
from onnx_passes.tuning.all_samples import AllSamples, RejectedError
from onnx_passes.tuning.failures import why_of
from onnx_passes.tuning.file_sizes import list_by_size
from onnx_passes.tuning.format_scores import Score
from onnx_passes.tuning.loss_budget import Spent
from onnx_passes.tuning.part_formats import FLOAT32, Format
from onnx_passes.tuning.sample_sensitivity import add_noise
from onnx_passes.tuning.search_task import Task, TriedModel

_HOPELESS, _CLEAR = 1.5, 0.5
"""A choice is not run if noise like its own uses more of the budget; it is run on all samples
at once if that uses less."""


class CheapestChoice:
    """The cheapest choice by the costs of groups.

    Args:
        task: The task.
        scores: The costs of groups in formats, or why they are refused.
        original: Outputs of the original on the samples of the scores.
    """

    def __init__(
        self, task: Task, scores: Sequence[Score], original: Sequence[Outputs]
    ) -> None:
        self._task, self._original = task, original
        rows: dict[str, list[Score]] = {}
        for score in scores:
            if not score.refused:
                rows.setdefault(score.group, []).append(score)
        self.picks = {n: min(row, key=lambda score: score.cost) for n, row in rows.items()}
        self.cost = self.bound = sum(score.cost for score in self.picks.values())
        if task.objective == "size":
            found, low = list_by_size(task, [*rows.values()])
            for self.cost, choice in found[:1]:
                picked = zip(rows.items(), choice, strict=True)
                self.picks = {name: row[pick] for (name, row), pick in picked}
            self.bound = min(low, self.cost)
        self.names = {name: score.format for name, score in self.picks.items()}
        self.spent = 0.0
        """Runs of whole models on few samples, in passes over all samples."""
        self.runs = 0
        """Runs of whole models on all samples."""

    @property
    def formats(self) -> list[Format]:
        """The formats that it has, but float32."""
        used = set(self.names.values()) - {FLOAT32}
        return [item for name, item in self._task.formats.items() if name in used]

    def expected(self) -> float:
        """Return the share of the budget that noise uses which is like that of the formats."""
        worst = min((item.typical_snr for item in self.formats), default=np.inf)
        rng = np.random.default_rng(0)
        noisy = [
            {name: add_noise(value, 10 ** (-worst / 20), rng) for name, value in row.items()}
            for row in self._original
        ]
        return self._share(noisy)

    def attempt(
        self, whole: AllSamples, refuses: Callable[[ir.Model, Mapping[str, str]], str | None]
    ) -> tuple[TriedModel, ir.Model | None] | None:
        """Run it, on few samples first if it may lose too much.

        Args:
            whole: All samples.
            refuses: Returns why an engine that has to build a model does not; None if all do.

        Returns:
            What was found, and the model if it keeps the budget; None if it was not run.
        """
        expected = self.expected() if self.formats else np.inf
        if not expected <= _HOPELESS:
            return None
        spent: Spent | None = None
        why, model = "", None
        try:
            model = self._task.build(self.names)
            why = refuses(model, self.names) or ""
            if not why and expected > _CLEAR:
                few = self._measure_few(model)
                if not few <= 1.0:
                    why = f"uses {few:.3g} of the budget on {len(self._task.sketch)} samples"
            if not why:
                self.runs += 1
                spent = whole.measure(model)
                why = "" if spent.holds else f"uses {spent.total:.3g} of the budget"
        except RejectedError as error:
            why = str(error)
        except Exception as error:
            why = why_of(error)
        accepted = not why and spent is not None
        tried = TriedModel(self.names, self.cost, expected, spent, accepted, why)
        return tried, model if accepted else None

    def _measure_few(self, model: ir.Model) -> float:
        task = self._task
        with task.engine.prepare(model) as session:
            outputs = [session.run(feed) for feed in task.sketch]
        self.spent += task.share
        return self._share(outputs)

    def _share(self, outputs: list[Outputs]) -> float:
        task = self._task
        ours, theirs = (task.spread(task.join(list(o))) for o in (outputs, self._original))
        return task.budget.measure(ours, theirs, sure=False).total
