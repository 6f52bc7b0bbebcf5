"""Find values on which nodes give wanted numbers, element by element or along rays.

Intervals report what no input gives.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TypeGuard

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.contracts.scores import kind_of
from onnx_passes.errors import EngineError
from onnx_passes.ops.call import Operands
from onnx_passes.ops.domains.intervals import UNBOUNDED, Interval, hull, of_array
from onnx_passes.ops.node_queries import range_of
from onnx_passes.pipeline.recorder import prepare_nodes
from onnx_passes.runtime.engine_base import Data, Engine, Feeds, Outputs
from onnx_passes.verify.node_equality import constant_tensor
from onnx_passes.verify.region import Region, backward_slice, boundary_of, region_model


def bounds_of(
    model: ir.Model, nodes: Sequence[ir.Node], row: Mapping[str, Data]
) -> dict[str, Interval]:
    """Return between which numbers the results of nodes lie, whatever these read.

    ``row`` are values of what they read and compute, for types and sizes.
    """
    part = region_model(model, Region(tuple(nodes), boundary_of(nodes), ()), [row])
    found: dict[ir.Value, Interval] = {}

    def numbers(value: ir.Value | None) -> Array | None:
        tensor = None if value is None else constant_tensor(value)
        text = tensor is None or tensor.dtype is ir.DataType.STRING
        return None if tensor is None or text else tensor.numpy()

    def known(value: ir.Value | None) -> Interval:
        array = None if value is None or value in found else numbers(value)
        if array is not None:
            return of_array(array)
        return UNBOUNDED if value is None else found.get(value, UNBOUNDED)

    opset = model.graph.opset_imports.get("", 22)
    for node in part.graph:
        for value in (*node.inputs, *node.outputs):
            array = None if value is None else row.get(str(value.name))
            if value is not None and isinstance(array, np.ndarray):
                value.dtype = ir.DataType.from_numpy(array.dtype)
                value.shape = ir.Shape(array.shape)
        found[node.outputs[0]] = range_of(Operands(node, known, numbers, opset))
    return {str(value.name): interval for value, interval in found.items()}


def clipped(row: Mapping[str, Array], bounds: Mapping[str, Interval]) -> dict[str, Array]:
    """Return a row with floats moved into the bounds of their names."""
    found = dict(row)
    for name in bounds.keys() & row.keys():
        if is_float(row[name]):
            with np.errstate(all="ignore"):
                found[name] = np.asarray(np.clip(row[name], *bounds[name]), row[name].dtype)
    return found


def spans_of(rows: Sequence[Mapping[str, Data]]) -> dict[str, Interval]:
    """Return the least and the greatest number of each value, over all rows."""
    found: dict[str, Interval] = {}
    for name, value in (pair for row in rows for pair in row.items()):
        span = span_of(value)
        if span is not None:
            found[name] = hull(span, found.get(name, span))
    return found


_ORDERED = ("float", "bool", "int")


def span_of(value: Data) -> Interval | None:
    """Return the least and the greatest finite number of a value; None for texts."""
    if not isinstance(value, np.ndarray) or kind_of(value.dtype) not in _ORDERED:
        return None
    finite = value[np.isfinite(value)]
    return (float(finite.min()), float(finite.max())) if finite.size else None


def beside(row: Mapping[str, Array], names: Collection[str], side: int) -> dict[str, Array]:
    """Return a row with floats of some names moved a little, to one side."""
    with np.errstate(all="ignore"):
        return {
            name: np.asarray(value * (1 + side * _LITTLE), value.dtype)
            if name in names and is_float(value)
            else value
            for name, value in row.items()
        }


_LITTLE = 1e-3


_SLACK = 1e-2
"""How far from an end of wanted values it is reached, as a share of the larger of them."""


def covers(found: Interval | None, wanted: Interval) -> bool:
    """Whether numbers were found that reach both ends of those wanted, or come near them."""
    slack = _SLACK * max(map(abs, wanted))
    return (
        found is not None and found[0] - slack <= wanted[0] and wanted[1] <= found[1] + slack
    )


_POWERS = 2.0 ** np.arange(-24, 41, 4)
"""Lengths of rays."""


def along_ray(
    run: Callable[[Mapping[str, Array]], Outputs | None],
    feeds: Mapping[str, Array],
    ray: Mapping[str, Array],
    wanted: Mapping[str, Interval],
) -> Iterator[dict[str, Array]]:
    """Yield feeds along a ray between which a result crosses a wanted number, and beyond it.

    It reaches what is behind sums, norms and products, on which one length acts.
    """

    def at(length: float) -> dict[str, Array]:
        with np.errstate(over="ignore"):
            return {**feeds, **{n: np.asarray(length * d, d.dtype) for n, d in ray.items()}}

    def result(name: str, length: float) -> Array | None:
        row = run(at(length))
        value = None if row is None else row.get(name)
        usable = isinstance(value, np.ndarray) and value.size
        return np.asarray(value, np.float64) if usable else None

    for name, ends in wanted.items():
        found = [result(name, length) for length in _POWERS]
        for number in dict.fromkeys(ends):
            sides = [None if v is None else np.asarray(v >= number).ravel() for v in found]
            for k, (one, other) in enumerate(pairwise(sides)):
                if one is None or other is None or one.shape != other.shape:
                    continue
                if not (crossing := one != other).any():
                    continue
                place = int(crossing.argmax())
                low, high = float(_POWERS[k]), float(_POWERS[k + 1])
                for _ in range(_HALVINGS):
                    middle = (low + high) / 2
                    value = result(name, middle)
                    if value is None or value.size <= place:
                        break
                    same = bool(value.ravel()[place] >= number) == bool(one[place])
                    low, high = (middle, high) if same else (low, middle)
                yield at(low)
                yield at(high)
                yield at(high + abs(high))  # a tolerance sees what is well beyond
                break
            else:  # an end that is approached and not crossed
                near = (number, number)
                close = (k for k, v in enumerate(found) if covers(span_of(v), near))
                yield from (at(float(_POWERS[k])) for k in islice(close, 1))


Run = Callable[[Sequence[Array]], Sequence[Array | None]]
"""Gives what some nodes make of each input, of the same shape; None where they do not run."""


_HALVINGS = 64
"""Bisections: neighbouring floats lie closer than 2^-64 of the range where they meet."""


_GRID = np.concatenate([-np.logspace(9, -6, 31), [0.0], np.logspace(-6, 9, 31)])
"""Where two neighbours enclose a wanted value, one between them gives it or comes near it."""


_MOST_OF_DRAWN_ROWS = 1 << 12
"""Elements of a value up to which an input is looked for."""


def find_preimages(
    engine: Engine,
    model: ir.Model,
    nodes: Sequence[ir.Node],
    feeds: Mapping[str, Array],
    varying: Collection[str],
    wanted: Feeds,
) -> Iterator[dict[str, Array]]:
    """Yield feeds on which nodes compute wanted values, if they are found.

    Of the feeds only those in ``varying`` may be other values.
    """
    made = {str(v.name) for node in nodes for v in node.outputs}
    for name, values in wanted.items():
        if name not in made or not _is_small_float(values):
            continue
        ahead = backward_slice({name}, nodes, feeds.__contains__)
        for source in sorted({*varying} & {*boundary_of(ahead)}):
            like = feeds[source]
            if not _is_small_float(like) or like.shape != values.shape:
                continue
            try:
                with prepare_nodes(engine, model, ahead, [feeds]) as run:
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
    comes out is another value. ``like`` has the shape and float dtype of the input; elements
    that cannot be reached keep its values. None if no element can be reached.
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
    return is_float(data) and 0 < data.size <= _MOST_OF_DRAWN_ROWS


def is_float(data: object) -> TypeGuard[Array]:
    """Whether a value is a tensor of floats."""
    return isinstance(data, np.ndarray) and kind_of(data.dtype) == "float"
