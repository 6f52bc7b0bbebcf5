"""Choices by the bytes of their files, which are not the sums of what their groups cost.

Neighbours of one format share the Casts and quantisers between them. So a sum less all that
may be shared is below the file, and choices are built in the order of these bounds until no
other can be smaller.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence

from onnx_passes.model.save import written_bytes
from onnx_passes.tuning.choice_runs import Choice
from onnx_passes.tuning.format_scores import Score
from onnx_passes.tuning.search_task import Task

_BUILDS, _LOOKS = 16, 512
"""Choices that are built at most, and looked at."""


def list_by_size(
    task: Task,
    rows: Sequence[Sequence[Score]],
    below: float = math.inf,
    allowed: Callable[[Choice], bool] = lambda choice: True,
) -> tuple[list[tuple[float, Choice]], float]:
    """Return choices whose files are the smallest, and a bound of all files.

    Args:
        task: The task; its objective is the size.
        rows: The options of each group, with their bytes.
        below: A size that is known to be reached.
        allowed: Whether a choice may be built.

    Returns:
        Bytes of the file and the choice, the smallest first; and a size that the file of no
        other choice that is allowed is below.
    """
    found: list[tuple[float, Choice]] = []
    rest = written_bytes(task.model) - sum(row[0].cost for row in rows)
    lows = [[score.cost - score.shared for score in row] for row in rows]
    order = [sorted(range(len(low)), key=low.__getitem__) for low in lows]

    def bound(places: Choice) -> float:
        picked = zip(lows, order, places, strict=True)
        return rest + sum(low[own[place]] for low, own, place in picked)

    first = (0,) * len(rows)
    heap, looks, low = [(bound(first), first, 0)], 0, -math.inf
    while heap:
        low, places, last = heapq.heappop(heap)
        looks += 1
        # Of a large model a few bytes are worth no build.
        small = low >= below * (1 - task.gap / 10)
        if small or len(found) >= _BUILDS or looks > _LOOKS:
            break
        for row in range(last, len(rows)):  # each choice is reached in one way
            if places[row] + 1 < len(order[row]):
                other = (*places[:row], places[row] + 1, *places[row + 1 :])
                heapq.heappush(heap, (bound(other), other, row))
        choice = tuple(own[place] for own, place in zip(order, places, strict=True))
        if allowed(choice):
            names = {row[i].group: row[i].format for row, i in zip(rows, choice, strict=True)}
            try:
                size = float(written_bytes(task.build(names)))
            except Exception:  # a fault of a pass refuses the choice, as it does elsewhere
                continue
            found.append((size, choice))
            below = min(below, size)
    else:
        low = math.inf
    return sorted(found), low
