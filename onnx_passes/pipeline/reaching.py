"""Inputs that make the nodes behind them give wanted values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np
import onnx_ir as ir

from onnx_passes.contracts.elements import kind_of
from onnx_passes.errors import EngineError
from onnx_passes.pipeline.recompute import running
from onnx_passes.runtime.engine_base import Array, Engine, Feeds, Outputs
from onnx_passes.verify.region import boundary_of, leading_to

Run = Callable[[Sequence[Array]], Sequence[Array | None]]
"""Gives what some nodes make of each input, of the same shape; None where they do not run."""

_HALVINGS = 64
"""Bisections: neighbouring floats lie closer than 2^-64 of the range where they meet."""

_GRID = np.concatenate([-np.logspace(9, -6, 31), [0.0], np.logspace(-6, 9, 31)])
"""Where two neighbours enclose a wanted value, one between them gives it or comes near it."""


_MOST = 1 << 12
"""Elements of a value up to which an input is looked for."""


def reaching(
    engine: Engine,
    model: ir.Model,
    nodes: Sequence[ir.Node],
    feeds: Mapping[str, Array],
    varying: Collection[str],
    wanted: Feeds,
) -> Iterator[dict[str, Array]]:
    """Yield feeds on which nodes compute wanted values, where they are found.

    Args:
        engine: What runs the nodes.
        model: The model that they are from.
        nodes: The nodes, in order.
        feeds: What they read, by name, of the shapes and types in the model.
        varying: Names of those among these that may be other values.
        wanted: Values that they should compute, by name, and maybe more.
    """
    made = {str(v.name) for node in nodes for v in node.outputs}
    for name, values in wanted.items():
        if name not in made or not _is_small_float(values):
            continue
        ahead = leading_to({name}, nodes, feeds.__contains__)
        for source in sorted({*varying} & {*boundary_of(ahead)}):
            like = feeds[source]
            if not _is_small_float(like) or like.shape != values.shape:
                continue
            try:
                with running(engine, model, ahead, [feeds]) as run:
                    found = reach(_Through(run, feeds, source, name), like, values)
            except EngineError:
                continue
            if found is not None:
                yield {**feeds, source: found}


@dataclass(frozen=True)
class _Through:
    """Runs nodes on fills of one of the values that they read, and picks one result."""

    run: Callable[[Mapping[str, Array]], Outputs | None]
    feeds: Mapping[str, Array]
    source: str
    name: str

    def __call__(self, fills: Sequence[Array]) -> list[Array | None]:
        rows = [self.run({**self.feeds, self.source: fill}) for fill in fills]
        found = [None if row is None else row.get(self.name) for row in rows]
        return [value if isinstance(value, np.ndarray) else None for value in found]


def reach(run: Run, like: Array, wanted: Array) -> Array | None:
    """Look for an input from which some nodes make wanted values, element by element.

    It is found where an element depends on that element of the input alone, and moves
    continuously with it, as behind activations and arithmetic with constants. Elsewhere what
    comes out is another value.

    Args:
        run: Runs the nodes.
        like: An array of the shape and float dtype of the input.
        wanted: What the nodes should give, of the same shape.

    Returns:
        The input that comes nearest; elements that cannot be reached are those of ``like``.
        None where no element can be.
    """
    fills = [np.full(like.shape, number, like.dtype) for number in _GRID]
    found = run(fills)
    if any(value is None or value.shape != wanted.shape for value in found):
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        above = np.stack([np.asarray(v, np.float64) for v in found]) >= wanted
        crossing = above[1:] != above[:-1]
    reached = crossing.any(axis=0)
    if not reached.any():
        return None
    place = crossing.argmax(axis=0)
    low, high = (_GRID[place + side].astype(np.float64) for side in (0, 1))
    rising = ~np.take_along_axis(above, place[None], axis=0)[0]
    for _ in range(_HALVINGS):
        middle = ((low + high) / 2).astype(like.dtype).astype(np.float64)
        if np.all((middle == low) | (middle == high)):
            break
        (value,) = run([middle.astype(like.dtype)])
        if value is None:
            return None
        at_most = (np.asarray(value, np.float64) < wanted) == rising
        low, high = np.where(at_most, middle, low), np.where(at_most, high, middle)
    # On this side are the values that are wanted, and those above them.
    return np.where(reached, np.where(rising, high, low), like).astype(like.dtype)


def _is_small_float(data: object) -> TypeGuard[Array]:
    small = isinstance(data, np.ndarray) and 0 < data.size <= _MOST
    return small and kind_of(np.asarray(data).dtype) == "float"
