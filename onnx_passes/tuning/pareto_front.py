"""Choices that no other beats in both expected loss and cost."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from onnx_passes.tuning.choice import ALL, ChoiceTable
from onnx_passes.tuning.choice_runs import Choice

_POINTS = 40
"""So many points of a front are looked at more closely."""


def find_front(
    table: ChoiceTable, steps: Sequence[float]
) -> list[tuple[Choice, float, float]]:
    """Return choices that are not worse than another in both expected loss and cost.

    Args:
        table: The options.
        steps: Shares of the budget for which a choice is looked for, if there are too many
            choices to look at all.

    Returns:
        Choice, expected share of the budget, cost; the dearest first.
    """
    found = {table.start}
    if table.size() <= ALL:
        found.update(_roughly_best(table))
    else:
        # A table of many points, each of them roughly: the search itself looks closely.
        chosen = (table.best(step, math.inf, set(), closely=False)[0] for step in steps)
        found.update(choice for choice in chosen if choice is not None)
    points = [(choice, table.expected(choice), table.cost(choice)) for choice in found]
    return [
        point
        for point in sorted(points, key=lambda p: (p[1], p[2]))
        if not any(o[1] <= point[1] and o[2] < point[2] for o in points)
    ]


def _roughly_best(table: ChoiceTable) -> list[Choice]:
    """Return choices that no other beats, if losses of groups just add up."""
    _, losses, picks = table.every()
    least = np.fmin.accumulate(losses)
    kept = np.flatnonzero(losses < np.concatenate([[math.inf], least[:-1]]))
    step = max(1, math.ceil(len(kept) / _POINTS))
    return [tuple(map(int, picks[place])) for place in kept[::step]]
