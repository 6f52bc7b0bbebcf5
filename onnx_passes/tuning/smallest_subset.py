"""The smallest subset of items that has an effect together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

ItemT = TypeVar("ItemT")


def find_smallest_subset(
    items: Sequence[ItemT], holds: Callable[[Sequence[ItemT]], bool]
) -> list[ItemT]:
    """Return few items for which something holds; no item can be left out.

    Halves are tried first, so that few needed ones among many cost few tests (as QuickXplain;
    Junker, 2004). Then each is left out once, since not all that holds of some items holds of
    more.

    Args:
        items: Items for which together it holds.
        holds: The test.
    """
    found = _find_needed([], list(items), holds, changed=False)
    for item in list(found):
        rest = [other for other in found if other is not item]
        if holds(rest):
            found = rest
    return found


def _find_needed(
    kept: list[ItemT],
    items: list[ItemT],
    holds: Callable[[Sequence[ItemT]], bool],
    *,
    changed: bool,
) -> list[ItemT]:
    """Return items that suffice beside those that are kept already."""
    if changed and holds(kept):
        return []
    if len(items) <= 1:
        return list(items)
    half = len(items) // 2
    first, second = items[:half], items[half:]
    right = _find_needed([*kept, *first], second, holds, changed=True)
    left = _find_needed([*kept, *right], first, holds, changed=bool(right))
    return [*left, *right]
