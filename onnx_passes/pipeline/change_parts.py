"""Cut what a pass changed into parts, each a pair of small models.

Each connected part has a model before and a model after it. Many parts can be joined into one
model, so that an engine runs or builds them together.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from itertools import chain

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.errors import EngineError
from onnx_passes.model.tensor_bytes import array_buffer
from onnx_passes.model.walk import all_nodes
from onnx_passes.passes.context import Application
from onnx_passes.runtime.engine_base import Data, Engine, Feeds, Finding
from onnx_passes.runtime.engine_models import content_digest
from onnx_passes.verify.bodies import changed_bodies, pair_holders
from onnx_passes.verify.evidence import BY_STRUCTURE, Evidence, Kind
from onnx_passes.verify.judge import Promise
from onnx_passes.verify.node_equality import is_identity
from onnx_passes.verify.obligations import (
    Obligation,
    ObligationPart,
    find_inner,
    find_obligations,
    find_proved,
    split_parts,
)
from onnx_passes.verify.recording import dependent_on_data, inlined
from onnx_passes.verify.region import (
    Region,
    boundary_of,
    changed_region,
    is_constant_node,
    producers_by_name,
    region_model,
    values_of,
)

_MORE = r"[\w./:+{}\[\]-]"
"""What may stand before and behind the name of a node in that of a layer."""


@dataclass(frozen=True)
class Part:
    """One side of a rewrite, as a model of its own.

    Its inputs have the types and shapes of the recorded ``rows``, one a sample. ``nodes`` maps
    the names of its nodes to those in the original; ``prefix`` begins the names of its values.
    """

    model: ir.Model
    rows: Sequence[Mapping[str, Array]]
    nodes: Mapping[str, str]
    prefix: str = ""

    @property
    def values(self) -> set[str]:
        """The names of what its nodes compute."""
        return {str(v.name) for node in self.model.graph for v in node.outputs if v.name}

    @cached_property
    def key(self) -> bytes:
        """A digest of the model with its names and weights, and of the rows."""
        found = blake2b(content_digest(self.model), digest_size=16)
        for row in self.rows:
            for name, array in sorted(row.items()):
                found.update(f"{name} {array.dtype} {array.shape} ".encode())
                texts = array.dtype.kind in "OSUT"
                found.update(repr(array.tolist()).encode() if texts else array_buffer(array))
        return found.digest()

    @property
    def kind(self) -> Hashable:
        """Its operators, in order, and the types and ranks that they read."""
        inputs = [
            (v.dtype, None if v.shape is None else v.shape.rank())
            for v in self.model.graph.inputs
        ]
        return tuple(node.op_identifier() for node in self.model.graph), tuple(inputs)


def make_part(
    model: ir.Model,
    cut: tuple[Sequence[ir.Node], Sequence[str], Sequence[str]],
    rows: Sequence[Mapping[str, Array]],
    *,
    static: bool,
) -> Part | None:
    """Return some nodes as a model of their own.

    ``cut`` holds the nodes in order, the names that they read, and those to return. With
    ``static`` inputs have the shapes of the rows if all agree; else their dimensions are free.
    None if it computes nothing, or a value at its boundary is not known.
    """
    nodes, read, ends = cut
    if not ends or not all(row.keys() >= {*read, *ends} for row in rows):
        return None
    wanted = dict.fromkeys(ends)
    inner = {str(v.name) for node in nodes for v in node.outputs} - wanted.keys()
    part = region_model(model, Region(tuple(nodes), tuple(read), ()), rows, inner)
    first = rows[0]
    for value in part.graph.inputs if static else ():
        first_shape, *others = {row[str(value.name)].shape for row in rows}
        if not others:
            value.shape = ir.Shape(first_shape)
    made = {str(value.name): value for value in part.graph.outputs}
    part.graph.outputs[:] = [made[name] for name in wanted]
    for value in part.graph.outputs:
        array = first[str(value.name)]
        value.type = ir.TensorType(ir.DataType.from_numpy(array.dtype))
        value.shape = ir.Shape([None] * array.ndim)
    names: dict[str, str] = {}
    makers = producers_by_name(model)
    for number, node in enumerate(part.graph):
        result = str(node.outputs[0].name)
        own = makers.get(result, node)
        shown = own.name or result
        node.name = str(number)
        names[node.name] = f"{shown} ({node.op_type})"
    return Part(part, [{name: row[name] for name in read} for row in rows], names)


def with_prefix(part: Part, prefix: str) -> Part:
    """Return a copy of a part whose nodes and values have a prefix, and a dot behind it."""
    model = part.model.clone()
    names: dict[str, str] = {}
    for node in model.graph:
        shown = part.nodes[str(node.name)]
        node.name = f"{prefix}.{node.name}"
        names[node.name] = shown
    _prefix_values(model, prefix)
    rows = [{f"{prefix}.{name}": array for name, array in row.items()} for row in part.rows]
    return Part(model, rows, names, prefix)


def _prefix_values(part: ir.Model, prefix: str) -> None:
    initializers = list(part.graph.initializers.values())
    part.graph.initializers.clear()
    values = dict.fromkeys(chain(part.graph.inputs, initializers))
    values |= dict.fromkeys(v for node in part.graph for v in node.outputs)
    for value in values:
        tensor, value.const_value = value.const_value, None  # it is shared, and keeps its name
        value.name = f"{prefix}.{value.name}" if value.name else value.name
        value.const_value = tensor
    for value in initializers:
        part.graph.register_initializer(value)


def side_by_side(parts: Sequence[Part]) -> ir.Model:
    """Return one model of copies of all parts."""
    models = [part.model.clone() for part in parts]
    graphs = [model.graph for model in models]
    inputs = [value for graph in graphs for value in graph.inputs]
    outputs = [value for graph in graphs for value in graph.outputs]
    initializers = [value for graph in graphs for value in graph.initializers.values()]
    nodes: list[ir.Node] = []
    for graph in graphs:
        own = list(graph)
        graph.outputs.clear()
        graph.inputs.clear()
        graph.initializers.clear()
        graph.remove(own)
        nodes += own
    first = models[0]
    body = ir.Graph(
        inputs,
        outputs,
        nodes=nodes,
        initializers=initializers,
        opset_imports=dict(first.graph.opset_imports),
        name="regions",
    )
    made = ir.Model(body, ir_version=first.ir_version, functions=[*first.functions.values()])
    used = {node.op_identifier() for node in all_nodes(made)}
    for identifier in made.functions.keys() - used:
        del made.functions[identifier]
    return made


def describe_finding(finding: Finding, part: Part) -> str:
    """Return what a compiler says of a part, its own layers beside the nodes of the model.

    TensorRT names the layers of a node after it, with endings of its own.
    """
    reason, layers = finding.reason, list[str]()
    for name, shown in part.nodes.items():
        for layer in dict.fromkeys(
            re.findall(rf"(?<!{_MORE}){_MORE}*{re.escape(name)}{_MORE}*", reason)
        ):
            own = layer.replace(name, shown.partition(" ")[0])
            if own != shown.partition(" ")[0]:
                layers.append(f"its layer {own!r} is of node {shown}")
            reason = reason.replace(layer, own)
    aside = f" ({'; '.join(layers)})" if layers else ""
    return f"{finding.level}, {' '.join(reason.split())}{aside}"


def own_name(layer: str, part: Part) -> str:
    """Return the name of a layer with the names that nodes have in the model."""
    for name in sorted(part.nodes, key=len, reverse=True):
        layer = layer.replace(name, part.nodes[name].partition(" ")[0])
    return layer


def names_part(reason: str, part: Part) -> bool:
    """Whether what a compiler says names a node of a part."""
    # A number that follows belongs to another node's name.
    return any(re.search(rf"(?<![\w.]){re.escape(n)}(?!\d)", reason) for n in part.nodes)


def is_named(reason: str, part: Part) -> bool:
    """Whether what a compiler says of a whole model names a node, or value, of a part."""
    names = part.values | {shown.rpartition(" (")[0] for shown in part.nodes.values()}
    return any(re.search(rf"(?<![\w.]){re.escape(n)}(?![\d.])", reason) for n in names)


_UNMATCHED = "values inside cannot be matched by name"


@dataclass(frozen=True)
class RegionPair:
    """Both sides of one connected part of a change.

    ``numbers`` are those of its rewrites, and ``ends`` must be equal. A side that is not built
    is missing, as ``new`` of a constant. If ``known`` is set, no build is needed.
    """

    what: str
    numbers: tuple[int, ...]
    ends: tuple[Obligation, ...] = ()
    old: Part | None = None
    new: Part | None = None
    known: Evidence | None = None


@dataclass(frozen=True)
class Batch:
    """What one pass changed, to be run on engines that compile.

    ``bodies`` maps numbers of rewrites inside bodies to their rules. ``varying`` names the
    values before that depend on data.
    """

    name: str
    promises: tuple[Promise, ...]
    pairs: tuple[RegionPair, ...]
    bodies: Mapping[int, str] = field(default_factory=dict)
    varying: frozenset[str] = frozenset()

    @property
    def nbytes(self) -> int:
        parts = [part for pair in self.pairs for part in (pair.old, pair.new) if part]
        return sum(a.nbytes for part in parts for row in part.rows for a in row.values())

    def not_kept(self) -> Batch:
        """Return the same without the parts that are to be built."""
        reason = "the values at its borders exceed verify.memory_limit"
        return replace(
            self,
            pairs=tuple(
                p if p.known is not None else _not_run(p.what, p.numbers, reason)
                for p in self.pairs
            ),
        )


def pair_up(
    name: str,
    models: tuple[ir.Model, ir.Model],
    applied: Sequence[Application],
    promises: Sequence[Promise],
    samples: Sequence[Feeds],
    engine: Engine,
    *,
    finely: bool = False,
) -> Batch:
    """Cut what a pass changed into pairs.

    Parts end where a rewrite says that a value was replaced. Each is fed with the values
    recorded before the pass, so that a fault in one does not show in another. If ``finely``,
    they also end at new values of old names, and bodies have parts of their own.
    """
    before, after = map(inlined, models)
    numbers = tuple(application.number for application in applied)
    rules = ", ".join(dict.fromkeys(a.rule for a in applied)) or name
    region = changed_region(before, after)
    if region is None:
        return Batch(name, tuple(promises), (_not_run(rules, numbers, _UNMATCHED),))
    required = find_obligations(region, before, after, applied)
    if finely:
        required += find_inner(region, before, {one.old for one in required})
    pieces, lost = split_parts(region, required, required, applied)
    proved = find_proved(region, before, after, required)
    asked = [piece for piece in pieces if not _is_proved(piece, proved)]
    recorded: list[dict[str, Array]] = []
    try:
        if asked:
            names = {*region.boundary, *boundary_of(region.removed)}
            recorded = _record(before, names, required, samples, engine)
    except EngineError as error:
        reason = f"the values at its borders cannot be recorded: {error.message}"
        return Batch(name, tuple(promises), (_not_run(rules, numbers, reason),))
    cutter = _Cutter(before, after, recorded, _is_static(before))
    pairs = [
        _proved(piece) if _is_proved(piece, proved) else cutter.pair(piece) for piece in pieces
    ]
    if finely and recorded:
        inside = [a for a in applied if not a.outermost]
        replaced = {o.new: o.old for o in required}
        holders = pair_holders(region.removed, region.nodes, recorded, replaced)
        for body in changed_bodies(before, after, holders, recorded, replaced, engine):
            found = pair_up(
                name,
                (body.before, body.after),
                inside,
                promises,
                body.feeds,
                engine,
                finely=True,
            ).pairs
            known = {number for pair in found for number in pair.numbers}
            inside = [a for a in inside if a.number not in known]
            pairs += [pair for pair in found if pair.numbers]
    gone = [a for a in lost if a.outermost]
    if gone:
        told = ", ".join(dict.fromkeys(a.rule for a in gone))
        pairs.append(_proved(ObligationPart(numbers=[a.number for a in gone], rules=[told])))
    bodies = {a.number: a.rule for a in lost if not a.outermost}
    varying = frozenset(dependent_on_data(before)) if asked else frozenset()
    return Batch(name, tuple(promises), tuple(pairs), bodies, varying)


def _is_static(model: ir.Model) -> bool:
    return all(v.shape is not None and v.shape.is_static() for v in model.graph.inputs)


def _is_proved(piece: ObligationPart, proved: set[Obligation]) -> bool:
    alike = all(map(is_identity, (*piece.old, *piece.new)))
    return alike or all(one in proved for one in piece.obligations)


def _proved(piece: ObligationPart) -> RegionPair:
    numbers = tuple(sorted(piece.numbers))
    found = Evidence(piece.text, Kind.PROVED, numbers, reason=BY_STRUCTURE)
    return RegionPair(piece.text, numbers, known=found)


def _not_run(what: str, numbers: tuple[int, ...], reason: str) -> RegionPair:
    found = Evidence(what, Kind.OUTPUTS_ONLY, numbers, reason=reason)
    return RegionPair(what, numbers, known=found)


def _record(
    model: ir.Model,
    names: set[str],
    required: Sequence[Obligation],
    samples: Sequence[Feeds],
    engine: Engine,
) -> list[dict[str, Array]]:
    """Return the values at the borders of parts, by sample; may raise EngineError."""
    names = names | {one.old for one in required}
    rows = [_arrays(values_of(model, names, feeds, engine)) for feeds in samples]
    for one in required:
        for row in rows:
            if one.old in row and one.tensor is None:
                row.setdefault(one.new, row[one.old])
    return rows


def _arrays(row: Mapping[str, Data]) -> dict[str, Array]:
    return {name: value for name, value in row.items() if isinstance(value, np.ndarray)}


@dataclass(frozen=True)
class _Cutter:
    before: ir.Model
    after: ir.Model
    rows: Sequence[Mapping[str, Array]]
    static: bool

    def pair(self, piece: ObligationPart) -> RegionPair:
        """Return both sides of a part as models; or why they are not run."""
        numbers = tuple(sorted(piece.numbers))
        made = _computed(piece.new)
        ends = [
            o for o in piece.obligations if o.old in _computed(piece.old) and _is_new(o, made)
        ]
        if len(ends) < len(piece.obligations) or not ends:
            reason = "one side of it computes nothing that an engine could run"
            return _not_run(piece.text, numbers, reason)
        old = self.part(self.before, piece.old, [o.old for o in ends])
        fresh = [o.new for o in ends if o.tensor is None]
        new = self.part(self.after, piece.new, fresh) if fresh else None
        if old is None or (fresh and new is None):
            return _not_run(piece.text, numbers, "a value at its border is not a tensor")
        return RegionPair(piece.text, numbers, tuple(ends), old, new)

    def part(
        self, model: ir.Model, nodes: Sequence[ir.Node], ends: Sequence[str]
    ) -> Part | None:
        cut = nodes, boundary_of(nodes), ends
        return make_part(model, cut, self.rows, static=self.static)


def _computed(nodes: Iterable[ir.Node]) -> set[str]:
    return {str(value.name) for node in nodes for value in node.outputs if value.name}


def _is_new(one: Obligation, made: set[str]) -> bool:
    return one.tensor is not None or one.new in made


Models = tuple[ir.Model, ir.Model | None, Feeds]
"""Both sides of a part and the inputs of both; None for a side that computes nothing."""


class AlignedModels:
    """Two models of the same computation, side by side; both are without functions."""

    def __init__(self, before: ir.Model, after: ir.Model) -> None:
        self.before, self.after = before, after
        self._changed: set[ir.Node] = set()
        self._places = [{node: i for i, node in enumerate(m.graph)} for m in (before, after)]
        self._makers = [
            {str(v.name): node for node in m.graph for v in node.outputs if v.name}
            for m in (before, after)
        ]

    def parts(self, applied: Sequence[Application]) -> list[ObligationPart] | None:
        """Return the parts that rewrites made; ``applied`` is empty if none are recorded.

        None if values cannot be matched by name, or a rewrite or a change belongs to no part.
        """
        region = changed_region(self.before, self.after)
        if region is None:
            return None
        required = find_obligations(region, self.before, self.after, applied)
        found, lost = split_parts(region, required, required, applied)
        if applied:
            others = [part for part in found if not part.numbers]
            found = [part for part in found if part.numbers]
            if not all(map(_only_reads, others)):
                return None
        if lost or not found:
            return None
        self._changed = {*region.nodes, *region.removed}
        return found

    def models(
        self, parts: Sequence[ObligationPart], samples: Sequence[Feeds], engine: Engine
    ) -> list[Models] | None:
        """Return each part as two models, its neighbours included, with recorded inputs.

        An engine fuses nodes with their neighbours: without these, a part that keeps it from
        doing so would look as if it made no difference. None if a value at a boundary cannot
        be recorded, or is not a tensor.
        """
        wide = [self._with_neighbours(part) for part in parts]
        names = {n for part in wide for n in (*boundary_of(part.old), *boundary_of(part.new))}
        required = [one for part in wide for one in part.obligations]
        try:
            rows = _record(self.before, names, required, samples, engine)
        except EngineError:
            return None
        static = _is_static(self.before)
        cutter = _Cutter(self.before, self.after, rows, static)
        found: list[Models] = []
        for part in wide:
            made = _computed(part.new)
            ends = [o.new for o in part.obligations if o.new in made]
            one = cutter.part(self.before, part.old, [o.old for o in part.obligations])
            other = cutter.part(self.after, part.new, ends) if ends else None
            if one is None or (ends and other is None):
                return None
            feeds = {**one.rows[0], **(other.rows[0] if other is not None else {})}
            for model in (one.model, *([] if other is None else [other.model])):
                _take_same_inputs(model, feeds, static=static)
            found.append((one.model, None if other is None else other.model, feeds))
        return found

    def _with_neighbours(self, part: ObligationPart) -> ObligationPart:
        """Add the nodes that a part reads from, and those that read it."""
        names: set[str] = set()
        for nodes in (part.old, part.new):
            for node in nodes:
                near = [v.producer() for v in node.inputs if v is not None]
                near += [user for value in node.outputs for user in value.consumers()]
                names |= {
                    str(n.outputs[0].name)
                    for n in near
                    if n is not None and n not in self._changed and not is_constant_node(n)
                }
        old, new = (self._wider(s, names) for s in enumerate((part.old, part.new)))
        both = _computed(old) & _computed(new)
        read = {n for n in both if self._is_read_outside(n, old, new)}
        known = (o for o in part.obligations if o.tensor is None and o.old in _computed(old))
        ends = dict.fromkeys((*known, *(Obligation(name, name) for name in sorted(read))))
        return replace(part, old=old, new=new, obligations=list(ends))

    def _wider(self, side: tuple[int, Sequence[ir.Node]], names: set[str]) -> list[ir.Node]:
        index, nodes = side
        found = {*nodes}
        for name in names:
            pair = [makers.get(name) for makers in self._makers]
            # Nodes of a subgraph have no place in the main graph.
            if None not in pair and not self._changed.intersection(pair):
                node = pair[index]
                assert node is not None
                found.add(node)
        return sorted(found, key=self._places[index].__getitem__)

    def _is_read_outside(
        self, name: str, old: Sequence[ir.Node], new: Sequence[ir.Node]
    ) -> bool:
        for index, nodes in enumerate((old, new)):
            inside = {*nodes}
            for value in self._makers[index][name].outputs:
                used = value.is_graph_output() or any(
                    u not in inside for u in value.consumers()
                )
                if value.name == name and used:
                    return True
        return False


def _only_reads(part: ObligationPart) -> bool:
    """Whether both sides of a part have the same operators: nodes that read other values."""
    old, new = ([n.op_identifier() for n in nodes] for nodes in (part.old, part.new))
    return Counter(old) == Counter(new)


def _take_same_inputs(model: ir.Model, feeds: Feeds, *, static: bool) -> None:
    """Declare inputs that only the other side reads, so that both are run in one way."""
    known = {value.name for value in model.graph.inputs}
    for name, array in feeds.items():
        if name in known or not isinstance(array, np.ndarray):
            continue
        sizes = array.shape if static else [None] * array.ndim
        dtype = ir.DataType.from_numpy(array.dtype)
        value = ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(sizes))
        model.graph.inputs.append(value)
