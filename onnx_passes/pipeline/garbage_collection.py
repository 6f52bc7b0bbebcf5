"""Hold back Python's garbage collector while graphs with many objects are built."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

THRESHOLDS = (1_000_000, 2, 20)
"""Objects between two collections, and how many of one generation come before the next."""


@contextmanager
def patient_collector() -> Iterator[None]:
    """Collect garbage less often until the block ends.

    Graphs, snapshots and keys are hundreds of thousands of small objects that live as long as
    the run. Python's thresholds make it walk through all of them again and again: a third of
    the processor time of a run was spent there, and hardly anything was found.
    """
    before = gc.get_threshold()
    gc.set_threshold(
        *(max(*pair) if pair[0] else 0 for pair in zip(before, THRESHOLDS, strict=True))
    )
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def only_new_objects() -> Iterator[None]:
    """Leave what is there before out of collections until the block ends.

    Modules are as many objects as a run of a small model makes. Nothing happens where the
    caller has left out objects.
    """
    if gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def collect_young() -> None:
    """Free what the last steps left in cycles: models and recorded values are large."""
    gc.collect(0)
