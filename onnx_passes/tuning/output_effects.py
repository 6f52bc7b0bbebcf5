"""How far a part of a model moves the outputs, by a run of what follows it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Self

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.runtime.engine_base import Data, Engine, Outputs, Session
from onnx_passes.tuning.original_run import RecordedRun
from onnx_passes.tuning.regions import ModelRegions
from onnx_passes.verify.region import Region


class OutputEffects:
    """The nodes that follow a part, in one session for all formats of the part.

    Args:
        engine: Runs it.
        regions: Regions of the model.
        region: The nodes that follow the part; None if there are none.
        recorded: A run of the original.
    """

    def __init__(
        self,
        engine: Engine,
        regions: ModelRegions,
        region: Region | None,
        recorded: RecordedRun,
    ) -> None:
        self._engine, self._regions, self._region = engine, regions, region
        self._recorded, self._stack = recorded, ExitStack()
        self._session: Session | None = None
        self._names: list[str] = []
        self._ends = {str(value.name) for value in regions.model.graph.outputs}
        self.runs = 0
        """Runs over all recorded samples."""

    def __enter__(self) -> Self:
        """Return itself; the session starts with the first run."""
        return self

    def __exit__(self, *error: object) -> None:
        """End the session."""
        self._stack.close()

    def move(self, base: Sequence[Outputs], new: Sequence[Outputs]) -> list[dict[str, Array]]:
        """Return how far the outputs of the model move, by sample and name.

        Args:
            base: What the part computes.
            new: What it computes in a format.

        Raises:
            EngineError: The engine does not run the nodes that follow it.
        """
        recorded = self._recorded
        moved = [
            _move(old, after, row, self._ends)
            for old, after, row in zip(base, new, recorded.outputs, strict=True)
        ]
        if self._region is None:
            return moved
        session = self._session or self._start(self._region)
        self.runs += 1
        for place, (old, after) in enumerate(zip(base, new, strict=True)):
            known, ends = recorded.rows[place], recorded.outputs[place]
            feeds = {n: _shift(known[n], old.get(n), after.get(n)) for n in self._names}
            moved[place] |= _move(ends, session.run(feeds), ends, self._ends)
        return moved

    def _start(self, region: Region) -> Session:
        model = self._regions.build(region, self._recorded.rows)
        self._names = [str(value.name) for value in model.graph.inputs]
        self._session = self._stack.enter_context(self._engine.prepare(model))
        return self._session


def _move(old: Outputs, new: Outputs, like: Outputs, ends: set[str]) -> dict[str, Array]:
    found = {}
    for name in ends & new.keys() & old.keys() & like.keys():
        ours, theirs = new[name], old[name]
        if not isinstance(ours, np.ndarray) or not isinstance(theirs, np.ndarray):
            continue
        if theirs.dtype.kind == "f" and ours.shape == theirs.shape:
            with np.errstate(invalid="ignore"):
                found[name] = ours.astype(theirs.dtype) - theirs
    return found


def _shift(value: Data, old: object, new: object) -> Array:
    """Return a recorded value, moved as far as a region moves it."""
    assert isinstance(value, np.ndarray), "only tensors are recorded"
    if not isinstance(old, np.ndarray) or not isinstance(new, np.ndarray):
        return value
    if value.dtype.kind != "f" or new.shape != value.shape:
        return new
    with np.errstate(invalid="ignore"):
        moved: Array = np.asarray(value + (new.astype(value.dtype) - old), value.dtype)
    return moved
