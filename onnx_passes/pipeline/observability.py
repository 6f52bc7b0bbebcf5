"""Whether the outputs of a model can see that a value differs.

A value is disturbed and the nodes that read it are run. A check shows nothing if the outputs
do not change. ``Downstream`` follows a difference to the place where two models agree again.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes import risky_runs
from onnx_passes.arrays import Array, DType
from onnx_passes.contracts import Equality
from onnx_passes.contracts.scores import kind_of, widen
from onnx_passes.errors import EngineError
from onnx_passes.model.copy import copy_model
from onnx_passes.model.digest import leaf_key
from onnx_passes.model.walk import all_nodes, captured_values, subgraphs_of
from onnx_passes.runtime.engine_base import Data, Engine, Feeds, run_each
from onnx_passes.verify.judge import Promise
from onnx_passes.verify.obligations import Obligation
from onnx_passes.verify.recording import Recorded, expose_values, inlined, random_like
from onnx_passes.verify.region import (
    Region,
    backward_slice,
    boundary_of,
    diff_nodes,
    region_model,
    run_nodes,
)
from onnx_passes.verify.well_formed import infer_types

_FACTOR, _SHIFT = 1.0625, 0.0625
"""What a value is disturbed by: enough to be seen, and far from saturating what follows."""


def can_see(
    engine: Engine,
    before: ir.Model,
    after: ir.Model,
    sample: Feeds,
    ignored: Collection[str] = (),
) -> bool | None:
    """Return whether the outputs move when the values that a change replaced are disturbed.

    None if that cannot be asked. ``ignored`` outputs do not count as evidence.
    """
    label = risky_runs.label(risky_runs.DRAWN, "disturbed values")
    if risky_runs.avoided(label):
        return None
    before, after = inlined(before), inlined(after)
    disturbed = copy_model(before)
    values = [
        value
        for node in _replaced(disturbed, after)
        for value in node.outputs
        if value.name and value not in disturbed.graph.outputs
    ]
    if not values:
        return True  # what was replaced are the outputs themselves
    try:
        _note_types(before, disturbed, values, engine, sample)
        if not disturb_values(values):
            return None
        with engine.prepare(before) as session:
            old = session.run(sample)
        with risky_runs.running(label), engine.prepare(disturbed) as session:
            new = session.run(sample)
    except EngineError:
        return None
    kept = [name for name in old if name not in ignored]
    sides = [{name: side[name] for name in kept} for side in (old, new)]
    return bool(kept) and bool(Promise(Equality()).broken(*sides))


def _replaced(before: ir.Model, after: ir.Model) -> Iterator[ir.Node]:
    """Yield the nodes that were replaced; inside a body, if only that differs."""
    new, removed = diff_nodes(before, after)
    yield from _inside(removed, new)


def _inside(removed: Iterable[ir.Node], new: Iterable[ir.Node]) -> Iterator[ir.Node]:
    holders = {_key(node): node for node in new}
    for node in removed:
        other = holders.get(_key(node))
        pairs = [] if other is None else _bodies(node, other)
        if not pairs:
            yield node
        for one, two in pairs:
            kept = {_key(n) for n in two if not list(subgraphs_of(n))}
            gone = [n for n in one if _key(n) not in kept]
            yield from _inside(gone, two)


def _key(node: ir.Node) -> Hashable:
    attributes = sorted(
        (name, leaf_key(attribute))
        for name, attribute in node.attributes.items()
        if attribute.type not in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
    )
    names = (tuple(v and v.name for v in values) for values in (node.inputs, node.outputs))
    return (node.domain, node.op_type, repr(attributes), *names)


def _bodies(node: ir.Node, other: ir.Node) -> list[tuple[ir.Graph, ir.Graph]]:
    return list(zip(subgraphs_of(node), subgraphs_of(other), strict=False))


def _note_types(
    model: ir.Model, copy: ir.Model, values: Sequence[ir.Value], engine: Engine, sample: Feeds
) -> None:
    """Note the types of values, which few files hold: inferred, or as a run shows them."""
    if any(value.dtype is None for value in values):
        inferred = copy_model(copy)  # as a whole it may not run: sequences become tensors
        infer_types(inferred)
        wanted = set(values)
        for node, twin in zip(all_nodes(copy), all_nodes(inferred), strict=True):
            for value, typed in zip(node.outputs, twin.outputs, strict=True):
                if value in wanted:
                    value.type = value.type or typed.type
    lacking = {str(v.name): v for v in values if v.dtype is None and v.graph is copy.graph}
    if lacking:
        with engine.prepare(expose_values(model, needed=lacking)) as session:
            found = session.run(sample)
        for name, value in lacking.items():
            array = found.get(name)
            if isinstance(array, np.ndarray):
                value.type = ir.TensorType(ir.DataType.from_numpy(array.dtype))


def disturb_values(values: Iterable[ir.Value]) -> bool:
    """Let the readers of some float values see others; the graphs change in place.

    Returns whether one of the values is known to be a float.
    """
    floats = [value for value in values if _is_float(value)]
    for value in floats:
        _disturb(value)
    return bool(floats)


def _is_float(value: ir.Value) -> bool:
    return value.dtype in (
        ir.DataType.FLOAT,
        ir.DataType.DOUBLE,
        ir.DataType.FLOAT16,
        ir.DataType.BFLOAT16,
    )


def _disturb(value: ir.Value) -> None:
    node = value.producer()
    assert value.dtype is not None
    assert node is not None
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    users = list(value.uses())
    read = value
    for operator, number in (("Mul", _FACTOR), ("Add", _SHIFT)):
        name = f"{value.name}/disturbed/{operator}"
        tensor = ir.tensor(np.asarray(number, value.dtype.numpy()), value.dtype, name=name)
        by = ir.node("Constant", [], {"value": tensor}, name=f"{name}/by")
        by.outputs[0].name = f"{name}/by"
        made = ir.node(operator, [read, by.outputs[0]], name=name)
        made.outputs[0].name, made.outputs[0].type = name, value.type
        graph.insert_after(node, [by, made])
        node, read = made, made.outputs[0]
    for user, index in users:
        user.replace_input_with(index, read)
    for index, output in enumerate(graph.outputs):
        if output is value:
            graph.outputs[index] = read


GROWTH = 64
"""Number of unchanged nodes within which the models must agree again."""

_BLUNT = 0.1
"""A value agrees again if it moved by less than this part of what it moves by when the value
that differs is changed by as much."""

_DRAWS = 3
"""How often values around a difference are other ones before it is excused."""

_RISE = 64.0
"""How many times as large floats are at one end of an axis as elsewhere."""

_ROWS = 8
"""How many integers are put everywhere, one at a time."""


def nodes_behind(
    model: ir.Model, names: Collection[str], limit: int = GROWTH
) -> list[ir.Node]:
    """Return at most ``limit`` nodes that follow some values, the nearest first."""
    pending = [v for node in model.graph for v in node.outputs if v.name in names]
    pending += [v for v in model.graph.inputs if v.name in names]
    found: dict[ir.Node, None] = {}
    while pending and len(found) < limit:
        value = pending.pop(0)
        for node in _readers(model, value):
            if node not in found and len(found) < limit:
                found[node] = None
                pending += node.outputs
    return list(found)


def _readers(model: ir.Model, value: ir.Value) -> list[ir.Node]:
    found = [node for node in value.consumers() if node.graph is model.graph]
    if len(found) < len(value.consumers()):  # a body reads it
        found += [n for n in model.graph if value in captured_values(n) and n not in found]
    return found


@dataclass(frozen=True)
class Agreement:
    """Where two models agree again behind a value that differs.

    ``values`` are names in the model before. ``reason`` says why the difference matters; None
    if it does not. ``shown`` says that an output differs. ``by_chance`` is a value that agrees
    on the samples alone.
    """

    values: tuple[str, ...]
    reason: str | None = None
    shown: bool = False
    by_chance: str = ""


@dataclass
class Downstream:
    """Follows values that differ; both models are without functions.

    ``produced`` holds the values of the model after by sample, as far as they were computed,
    and ``computed`` the nodes that ran. ``fill`` records values of the model before.
    """

    before: ir.Model
    after: ir.Model
    engine: Engine
    recorded: Recorded
    produced: Sequence[Mapping[str, Data]]
    computed: Collection[ir.Node]
    fill: Callable[[frozenset[str]], bool]

    def settle(
        self, one: Obligation, names: Mapping[str, str], differs: Callable[[str, str], bool]
    ) -> Agreement:
        """Find where the models agree again behind one value, and whether that sees it."""
        label = risky_runs.label(risky_runs.DRAWN, f"behind {one.old}")
        if why := risky_runs.avoided(label):
            return Agreement((), f"what follows {one.old} does not run: {why}")
        by_chance: dict[str, Agreement] = {}
        while True:
            cuts = self._cuts(one, names, lambda o, n: o in by_chance or differs(o, n))
            if isinstance(cuts, Agreement):
                return next(iter(by_chance.values()), cuts)
            if not cuts:
                return Agreement(())  # nothing reads it
            with risky_runs.running(label):
                found = self._seen(one, cuts, differs)
            if not found.by_chance:
                return found
            by_chance[found.by_chance] = found  # look for another one further down

    def _cuts(
        self, one: Obligation, names: Mapping[str, str], differs: Callable[[str, str], bool]
    ) -> dict[str, str] | Agreement:
        """Return the values that agree, new name by old; or why there are none."""
        values = {str(v.name): v for node in self.after.graph for v in node.outputs if v.name}
        values |= {str(v.name): v for v in self.after.graph.inputs}
        values |= {str(v.name): v for v in self.after.graph.initializers.values()}
        pending, seen, cuts = [values[one.new]], {one.new}, {}
        while pending:
            value = pending.pop()
            if value.is_graph_output():
                return Agreement((), f"the output {value.name} differs", shown=True)
            for node in _readers(self.after, value):
                if node not in self.computed:
                    told = f"the models do not agree again within {GROWTH} nodes"
                    return Agreement((), told)
                for made in node.outputs:
                    name = str(made.name)
                    if not name or name in seen or not (made.uses() or made.is_graph_output()):
                        continue
                    seen.add(name)
                    old = names.get(name)
                    if old is not None and not differs(old, name):
                        cuts[old] = name
                    else:
                        pending.append(made)
        return cuts

    def _seen(
        self,
        one: Obligation,
        cuts: Mapping[str, str],
        differs: Callable[[str, str], bool],
    ) -> Agreement:
        """Ask whether values behind can see one: it is disturbed by as much as it differs."""
        nodes = self._between(one.old, set(cuts))
        if nodes is None or not set(cuts) <= {str(v.name) for n in nodes for v in n.outputs}:
            return Agreement((), f"{', '.join(cuts)} does not depend on {one.old} before")
        boundary = boundary_of(nodes)
        if not self.fill(frozenset((*boundary, *cuts))):
            return Agreement((), f"the values around {one.old} are not recorded")
        response = dict.fromkeys(cuts, 0.0)
        rows = list(zip(self.recorded.samples, self.produced, strict=True))
        part = region_model(
            self.before, Region(tuple(nodes), boundary, ()), self.recorded.samples
        )
        try:
            with self.engine.prepare(part) as session:
                for sign in (1, -1):
                    feeds = [
                        {n: old[n] for n in boundary}
                        | {one.old: disturb(old[one.old], _value(new, one, old), k, sign)}
                        for k, (old, new) in enumerate(rows)
                    ]
                    found = run_each(self.engine, session, feeds, list(cuts))
                    for (old, _), moved in zip(rows, found, strict=True):
                        for name in cuts:
                            # NaN comes of 0 times infinity, where nothing is seen.
                            far = distance(old[name], moved[name], finite=True)
                            response[name] = max(response[name], far)
        except EngineError as error:
            return Agreement((), f"what follows {one.old} does not run: {error.message}")
        for name, new_name in cuts.items():
            moved_by = max(
                distance(old[name], new.get(new_name, old[name])) for old, new in rows
            )
            if not response[name] or moved_by > _BLUNT * response[name]:
                return Agreement((), f"{name} agrees, and cannot see {one.old}")
        if wrong := self._differing_elsewhere(one, cuts, nodes, response, differs):
            told = f"{wrong} agrees on these samples only, and not where {one.old} is another"
            return Agreement((), told, by_chance=wrong)
        return Agreement(tuple(cuts))

    def _differing_elsewhere(
        self,
        one: Obligation,
        cuts: Mapping[str, str],
        nodes: Sequence[ir.Node],
        response: Mapping[str, float],
        differs: Callable[[str, str], bool],
    ) -> str | None:
        """Return a value that agrees only by the samples: other values around it show that.

        A difference inside is excused for what follows it. That must not hang on the data: a
        Relu before a MaxPool does nothing as long as each window has a positive element.
        """
        there = {str(v.name) for node in self.after.graph for v in node.outputs}
        made = {str(v.name) for node in self.computed for v in node.outputs}

        def shared(name: str) -> bool:
            return name in there and not (name in made and differs(name, name))

        ends = {one.old} | {str(v.name) for node in nodes for v in node.outputs}
        old_nodes = backward_slice(ends, self.before.graph, shared)
        names = frozenset(boundary_of(old_nodes))
        new_nodes = backward_slice(cuts.values(), self.after.graph, names.__contains__)
        if not (new_nodes and names.issuperset(boundary_of(new_nodes))):
            return None  # the two sides do not start at the same values
        if max(len(old_nodes), len(new_nodes)) > GROWTH or not self.fill(names):
            return None
        weights = {v.name for v in self.before.graph.inputs if v.const_value is not None}
        known = self._where_differs(one)
        varying = {name: known[name] for name in names if name not in weights}
        draws = [
            {**{name: known[name] for name in names}, **others}
            for others in (*_other_floats(varying), *_other_integers(varying))
        ]
        old_side = run_nodes(self.engine, self.before, old_nodes, draws)
        new_side = run_nodes(self.engine, self.after, new_nodes, draws)
        for old, new in zip(old_side, new_side, strict=True):
            if old is None or new is None:
                continue
            for name, new_name in cuts.items():
                if new_name in new and distance(old[name], new[new_name]) > (
                    _BLUNT * response[name]
                ):
                    return name
        return None

    def _where_differs(self, one: Obligation) -> Mapping[str, Array]:
        """Return the first sample on which a value differs: sizes may hide it in others."""
        rows = zip(self.recorded.samples, self.produced, strict=True)
        found = (old for old, new in rows if distance(old[one.old], _value(new, one, old)))
        return next(found, self.recorded.samples[0])

    def _between(self, start: str, ends: set[str]) -> list[ir.Node] | None:
        """Return the nodes of the model before that lead from one value to others."""
        reached: set[ir.Value] = set()
        behind: list[ir.Node] = []
        for value in (*self.before.graph.inputs, *self._made()):
            if value.name == start:
                reached.add(value)
        for node in self.before.graph:
            if any(v in reached for v in (*node.inputs, *captured_values(node))):
                reached.update(node.outputs)
                behind.append(node)
        return backward_slice(ends, behind, lambda _: False) or None

    def _made(self) -> list[ir.Value]:
        return [v for node in self.before.graph for v in node.outputs]


def _value(new: Mapping[str, Data], one: Obligation, old: Mapping[str, Array]) -> Array:
    if one.tensor is not None:
        return np.asarray(one.tensor.numpy())
    found = new.get(one.new, old.get(one.new))
    return found if isinstance(found, np.ndarray) else old[one.old]


def _other_floats(known: Mapping[str, Array]) -> Iterator[dict[str, Array]]:
    """Yield other floats for those recorded: of the opposite sign, then drawn.

    Those at either end of an axis are large in turn. A maximum sees no others.
    """
    floats = {name: array for name, array in known.items() if kind_of(array.dtype) == "float"}
    yield {name: np.asarray(-widen(a)).astype(a.dtype) for name, a in floats.items()}
    for turn in range(1, _DRAWS):
        yield {name: random_like(a, f"{name} {turn}") for name, a in floats.items()}
    for axis in range(max((a.ndim for a in floats.values()), default=0)):
        for end in (-1, 1):
            yield {n: _rising(random_like(a, n), axis, end) for n, a in floats.items()}


def _rising(array: Array, axis: int, end: int) -> Array:
    """Return floats that are small, but for those near the first or the last of an axis."""
    if axis >= array.ndim:
        return array
    ramp = np.maximum(np.exp2(-np.arange(array.shape[axis], dtype=float)), 1 / _RISE)[::end]
    shape = [-1 if k == axis else 1 for k in range(array.ndim)]
    return np.asarray(widen(array) * ramp.reshape(shape)).astype(array.dtype)


def _other_integers(known: Mapping[str, Array]) -> Iterator[dict[str, Array]]:
    """Yield integers that are the same everywhere, as where one row is all that is read."""
    for name, array in known.items():
        if kind_of(array.dtype) == "int" and array.size > 1:
            for value in np.unique(array)[:_ROWS]:
                yield {name: np.full_like(array, value)}


def disturb(old: Array, new: Array, seed: int, sign: int) -> Array:
    """Return a value changed by as much as another differs from it, in another direction.

    If ``new`` has another type or shape, all elements are changed a little. ``sign`` is 1, or
    -1 for the opposite direction.
    """
    kind = kind_of(old.dtype)
    if kind == "bool":
        return ~old if new.shape != old.shape else np.where(old == new, old, ~old)
    if kind not in ("float", "int"):
        return old
    wide = widen(old) if kind == "float" else old.astype(np.float64)
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], old.shape) * sign
    with np.errstate(all="ignore"):
        if new.shape == old.shape and new.dtype == old.dtype:
            size = np.abs((widen(new) if kind == "float" else new.astype(np.float64)) - wide)
            size = np.where(
                np.isfinite(size), size, np.where(np.isfinite(wide), np.abs(wide), 0)
            )
        else:
            finite = np.where(np.isfinite(wide), np.abs(wide), 0.0)
            size = np.full(old.shape, 0.05 * float(finite.max(initial=0.0)) or 0.05)
        # What is infinite stays: NaN in its place would be seen behind whatever ignores it.
        moved = np.where(np.isfinite(wide), wide + signs * size, wide)
        if kind == "int":
            moved = np.clip(np.rint(moved), *_range(old.dtype))
        result: Array = np.asarray(moved).astype(old.dtype).reshape(old.shape)
    return result


def _range(dtype: DType) -> tuple[float, float]:
    info = np.iinfo(dtype)
    return float(info.min), float(info.max)


def distance(one: Data, other: Data, *, finite: bool = False) -> float:
    """Return the largest difference of two values; infinite for another shape or type.

    With ``finite``, elements that are NaN or infinite on one side alone do not count.
    """
    if not (isinstance(one, np.ndarray) and isinstance(other, np.ndarray)):
        return 0.0
    if one.shape != other.shape or one.dtype != other.dtype:
        return float("inf")
    if kind_of(one.dtype) not in ("float", "int"):
        return float(np.any(one != other))
    with np.errstate(all="ignore"):
        a, b = (
            widen(x) if kind_of(x.dtype) == "float" else x.astype(np.float64)
            for x in (one, other)
        )
        both = np.isfinite(a) & np.isfinite(b)
        if not finite and ((a != b) & ~both & ~(np.isnan(a) & np.isnan(b))).any():
            return float("inf")
        return float(np.abs(a - b)[both].max(initial=0.0))
