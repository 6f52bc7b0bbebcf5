"""Costs and losses of choices as sums over groups."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from onnx_passes.runtime.engine_base import Array
from onnx_passes.tuning.choice_runs import Choice

_MOST, _SLACK, _LOOKS = 4.0, 1.5, 24
"""Errors of groups may cancel each other up to the first factor. They cancel at most the
second factor more than in a sample of choices; the third is the size of the sample."""


def sort_choices(
    costs: Sequence[Array], losses: Sequence[Array]
) -> tuple[Array, Array, Array]:
    """Return all choices, the cheapest first.

    Args:
        costs: By group, the cost of each option, floats of shape [options].
        losses: By group, the loss of each option, floats of shape [options].

    Returns:
        The costs of the choices, of shape [choices]; the sums of the losses of their groups;
        and the number of the option of each group, of shape [choices, groups].
    """
    cost, loss = (np.ravel(reduce(np.add.outer, rows)) for rows in (costs, losses))
    order = np.argsort(cost, kind="stable")
    picks = np.stack(np.unravel_index(order, [len(row) for row in costs]), 1)
    return cost[order], loss[order], picks


def bound_cancellation(sizes: Sequence[int], loss: Callable[[Choice], float]) -> float:
    """Return how many times less a choice may lose than the sum of its groups.

    Of a mean of squares, about the sum is lost; of a maximum or a root, less. What is further
    beyond a budget is hopeless, and need not be looked at closely.

    Args:
        sizes: By group, the number of its options, the first float32.
        loss: Returns the share of the budget that a choice uses by the scores of its groups.
    """
    rng, least = np.random.default_rng(0), math.inf
    for _ in range(_LOOKS):
        choice = tuple(int(rng.integers(size)) for size in sizes)
        total = sum(
            loss(tuple(pick if i == row else 0 for i in range(len(sizes))))
            for row, pick in enumerate(choice)
        )
        if 0 < total < math.inf:
            least = min(least, loss(choice) / total)
    return _MOST if least in (0.0, math.inf) else min(_MOST, _SLACK / least)
