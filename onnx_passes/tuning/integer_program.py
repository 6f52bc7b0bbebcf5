"""Which format each group gets: an integer program, with the gap to its optimum."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.data.files import import_optional

_PAIRS = 64
"""Pairs are changed if no more changes than this are possible."""


@dataclass(frozen=True)
class Solution:
    """A choice of one option in each row.

    Attributes:
        picks: Number of the option by row.
        cost: Its cost.
        bound: No choice within the limits costs less.
    """

    picks: tuple[int, ...]
    cost: float
    bound: float

    @property
    def gap(self) -> float:
        """How far the cost is above the bound, as a share of the cost; 0 for an optimum."""
        return max(0.0, self.cost - self.bound) / abs(self.cost) if self.cost else 0.0


def solve(
    costs: Sequence[Array],
    losses: Sequence[Array],
    limits: Array,
    *,
    without: Sequence[tuple[int, ...]] = (),
    seconds: float = 10.0,
) -> Solution | None:
    """Choose one option in each row: of the least cost, within limits on sums of losses.

    Args:
        costs: By row, the cost of each option, floats of shape [options].
        losses: By row, losses of shape [options, limits].
        limits: Of each sum of losses, of shape [limits].
        without: Choices that are not wanted.
        seconds: After which the best choice so far is taken.

    Returns:
        The choice; None if there is none within the limits.

    Raises:
        UsageError: scipy is not installed.
    """
    optimize, sparse = import_optional("scipy.optimize"), import_optional("scipy.sparse")
    sizes = [len(row) for row in costs]
    starts = np.cumsum([0, *sizes])
    total = int(starts[-1])
    one = sparse.lil_matrix((len(sizes), total))
    for row, (start, size) in enumerate(zip(starts, sizes, strict=False)):
        one[row, start : start + size] = 1
    rules = [optimize.LinearConstraint(one.tocsr(), 1, 1)]
    table = np.concatenate([np.asarray(row, float) for row in losses])
    possible = np.isfinite(table).all(1)
    if len(limits):
        finite = np.where(np.isfinite(table), table, 0.0)
        rules.append(optimize.LinearConstraint(finite.T, -np.inf, limits))
    for picks in without:
        marks = np.zeros(total)
        marks[starts[:-1] + np.array(picks)] = 1
        rules.append(optimize.LinearConstraint(marks[None], -np.inf, len(sizes) - 1))
    flat = np.concatenate([np.asarray(row, float) for row in costs])
    scale = float(np.abs(flat).max(initial=0.0)) or 1.0
    found = optimize.milp(
        flat / scale,
        constraints=rules,
        integrality=np.ones(total),
        bounds=optimize.Bounds(0, possible.astype(float)),
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    if found.x is None:
        return None
    picks = tuple(
        int(np.argmax(found.x[start : start + size]))
        for start, size in zip(starts, sizes, strict=False)
    )
    cost = float(sum(row[pick] for row, pick in zip(costs, picks, strict=True)))
    bound = found.mip_dual_bound
    return Solution(picks, cost, cost if bound is None else min(cost, float(bound) * scale))


def list_neighbours(
    choice: tuple[int, ...], sizes: Sequence[int]
) -> Iterator[tuple[int, ...]]:
    """Yield the choices that differ in one group, or in two if these are not too many.

    Args:
        choice: The option of each group.
        sizes: The number of options of each group.
    """
    changes = [(i, k) for i, size in enumerate(sizes) for k in range(size) if k != choice[i]]
    for i, k in changes:
        yield (*choice[:i], k, *choice[i + 1 :])
    if len(changes) > _PAIRS:
        return
    for (i, k), (j, m) in itertools.combinations(changes, 2):
        if i != j:
            other = list(choice)
            other[i], other[j] = k, m
            yield tuple(other)
