"""Values that the nodes of a part are run on: drawn, at breakpoints, and reached.

Values on which nodes give wanted numbers are found element by element or along rays. Intervals
report what no input gives.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TypeGuard, cast

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.contracts.scores import kind_of
from onnx_passes.errors import EngineError
from onnx_passes.ops.call import Operands
from onnx_passes.ops.domains.intervals import UNBOUNDED, Interval, hull, of_array
from onnx_passes.ops.node_queries import (
    CASTS,
    CHOOSING,
    ML,
    PICKING,
    PICKS_ROWS,
    SQUARES,
    around,
    beyond,
    breakpoints_of,
    choices_of,
    makes_steps,
    overflows_of,
    range_of,
    steers,
    ties_of,
)
from onnx_passes.ops.operator_class import operator_of
from onnx_passes.runtime.engine_base import Data, Engine, Feeds, Outputs
from onnx_passes.runtime.inputs.boundary_values import saturating
from onnx_passes.verify.judge import identical
from onnx_passes.verify.node_equality import constant_tensor
from onnx_passes.verify.obligations import Obligation, ObligationPart
from onnx_passes.verify.recording import (
    DRAWS_OF_OTHERS,
    Recorded,
    ValueSource,
    make_ties,
    random_like,
)
from onnx_passes.verify.region import (
    Region,
    Side,
    backward_slice,
    boundary_of,
    prepare_nodes,
    region_model,
    run_nodes,
)


@dataclass(frozen=True)
class RandomInputs:
    """Draws what the nodes of a part read; see :class:`RandomComparison` for its fields."""

    before: ir.Model
    after: ir.Model
    recorded: Recorded
    engine: Engine
    renamed: Mapping[str, str]
    varying: AbstractSet[str]

    def draw(
        self,
        part: ObligationPart,
        sources: Mapping[str, str],
        kinds: Sequence[ValueSource],
        ahead: Sequence[ir.Node] = (),
        wanted: Mapping[str, Array] | None = None,
    ) -> list[dict[str, Array]]:
        """Return rows of values by name, some for each kind.

        ``sources`` are the values to draw, with the names that they are drawn like. ``wanted``
        are values that the nodes ``ahead`` should compute.
        """
        draws = [self._draw(sources, kind, k) for k, kind in enumerate(kinds)]
        if kinds is DRAWS_OF_OTHERS:
            nodes = list(dict.fromkeys((*ahead, *part.old)))
            varying = {n for n, source in sources.items() if source in self.varying}
            edges = self._at_breakpoints(sources, (*nodes, *part.new))
            edges += self._overflowing(part, sources, nodes, draws[0])
            ties = make_ties(draws[0], varying), _equal_rows(draws[0], varying)
            zeros = {
                n: np.zeros_like(a)
                for n, a in draws[0].items()
                if n in varying and is_float(a)
            }
            far: dict[str, Array] = {}
            if CHOOSING & {node.op_type for node in nodes}:
                far = {n: saturating(draws[0][n]) for n in zeros}
            draws += [draws[0] | row for row in (*edges, *ties, zeros, far) if row]
            recorded = self.recorded.samples[0]
            feeds = {name: recorded[source] for name, source in sources.items()}
            feeds |= {name: v for name, v in (wanted or {}).items() if name in feeds}
            draws += find_preimages(
                self.engine, self.before, nodes, feeds, varying, wanted or {}
            )
            if not casts_to_integers((*nodes, *part.new)):
                draws += self._across((self.before, nodes), sources, draws, part.new)
                draws += self._across((self.after, part.new), sources, draws)
            names = self.integers(part, sources, (*nodes, *part.new))
            draws += (draws[0] | row for row in _integer_rows(feeds, names))
            for side in ((self.before, nodes), (self.after, part.new)):
                draws += self._meeting(side, names, draws[0])
            picked = self.rows_that_differ(part, sources).items()
            draws += ({**draws[0], n: _filled(feeds[n], rows)} for n, rows in picked)
        return draws

    def integers(
        self, part: ObligationPart, sources: Mapping[str, str], nodes: Sequence[ir.Node]
    ) -> set[str]:
        """Return what nodes read of integers that are numbers: no size, index or divisor."""
        recorded = self.recorded.samples[0]
        found = {
            name
            for name, source in sources.items()
            if source in self.varying
            and isinstance(array := recorded[source], np.ndarray)
            and array.dtype.kind in "iu"
            and array.size > 1
        }
        steering = set[str]()
        for node in reversed(nodes):  # what indices are picked from are indices, too
            risky = (operator := operator_of(node)) is None or operator.divides
            risky &= not _divides_by_constant(node)
            picks = node.op_type in PICKING and not node.domain
            risky |= picks and any(value.name in steering for value in node.outputs)
            for index, value in enumerate(node.inputs):
                if value is not None and (risky or steers(node, index)):
                    steering.add(str(value.name))
        return found - steering

    def _inside(
        self, side: Side, row: Mapping[str, Array], readers: Sequence[ir.Node] = ()
    ) -> dict[str, list[float]]:
        """Return breakpoints of what nodes compute, for themselves and for other readers.

        None if a row lacks what they read.
        """
        nodes = side[1]
        made = {str(v.name) for node in nodes for v in node.outputs}
        every = breakpoints_of((*nodes, *readers))
        found = {n: numbers for n, numbers in every.items() if n in made}
        return found if row.keys() >= {*boundary_of(nodes)} else {}

    def _meeting(
        self, side: Side, names: Collection[str], draw: Mapping[str, Array]
    ) -> Iterator[dict[str, Array]]:
        """Yield integers from which nodes make those that they compare with others."""
        feeds = named_anew(draw, self.renamed)
        inside = self._inside(side, feeds) if names else {}
        if not inside:
            return
        try:
            with prepare_nodes(self.engine, *side, [feeds]) as run:
                usual = run(feeds) or {}
                left = {n: inside[n] for n in inside if _is_integer(usual.get(n))}
                for row in _counting(draw, names) if left else ():
                    found = run(named_anew(row, self.renamed)) or {}
                    met = [n for n in left if np.isin(np.asarray(found.get(n)), left[n]).any()]
                    if met:
                        yield row
                    left = {n: left[n] for n in left if n not in met}
                    if not left:
                        return
        except EngineError:
            return

    def rows_that_differ(
        self, part: ObligationPart, sources: Mapping[str, str]
    ) -> dict[str, Array]:
        """Return the rows in which tables of both sides differ, by what picks from them."""
        old, new = (_tables(nodes) for nodes in (part.old, part.new))
        found: dict[str, Array] = {}
        for name, table in new.items():
            picked = self.renamed.get(name, name)
            other, source = old.get(picked), sources.get(picked)
            if other is None or source not in self.varying or other.shape != table.shape:
                continue
            apart = (other != table).reshape(len(other), -1).any(axis=1)
            if apart.any():
                found[picked] = np.flatnonzero(apart)
        return found

    def _across(
        self,
        side: Side,
        sources: Mapping[str, str],
        draws: Sequence[Mapping[str, Array]],
        readers: Sequence[ir.Node] = (),
    ) -> Iterator[dict[str, Array]]:
        """Yield rows close to breakpoints inside a part, few where other rows cross them.

        ``readers`` have breakpoints for what the nodes of the side compute, too.
        """
        feeds = [named_anew(row, self.renamed) for row in draws]
        inside = self._inside(side, feeds[0], readers)
        if not inside:
            return
        rows = run_nodes(self.engine, *side, feeds)
        spans = spans_of([row for row in rows if row is not None])
        wanted: list[tuple[str, Interval]] = []
        for name, numbers in inside.items():
            for number in sorted({*numbers}, key=abs)[-_MOST_INSIDE:] if name in spans else ():
                apart = abs(number) / 8 or _NEAR_ZERO
                wanted.append((name, (number - apart, number + apart)))
        yield from self.rays(side, sources, wanted, spans)

    def rays(
        self,
        side: Side,
        sources: Mapping[str, str],
        wanted: Collection[tuple[str, Interval]],
        known: Mapping[str, Interval],
    ) -> Iterator[dict[str, Array]]:
        """Yield rows on which nodes may come as far as wanted numbers, few if known."""
        if not wanted:
            return
        recorded = self.recorded.samples[0]
        feeds = {name: recorded[source] for name, source in sources.items()}
        moving = {n: s for n, s in sources.items() if s in self.varying and is_float(feeds[n])}
        mixed, positive = (self._draw(moving, kind, 0) for kind in DRAWS_OF_OTHERS[:2])
        negative = {name: np.asarray(-array) for name, array in positive.items()}
        along = aligned_rows(side[1], {n: feeds[n] for n in moving})
        rays = [positive, {n: feeds[n] for n in moving}, mixed, negative, *along]
        usual = named_anew(feeds, self.renamed)
        try:
            with prepare_nodes(self.engine, *side, [usual]) as run:
                left = _RAY_WORK // max(_LEAST_WORK, _work_of(side[1], run(usual) or {}))

                def under_both(row: Mapping[str, Array]) -> Outputs | None:
                    nonlocal left
                    left -= 1
                    return run(named_anew(row, self.renamed)) if left >= 0 else None

                for name, ends in wanted:
                    few = covers(known.get(name), ends)
                    for ray in rays[: 1 if few else None]:
                        yield from along_ray(under_both, feeds, ray, {name: ends})
        except EngineError:
            return

    def sources(self, part: ObligationPart, ahead: Sequence[ir.Node] = ()) -> dict[str, str]:
        """Return the names of values to draw, with those that they are drawn like."""
        mine, theirs = reads_of(part, part.old, part.new)
        made = {str(v.name) for node in ahead for v in node.outputs}
        sources = {name: name for name in (*mine, *boundary_of(ahead)) if name not in made}
        for name in theirs:
            other = self.renamed.get(name, name)  # of two names of one value, that of before
            if name in made or other in made:
                continue
            unknown = not self.recorded.holds((name,))
            sources.setdefault(name, other if other in mine or unknown else name)
        return sources

    def _draw(
        self, sources: Mapping[str, str], kind: ValueSource, turn: int
    ) -> dict[str, Array]:
        recorded = self.recorded.samples[0]
        # What follows from constants is never another.
        found = {n: recorded[s] for n, s in sources.items() if s not in self.varying}
        conditions = 0
        for name, source in sources.items():
            if name not in found:
                like, own = recorded[source], kind
                if like.dtype == bool and like.size == 1:
                    own, conditions = kind.in_turn(conditions), conditions + 1
                found[name] = random_like(like, f"{source} {turn}", own)
        return {name: found[name] for name in sources}

    def _at_breakpoints(
        self,
        sources: Mapping[str, str],
        nodes: Sequence[ir.Node],
        overflows: Mapping[str, list[float]] | None = None,
    ) -> list[dict[str, Array]]:
        """Return rows of floats on both sides of where pieces of operators meet, or on one.

        Of what is quantised, one row lies half way between levels.
        """
        recorded = self.recorded.samples[0]
        floats = {
            name: array
            for name, source in sources.items()
            if source in self.varying
            and isinstance(array := recorded[source], np.ndarray)
            and kind_of(array.dtype) == "float"
        }
        met = breakpoints_of(nodes) if overflows is None else overflows
        found = {
            name: (*around(numbers, floats[name]), *beyond(numbers, floats[name]))
            for name, numbers in met.items()
            if name in floats
        }
        count = max(map(len, found.values()), default=1)
        ties = {
            name: np.resize(numbers, floats[name].shape).astype(floats[name].dtype)
            for name, numbers in ties_of(nodes).items()
            if name in floats
        }
        rows = [
            {name: rows[k % len(rows)] for name, rows in found.items()} for k in range(count)
        ]
        if any(node.domain == ML for node in nodes):  # a tree compares one column
            numbers = {n: all_[:_FILLED] for n, all_ in breakpoints_of(nodes).items()}
            rows += [
                {name: np.full_like(floats[name], number)}
                for name in floats.keys() & numbers.keys()
                for number in numbers[name]
            ]
        return [*rows, ties] if ties else rows

    def _overflowing(
        self,
        part: ObligationPart,
        sources: Mapping[str, str],
        nodes: Sequence[ir.Node],
        draw: Mapping[str, Array],
    ) -> list[dict[str, Array]]:
        """Return rows on which new nodes overflow, and the original does not."""
        overflows = overflows_of(part.new)
        if not overflows or any(node.op_type in SQUARES for node in part.old):
            return []
        found = self._at_breakpoints(sources, (), overflows)
        for row in found:  # two names may be of one value
            given = {sources[name]: array for name, array in row.items()}
            row |= {n: given[source] for n, source in sources.items() if source in given}
        if not overflows_of(nodes):
            return found
        # What is divided by its own size does not overflow, whatever the size.
        most = _FARTHER * max(max(points) for points in overflows.values())
        known = {
            n: self.recorded.samples[0][s] for n, s in sources.items() if s in self.varying
        }
        with np.errstate(over="ignore"):
            found.append(
                {n: np.asarray(most * a, a.dtype) for n, a in known.items() if is_float(a)}
            )
        made = run_nodes(self.engine, self.before, nodes, [{**draw, **row} for row in found])
        return [
            row
            for row, values in zip(found, made, strict=True)
            if values and all(np.isfinite(v).all() for v in values.values() if is_float(v))
        ]


_FARTHER = 256.0
"""How many times as large as where they overflow values are."""

_FILLED = 8
"""Thresholds of trees that each element is put at, one after the other."""

_RAY_WORK, _LEAST_WORK = 1 << 28, 1 << 15
"""Products and comparisons of a part up to which it runs along rays; of one run at least."""


def _work_of(nodes: Sequence[ir.Node], made: Mapping[str, Data]) -> int:
    """Return about how many products or comparisons there are in what nodes made.

    Each element of a constant meets each result, but for the channels that it comes in.
    """
    work = 0
    for node in nodes:
        tensors = (constant_tensor(value) for value in node.inputs if value is not None)
        shapes = [t.shape.numpy() for t in tensors if t is not None]
        met = [math.prod(shape[1:]) for shape in shapes]
        found = (made.get(str(value.name)) for value in node.outputs)
        work += sum(d.size for d in found if isinstance(d, np.ndarray)) * max((1, *met))
    return work


def aligned_rows(
    nodes: Sequence[ir.Node], feeds: Mapping[str, Array]
) -> list[dict[str, Array]]:
    """Return floats whose rows are those of a constant that nodes multiply by, if any fit.

    Of all rows of one length they give the largest products: behind a norm, no others may.
    """
    found: dict[str, Array] = {}
    for node in nodes:
        right = node.inputs[1] if node.op_type in ("Gemm", "MatMul") else None
        tensor = None if right is None else constant_tensor(right)
        if tensor is None or len(tensor.shape) != 2:
            continue
        rows = tensor.numpy() if node.attributes.get_int("transB", 0) else tensor.numpy().T
        for name, array in feeds.items():
            if array.ndim and array.shape[-1] == rows.shape[1] and array.size:
                found.setdefault(name, np.resize(rows, array.shape).astype(array.dtype))
    return [found] if found else []


def _equal_rows(draw: Mapping[str, Array], names: Collection[str]) -> dict[str, Array]:
    """Return floats that are equal along the last axis: a variance is zero, a norm may be."""
    return {
        name: np.broadcast_to(draw[name][..., :1], draw[name].shape).copy()
        for name in names
        if is_float(draw[name]) and draw[name].ndim > 1
    }


def casts_to_integers(nodes: Sequence[ir.Node]) -> bool:
    """Whether floats are cast to integers: out of their range, that gives any number."""
    return any(node.op_type in CASTS and makes_steps(node) for node in nodes)


def _integer_rows(
    feeds: Mapping[str, Array], names: Collection[str]
) -> Iterator[dict[str, Array]]:
    """Yield integers that samples may lack: small ones of either sign, zeros, large ones."""
    if not names:
        return
    for numbers in ((2, 0, 1, 3, -1, 1), (0,), (_LARGE, _LARGE - 1), (-_LARGE - 1,)):
        yield {name: _filled(feeds[name], numbers) for name in names}


def _filled(like: Array, numbers: Sequence[int] | Array) -> Array:
    """Return an array of integers, the numbers in turn, as far as its type holds them."""
    ends = np.iinfo(like.dtype)
    held = [max(int(ends.min), min(int(number), int(ends.max))) for number in numbers]
    return np.resize(np.array(held, like.dtype), like.shape)


_MOST_MET = 1 << 12
"""Integers that are tried, from 0 on."""


def _is_integer(value: Data | None) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "iu"


def _counting(draw: Mapping[str, Array], names: Collection[str]) -> Iterator[dict[str, Array]]:
    """Yield rows in which one of some integers counts on, from 0 and from row to row."""
    for name in sorted(names):
        like = draw[name]
        for start in range(0, min(_MOST_MET, int(np.iinfo(like.dtype).max)), like.size):
            counted = np.arange(start, start + like.size).reshape(like.shape)
            yield {**draw, name: counted.astype(like.dtype)}


def _divides_by_constant(node: ir.Node) -> bool:
    """Whether a node divides by integers that are known to be neither 0 nor -1."""
    divisor = node.inputs[1] if len(node.inputs) == 2 else None
    tensor = None if divisor is None else constant_tensor(divisor)
    return tensor is not None and not np.isin(tensor.numpy(), (0, -1)).any()


def _tables(nodes: Iterable[ir.Node]) -> dict[str, Array]:
    """Return constants from which nodes pick rows, by the name of what picks."""
    picking = [
        n for n in nodes if n.op_type == PICKS_ROWS and not n.attributes.get_int("axis", 0)
    ]
    read = ((str(n.inputs[1].name), n.inputs[0]) for n in picking if n.inputs[1] is not None)
    found = ((name, constant_tensor(value)) for name, value in read if value is not None)
    return {name: tensor.numpy() for name, tensor in found if tensor is not None}


_LARGE = 2**63 - 1


_MOST_INSIDE, _NEAR_ZERO = 4, 1e-3
"""Breakpoints of a value inside a part that are looked for, and how far around 0."""


_SMALL = 1 << 16
"""Elements up to which a value is drawn only to see more of it."""


def is_plain(array: Array) -> bool:
    """Whether an array is small, and of no float that every node rounds much."""
    return array.size <= _SMALL and (kind_of(array.dtype) != "float" or array.itemsize > 2)


def row_of(*found: Mapping[str, Data]) -> Mapping[str, Data]:
    """Return values by name; the first that knows a name decides."""
    return ChainMap(*(cast(MutableMapping[str, Data], one) for one in found))


def reads_of(
    part: ObligationPart, old: Sequence[ir.Node], new: Sequence[ir.Node]
) -> tuple[set[str], set[str]]:
    """Return what each side reads or is asked for, and does not compute.

    Names of the model before, and of the model after.
    """
    asked = [one for one in part.obligations if one.tensor is None]
    found = []
    for nodes, names in ((old, [o.old for o in asked]), (new, [o.new for o in asked])):
        made = {v.name for node in nodes for v in node.outputs}
        found.append({*boundary_of(nodes), *(name for name in names if name not in made)})
    return found[0], found[1]


def new_value(one: Obligation, old: Mapping[str, Data], new: Mapping[str, Data]) -> Data:
    """Return a value after the change; if it was not computed anew, as before."""
    if one.tensor is not None:
        return one.tensor.numpy()
    return new[one.new] if one.new in new else old.get(one.new)


def named_anew(values: Mapping[str, Data], renamed: Mapping[str, str]) -> dict[str, Array]:
    """Return values under their names in the model after as well."""
    found = dict(values)
    for new, old in renamed.items():
        if old in found:
            found.setdefault(new, found[old])
    return cast(dict[str, Array], found)


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
    """Return a row with floats moved into the bounds of their names; others are the same."""
    found = dict(row)
    for name in bounds.keys() & row.keys():
        if is_float(row[name]):
            with np.errstate(all="ignore"):
                moved = np.asarray(np.clip(row[name], *bounds[name]), row[name].dtype)
            found[name] = row[name] if identical(moved, row[name]) else moved
    return found


def on_levels(row: Mapping[str, Array], nodes: Sequence[ir.Node]) -> dict[str, Array]:
    """Return a row in which the choice of a Where between two numbers is one of them."""
    found = dict(row)
    for node in nodes:
        name = str(node.outputs[0].name)
        ends = [None if v is None else constant_tensor(v) for v in choices_of(node)]
        numbers = [end.numpy().item() for end in ends if end is not None and end.size == 1]
        if len(numbers) == 2 and name in row and not np.isin(row[name], numbers).all():
            chosen = np.where(row[name] >= max(numbers), max(numbers), min(numbers))
            found[name] = np.asarray(chosen, row[name].dtype)
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
    """Return a row with floats of some names moved a little, to one side.

    Each moves by more than the one before it, so that what was equal is not.
    """
    turns = {name: 1 + side * _LITTLE * k for k, name in enumerate(sorted(names), 1)}
    with np.errstate(all="ignore"):
        return {
            name: np.asarray(value * turns[name], value.dtype)
            if name in turns and is_float(value)
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


_POWERS = 2.0 ** np.arange(-60, 41, 4)
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
                # A tolerance sees what is well beyond, on either side.
                yield from map(at, (low, high, high + abs(high), low - abs(low) / 2))
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
