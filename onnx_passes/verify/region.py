"""The part of a model that a pass changed, and small models cut from a model.

The boundary of a region is where both models agree again. ``cut`` gives two small models of
one interface. ``node_model`` makes a model of one node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from onnx_passes.arrays import Array
from onnx_passes.errors import EngineError
from onnx_passes.model.copy import copy_nodes
from onnx_passes.model.extract import assemble
from onnx_passes.model.walk import (
    captured_values,
    node_operator,
    node_outputs,
    nodes_of,
    subgraphs_of,
)
from onnx_passes.ops.node_queries import may_draw
from onnx_passes.passes.constants import is_constant
from onnx_passes.plain import PlainMapping
from onnx_passes.runtime.engine_base import Data, Engine, Feeds, Outputs, run_one
from onnx_passes.runtime.engine_models import insert_barriers
from onnx_passes.verify.node_equality import (
    FoldedConstants,
    NodeEquality,
    constant_tensor,
    is_identity,
    same_tensor,
)

Side = tuple[ir.Model, Sequence[ir.Node]]
"""A model, and the nodes of it that only one side of a change has."""


@dataclass(frozen=True)
class Region:
    """What changed in the main graph of a model.

    ``nodes`` are new, ``removed`` those before without a counterpart. The ``boundary`` is what
    they read and do not compute, constants aside; the ``frontier`` what they compute and
    others read. ``folded`` are constants that nodes read in place of computed values: the rest
    of the region holds only if they are equal, bit for bit.
    """

    nodes: tuple[ir.Node, ...]
    boundary: tuple[str, ...]
    frontier: tuple[str, ...]
    folded: Mapping[str, ir.TensorProtocol] = field(default_factory=dict)
    removed: tuple[ir.Node, ...] = ()

    @property
    def needed(self) -> frozenset[str]:
        """Names of the values that have to be known to check it."""
        return frozenset((*self.boundary, *self.frontier, *self.folded))


def changed_region(
    before: ir.Model, after: ir.Model, folded: FoldedConstants | None = None
) -> Region | None:
    """Find what changed between two models.

    With ``folded``, a constant in place of a computed value makes no reader new, unless it was
    refused. None if values cannot be matched by name, so that only the whole model shows:
    other defaults of inputs, an output of no node.
    """
    if not _defaults_agree(before, after):
        return None
    if any(
        v.producer() is None and not v.is_graph_input() and constant_tensor(v) is None
        for v in after.graph.outputs
    ):
        return None
    if not _constant_outputs_agree(before, after, folded):
        return None  # no node computes them that could be run
    new, removed = diff_nodes(before, after, folded)
    producers = {str(v.name) for node in before.graph for v in node.outputs if v.name}
    boundary = boundary_of(new)
    frontier = _frontier(new, after)
    names = {v.name for v in before.graph.inputs}
    if any(n not in names and n not in producers for n in (*boundary, *frontier)):
        return None
    taken = folded.tensors if folded is not None else {}
    return Region(tuple(new), boundary, frontier, taken, tuple(removed))


def diff_nodes(
    before: ir.Model, after: ir.Model, folded: FoldedConstants | None = None
) -> tuple[list[ir.Node], list[ir.Node]]:
    """Return the new nodes of the main graphs, and those that have no counterpart."""
    old_nodes = nodes_of(before.graph)
    producers = {v.name: node for node in old_nodes for v in node_outputs(node) if v.name}
    equality = NodeEquality(before, after, folded)
    new: list[ir.Node] = []
    kept: set[ir.Node] = set()
    for node in nodes_of(after.graph):
        if not is_constant_node(node):
            name = node.outputs[0].name or next((v.name for v in node.outputs if v.name), None)
            old = producers.get(name)
            if old is None or not equality.same(old, node):
                new.append(node)
            else:
                kept.add(old)
    return new, [n for n in old_nodes if n not in kept and not is_constant_node(n)]


def boundary_of(nodes: Sequence[ir.Node]) -> tuple[str, ...]:
    """Return the names of what nodes read, constants and their own results apart."""
    inside = {value for node in nodes for value in node.outputs}
    read = [value for node in nodes for value in (*node.inputs, *captured_values(node))]
    return tuple(
        dict.fromkeys(
            str(v.name)
            for v in read
            if v is not None and v not in inside and constant_tensor(v) is None
        )
    )


def backward_slice(
    ends: Collection[str], nodes: Iterable[ir.Node], known: Callable[[str], bool]
) -> list[ir.Node]:
    """Return the nodes that compute values from those that are ``known``, in order."""
    needed, found = set(ends), []
    for node in reversed(list(nodes)):
        if any(v.name in needed for v in node.outputs):
            found.append(node)
            needed |= {
                str(v.name)
                for v in (*node.inputs, *captured_values(node))
                if v is not None and constant_tensor(v) is None and not known(str(v.name))
            }
    return found[::-1]


def _defaults_agree(before: ir.Model, after: ir.Model) -> bool:
    """Whether the initializers that callers may override are what they were."""
    old = {v.name: v.const_value for v in before.graph.inputs if v.const_value is not None}
    new = {v.name: v.const_value for v in after.graph.inputs if v.const_value is not None}
    return old.keys() == new.keys() and all(same_tensor(old[n], new[n]) for n in new)


def _constant_outputs_agree(
    before: ir.Model, after: ir.Model, folded: FoldedConstants | None
) -> bool:
    """Whether each output that is a constant was that constant, or may be compared with it."""
    old = {v.name: v for v in before.graph.outputs}
    for value in after.graph.outputs:
        tensor = constant_tensor(value)
        known = old.get(value.name)
        if known is None:
            continue
        other = constant_tensor(known)
        if tensor is None and other is None:
            continue
        if tensor is not None and other is not None:
            if not same_tensor(other, tensor):
                return False
        elif tensor is None or folded is None or not folded.take(str(value.name), tensor):
            return False
    return True


def _frontier(new: list[ir.Node], model: ir.Model) -> tuple[str, ...]:
    """Return the names of what new nodes compute, and others or the outputs read."""
    fresh = set(new)
    holders: dict[ir.Value, list[ir.Node]] | None = None
    found: dict[str, None] = {}
    for node in new:
        for value in node.outputs:
            # Who reads an Identity reads this value.
            pending, kept = [value], value.is_graph_output()
            while pending and not kept:
                read = pending.pop()
                users = [u for u in read.consumers() if u.graph is model.graph]
                if len(users) < len(read.consumers()):
                    holders = _captures(model) if holders is None else holders
                    users += holders.get(read, [])
                kept = any(user not in fresh for user in users)
                pending += [user.outputs[0] for user in users if is_identity(user)]
            if kept:
                found[str(value.name)] = None
    return tuple(found)


def _captures(model: ir.Model) -> dict[ir.Value, list[ir.Node]]:
    """Return the nodes of the main graph that hold a subgraph which reads a value."""
    found: dict[ir.Value, list[ir.Node]] = defaultdict(list)
    for node in model.graph:
        for value in captured_values(node):
            found[value].append(node)
    return found


def is_constant_node(node: ir.Node) -> bool:
    """Whether a node is a Constant whose tensor is known."""
    if node_operator(node) != ("", "Constant"):
        return False
    return constant_tensor(node.outputs[0]) is not None


def region_model(
    model: ir.Model,
    region: Region,
    rows: Sequence[PlainMapping],
    hidden: Collection[str] = (),
) -> ir.Model:
    """Return the region as a model: inputs are its boundary, outputs all that it computes.

    Only the nodes of the region are copied; weights and functions are shared. ``rows`` are
    values that it will run on, for types and ranks. The length of a vector is declared if all
    agree: operators that take sizes ask for it. ``hidden`` names are not outputs.
    """
    return _model_of(model, [_cut(region, rows, hidden)])


def joined_model(
    model: ir.Model, parts: Sequence[tuple[Region, Sequence[PlainMapping]]]
) -> ir.Model:
    """Return regions as one model, in which nothing connects them.

    Each name begins with the number of its region and a slash. Functions and opset imports are
    those of ``model``. Values are as for :func:`region_model`.
    """
    cuts = [_cut(region, rows, (), f"{n}/") for n, (region, rows) in enumerate(parts)]
    return _model_of(model, cuts)


def part_leading_to(
    name: str, side: Side, recordings: Sequence[PlainMapping]
) -> ir.Model | None:
    """Return the nodes of a part that lead to a value, as a model with this output alone.

    None if nothing of the part does, or if what the nodes read is not recorded.
    """
    model, nodes = side
    needed = backward_slice([name], nodes, lambda _: False)
    boundary = boundary_of(needed)
    if not needed or not all(set(boundary) <= row.keys() for row in recordings):
        return None
    hidden = {str(v.name) for node in needed for v in node.outputs} - {name}
    return region_model(model, Region(tuple(needed), boundary, ()), recordings, hidden)


@dataclass(frozen=True)
class _RegionCopy:
    """Copies of nodes, and what a graph of them holds."""

    nodes: list[ir.Node]
    inputs: list[ir.Value]
    outputs: list[ir.Value]
    initializers: list[ir.Value]


def _model_of(model: ir.Model, cuts: Sequence[_RegionCopy]) -> ir.Model:
    body = ir.Graph(
        [value for cut in cuts for value in cut.inputs],
        [value for cut in cuts for value in cut.outputs],
        nodes=[node for cut in cuts for node in cut.nodes],
        initializers=[value for cut in cuts for value in cut.initializers],
        opset_imports=dict(model.graph.opset_imports),
        name="region",
    )
    functions = list(model.functions.values())
    return ir.Model(body, ir_version=model.ir_version, functions=functions)


def _cut(
    region: Region, rows: Sequence[PlainMapping], hidden: Collection[str], prefix: str = ""
) -> _RegionCopy:
    """Copy the nodes of a region; names begin with ``prefix``, and tensors keep theirs."""
    nodes, copies = copy_nodes(region.nodes)
    for copy in copies.values() if prefix else ():
        copy.const_value = None  # it would be renamed as well, and is shared
        copy.name = f"{prefix}{copy.name}" if copy.name else copy.name
    for node in nodes if prefix else ():
        node.name = f"{prefix}{node.name}" if node.name else node.name
    inside = {value for node in region.nodes for value in node.outputs}
    outside: dict[str, ir.Value] = {}
    initializers: dict[str, ir.Value] = {}
    for node in region.nodes:
        for value in (*node.inputs, *captured_values(node)):
            if value is None or value in inside:
                continue
            copy = copies[value]
            tensor = constant_tensor(value)
            if tensor is None:
                outside[str(value.name)] = copy
            else:
                copy.const_value = tensor
                initializers[str(value.name)] = copy
    inputs = []
    for name in region.boundary:
        array = rows[0][name]
        entry = outside.get(name) or ir.Value(name=f"{prefix}{name}")
        entry.const_value = None
        entry.type = ir.TensorType(ir.DataType.from_numpy(array.dtype))
        entry.shape = ir.Shape([None] * array.ndim)
        if array.ndim == 1 and all(row[name].shape == array.shape for row in rows):
            entry.shape = ir.Shape(array.shape)
        inputs.append(entry)
    shown = [v for node in nodes for v in node.outputs if v.name and v.name not in hidden]
    return _RegionCopy(nodes, inputs, shown, list(initializers.values()))


Parts = tuple[ir.Model, ir.Model, dict[str, Data]]
"""Two parts of models and the values of their inputs."""


def cut(before: ir.Model, after: ir.Model, feeds: Feeds, engine: Engine) -> Parts | None:
    """Cut out what changed between two models, with the values at its boundary.

    The engine runs ``before`` for the boundary values; EngineError if it cannot. None if names
    do not show the change, if nothing that is read on changed, or if a boundary value is not a
    tensor.
    """
    new, old = changed_region(before, after), changed_region(after, before)
    if new is None or old is None or not new.nodes or not old.nodes or not new.frontier:
        return None
    boundary = tuple(dict.fromkeys((*old.boundary, *new.boundary)))
    computed = {str(value.name) for node in old.nodes for value in node.outputs}
    if not computed.issuperset(new.frontier):
        return None
    return _parts(
        (before, after), (old.nodes, new.nodes), boundary, new.frontier, feeds, engine
    )


def values_of(
    model: ir.Model, names: Iterable[str], feeds: Feeds, engine: Engine
) -> dict[str, Data]:
    """Return values of a model's main graph, by one run of it.

    Names that the graph neither reads nor computes are left out. EngineError if the model does
    not run, or a value cannot be an output.
    """
    wanted = set(names)
    found = {name: data for name, data in feeds.items() if name in wanted}
    for value in model.graph.inputs:
        # What a caller does not give has its default.
        if value.name in wanted - found.keys() and value.const_value is not None:
            found[str(value.name)] = value.const_value.numpy()
    inner = [
        str(value.name)
        for node in model.graph
        for value in node.outputs
        if value.name in wanted and value.name not in found
    ]
    if not inner:
        return found
    exposed = model.clone()
    known = {str(value.name) for value in exposed.graph.outputs}
    exposed.graph.outputs.extend(
        value
        for node in exposed.graph
        for value in node.outputs
        if value.name in inner and value.name not in known
    )
    with engine.prepare(exposed) as session:
        return found | session.run(feeds, inner)


def cut_around(
    before: ir.Model, after: ir.Model, name: str, feeds: Feeds, engine: Engine
) -> Parts | None:
    """Cut out what computes one value, down to values that both models have in common.

    The value must be the first that differs, so that what is before it agrees. None if no part
    can be cut out. EngineError if ``before`` does not run.
    """
    old, new = producers_by_name(before), producers_by_name(after)
    if name not in old or name not in new:
        return None
    common = (old.keys() & new.keys()) - {name}
    common |= {str(value.name) for value in before.graph.inputs}
    cuts = [_behind(model, name, common) for model in (before, after)]
    boundary = tuple(dict.fromkeys(n for _, names in cuts for n in names))
    nodes = [nodes for nodes, _ in cuts]
    if not all(nodes):
        return None
    return _parts((before, after), nodes, boundary, (name,), feeds, engine)


def producers_by_name(model: ir.Model) -> dict[str, ir.Node]:
    """Return the node of the main graph that computes each value, by name."""
    return {str(v.name): node for node in model.graph for v in node.outputs if v.name}


def _behind(
    model: ir.Model, name: str, common: set[str]
) -> tuple[tuple[ir.Node, ...], list[str]]:
    """Return the nodes from common values to the one named, and the common values read."""
    makers = producers_by_name(model)
    needed: set[ir.Node] = set()
    read: dict[str, None] = {}
    pending = [makers[name]]
    while pending:
        node = pending.pop()
        if node in needed:
            continue
        needed.add(node)
        for value in (*node.inputs, *captured_values(node)):
            if value is None or is_constant(value):
                continue
            maker = makers.get(str(value.name))
            if str(value.name) in common or maker is None:
                read[str(value.name)] = None
            else:
                pending.append(maker)
    return tuple(node for node in model.graph if node in needed), list(read)


def _parts(
    models: Sequence[ir.Model],
    nodes: Sequence[tuple[ir.Node, ...]],
    boundary: tuple[str, ...],
    frontier: tuple[str, ...],
    feeds: Feeds,
    engine: Engine,
) -> Parts | None:
    found = values_of(models[0], boundary, feeds, engine)
    values = {n: v for n in boundary if isinstance(v := found.get(n), np.ndarray)}
    if len(values) < len(boundary):
        return None
    parts = []
    own = values_of(models[1], boundary, feeds, engine)
    for model, chosen in zip(models, nodes, strict=True):
        # Cloned, because nodes left out of the part still count as readers of its weights.
        part = region_model(model, Region(chosen, boundary, frontier), [values]).clone()
        outputs = {str(value.name): value for value in part.graph.outputs}
        part.graph.outputs.clear()
        part.graph.outputs.extend(outputs[name] for name in frontier)
        if model is models[1]:
            _convert_inputs(part, own)
        RemoveUnusedNodesPass()(part)
        _drop_unused_functions(part)
        parts.append(part)
    return parts[0], parts[1], dict(values)


def _convert_inputs(part: ir.Model, own: Mapping[str, Data]) -> None:
    """Let a part take inputs of the types before, where values have other types behind."""
    for value in part.graph.inputs:
        array = own.get(str(value.name))
        if not isinstance(array, np.ndarray) or value.dtype is None:
            continue
        dtype = ir.DataType.from_numpy(array.dtype)
        if dtype is value.dtype or ir.DataType.STRING in (dtype, value.dtype):
            continue
        readers = tuple(value.uses())
        made = ir.node("Cast", [value], {"to": dtype.value})
        made.outputs[0].name = f"{value.name}_as_{dtype.name.lower()}"
        part.graph.insert_before(part.graph[0], made)
        for reader, index in readers:
            reader.replace_input_with(index, made.outputs[0])


def _drop_unused_functions(model: ir.Model) -> None:
    used: set[ir.OperatorIdentifier] = set()
    graphs: list[ir.Graph | ir.Function] = [model.graph]
    while graphs:
        for node in graphs.pop().all_nodes():
            function = model.functions.get(node.op_identifier())
            if function is not None and function.identifier() not in used:
                used.add(function.identifier())
                graphs.append(function)
    for identifier in model.functions.keys() - used:
        del model.functions[identifier]


def name_of(node: ir.Node) -> str:
    """Return the name of a node; the first value that it computes where it has none."""
    return node.name or (str(node.outputs[0].name) if node.outputs else "")


def find_untyped_input(node: ir.Node) -> str | None:
    """Return the name of a value that a node reads and whose type is not known."""
    return next((str(v.name) for v in _fed(node) if v.type is None), None)


def node_model(node: ir.Node, model: ir.Model) -> ir.Model:
    """Return a node as a model, fed with what other nodes compute.

    Weights are shared, and those functions that the node calls: others may be broken. The
    types of what the node reads must be known. The model may hold it in a subgraph.
    """
    fed = _fed(node)
    (copy,), values = copy_nodes([node])
    return assemble(
        model,
        [copy],
        [values[v] for v in fed],
        [value for value in copy.outputs if value.name],
        [values[v] for v in _read(node) if v not in fed],
    )


def _read(node: ir.Node) -> list[ir.Value]:
    found = dict.fromkeys((*node.inputs, *captured_values(node)))
    return [value for value in found if value is not None]


def _fed(node: ir.Node) -> list[ir.Value]:
    return [v for v in _read(node) if v.const_value is None or v.producer() is not None]


def run_nodes(
    engine: Engine,
    model: ir.Model,
    nodes: Sequence[ir.Node],
    rows: Sequence[Mapping[str, Array]],
) -> list[Outputs | None]:
    """Run nodes by themselves, once for each row; None for a row that they do not run on.

    Rows may hold more than the nodes read. Types and ranks are the same in each row, shapes
    may differ.
    """
    if not nodes or not rows:
        return [{} for _ in rows]
    try:
        with prepare_nodes(engine, model, nodes, rows) as run:
            return [run(row) for row in rows]
    except EngineError:
        return [None for _ in rows]


@contextmanager
def prepare_nodes(
    engine: Engine,
    model: ir.Model,
    nodes: Sequence[ir.Node],
    rows: Sequence[Mapping[str, Array]],
) -> Iterator[Callable[[Mapping[str, Array]], Outputs | None]]:
    """Yield what runs nodes by themselves, for :func:`run_nodes`, in one session."""
    boundary = boundary_of(nodes)
    part = region_model(model, Region(tuple(nodes), boundary, ()), rows)
    with engine.prepare(part) as session:

        def run(row: Mapping[str, Array]) -> Outputs | None:
            try:
                return run_one(session, {name: row[name] for name in boundary})
            except EngineError:
                return None

        yield run


_MOST_BYTES = 1 << 24
"""Bytes of weights in one session: kernels copy them, and parts alone do so in turn."""


@dataclass(frozen=True)
class NodeRun:
    """Nodes that are run by themselves.

    ``rows`` hold what they read, and maybe more; types and ranks are the same in each row.
    """

    model: ir.Model
    nodes: Sequence[ir.Node]
    rows: Sequence[Mapping[str, Array]]

    @property
    def nbytes(self) -> int:
        """Bytes of the constants that the nodes read."""
        values = {v for node in self.nodes for v in node.inputs if v is not None}
        return sum(t.nbytes for t in map(constant_tensor, values) if t is not None)


def stands_alone(model: ir.Model, nodes: Sequence[ir.Node]) -> bool:
    """Whether nodes compute the same beside others, whatever their values are named.

    Seeds of random operators follow from names, and bodies read values by name.
    """
    return not model.functions and not any(
        may_draw(node) or any(subgraphs_of(node)) for node in nodes
    )


def run_joined(engine: Engine, pieces: Sequence[NodeRun]) -> list[list[Outputs]] | None:
    """Run pieces in one session, each on its own rows; None if they do not run together."""
    imports = {tuple(sorted(piece.model.graph.opset_imports.items())) for piece in pieces}
    versions = {piece.model.ir_version for piece in pieces}
    if len(imports) != 1 or len(versions) != 1:
        return None
    if sum(piece.nbytes for piece in pieces) > _MOST_BYTES:
        return None
    if not all(stands_alone(piece.model, piece.nodes) for piece in pieces):
        return None
    boundaries = [boundary_of(piece.nodes) for piece in pieces]
    parts = [
        (Region(tuple(piece.nodes), boundary, ()), piece.rows)
        for piece, boundary in zip(pieces, boundaries, strict=True)
    ]
    joined = joined_model(pieces[0].model, parts)
    if insert_barriers(joined) is not joined:
        return None  # what is below float32 is rounded as its neighbors demand
    found: list[list[Outputs]] = [[{} for _ in piece.rows] for piece in pieces]
    try:
        with engine.prepare(joined) as session:
            for turn in range(max(len(piece.rows) for piece in pieces)):
                feeds = {
                    f"{place}/{name}": piece.rows[min(turn, len(piece.rows) - 1)][name]
                    for place, piece in enumerate(pieces)
                    for name in boundaries[place]
                }
                for name, value in run_one(session, feeds).items():
                    place, _, own = name.partition("/")
                    if turn < len(found[int(place)]):
                        found[int(place)][turn][own] = value
    except EngineError:
        return None
    return found
