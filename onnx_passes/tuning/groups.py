"""Groups of nodes that get one format each: their regions, formats and costs.

What formats the layers of a tuned model have is read from the types of the weights that it
stores.
"""

from __future__ import annotations

import glob
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal, TypeAlias

import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.errors import ConfigError, PassError
from onnx_passes.model.copy import copy_model
from onnx_passes.model.save import written_bytes
from onnx_passes.model.walk import captured_values, graphs_within, subgraphs_of, weight_bytes
from onnx_passes.ops.activations import Relu
from onnx_passes.ops.convolution import Conv, ConvTranspose
from onnx_passes.ops.elementwise import Add, Cast, Clip, Identity, Mul
from onnx_passes.ops.linear import Einsum, Gemm, MatMul
from onnx_passes.ops.operator_class import operator_of
from onnx_passes.ops.quantization import (
    ConvInteger,
    DequantizeLinear,
    MatMulInteger,
    QuantizeLinear,
)
from onnx_passes.passes.analysis._sizes import label_of
from onnx_passes.passes.analysis.cost import cost_of
from onnx_passes.passes.context import PassContext
from onnx_passes.passes.precision._node_selection import OnData, OnSomeNodes
from onnx_passes.passes.precision.quantize_weights import BY_INT8
from onnx_passes.passes.registry import lookup
from onnx_passes.passes.replace import Namer
from onnx_passes.plain import PlainDict, PlainMapping
from onnx_passes.runtime.engine_base import Engine, Feeds
from onnx_passes.verify.node_equality import constant_tensor
from onnx_passes.verify.recording import inlined
from onnx_passes.verify.region import Region, boundary_of, is_constant_node, region_model

_PRODUCTS = (Conv, ConvTranspose, Einsum, Gemm, MatMul)
"""Operators that multiply by weights."""
_DEPTH = 3
"""Nodes between the constant and the product that reads it: a quantiser, a Transpose."""


@dataclass(frozen=True)
class FormatGroup:
    """Nodes that get one format, by name in order; float32 is always among `formats`."""

    name: str
    nodes: tuple[str, ...]
    formats: tuple[str, ...]


def prepare(model: ir.Model) -> ir.Model:
    """Return a copy without functions, whose nodes have names and whose values have types.

    No two nodes have one name, nor two values, those in bodies among them.
    """
    copy = copy_model(inlined(model))
    namer, seen = Namer(copy), set[str]()
    # Those in bodies too: a format is given to nodes by their names.
    for node in copy.graph.all_nodes():
        if not node.name or node.name in seen:
            node.name = namer.node(node.name or node.outputs[0].name or node.op_type)
        seen.add(str(node.name))
    _tell_apart(copy, namer)
    (cls,) = lookup("shape-inference")
    cls().call(copy)
    return copy


def raise_opset(model: ir.Model, formats: Iterable[Format]) -> tuple[ir.Model, list[str]]:
    """Return a model in an opset that formats work in, and notes on what was raised.

    `model` is as :func:`prepare` returns it, and is returned itself if its opset is new
    enough. If it cannot be raised for all formats, it is raised for some.
    """
    needs = {item.name: item.needed_opset for item in formats}
    old, notes = model.graph.opset_imports.get("", 1), list[str]()
    (cls,) = lookup("raise-opset")
    for wanted in sorted({need for need in needs.values() if need > old}, reverse=True):
        names = ", ".join(name for name, need in needs.items() if need == wanted)
        raising, copy = cls(version=wanted), copy_model(model)
        if raising.call(copy).modified:
            notes.append(f"{names} needs opset {wanted}: raised from {old}")
            return prepare(copy), notes
        notes += [f"{names} needs opset {wanted}: {note}" for note in raising.context.notes]
    return model, notes


def _tell_apart(model: ir.Model, namer: Namer) -> None:
    """Rename values of bodies that have the name of another: two branches may."""
    known: set[str] = set()
    for graph in graphs_within(model.graph):
        for value in (*graph.inputs, *(v for node in graph for v in node.outputs)):
            if graph is not model.graph and value.name in known:
                value.name = namer.value(value.name)
            known.add(str(value.name))


def partition(
    model: ir.Model,
    formats: Sequence[str],
    wanted: Mapping[str, tuple[Mapping[str, Sequence[str]], Sequence[str]]],
    most: int,
) -> list[FormatGroup]:
    """Divide a model.

    By group, `wanted` has its nodes in words of ``OnSomeNodes``, and its formats (none for
    all). The first group that means a node gets it; other nodes stay in float32. Nodes in
    bodies follow the node with the body. Without `wanted`, each layer with a weight is a
    group, with the nodes up to the next layer; neighbours are joined down to `most`.
    ConfigError for a pattern that matches nothing, or a group without nodes.
    """
    nodes = [node for node in model.graph.all_nodes() if not is_constant_node(node)]
    if not wanted:
        return _by_layers(nodes, tuple(formats), most)
    groups, taken = [], set[str]()
    for name, (words, own) in wanted.items():
        try:
            meant = set(_Members(None, None, **words).select(model, bodies=True))
        except PassError as error:
            text = error.message.partition(": ")[2]
            raise ConfigError(f"the group {name!r}: {text}", help=error.help) from error
        members = [str(n.name) for n in nodes if n in meant and n.name not in taken]
        if not members:
            raise ConfigError(
                f"the group {name!r} has no nodes: nothing that is left matches",
                help="a node is of the first group that means it",
            )
        taken.update(members)
        groups.append(FormatGroup(name, tuple(members), tuple(own or formats)))
    return groups


class _Members(OnSomeNodes):
    """The nodes of a group."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Change nothing: nodes are selected only."""
        return ir.passes.PassResult(model, modified=False)


def _by_layers(
    nodes: Sequence[ir.Node], formats: tuple[str, ...], most: int
) -> list[FormatGroup]:
    runs: list[list[ir.Node]] = [[]]
    for node in nodes:
        if _has_weight(node) and any(map(_has_weight, runs[-1])):
            runs.append([])
        runs[-1].append(node)
    while len(runs) > most:
        sizes = [len(a) + len(b) for a, b in pairwise(runs)]
        place = sizes.index(min(sizes))
        runs[place : place + 2] = [runs[place] + runs[place + 1]]
    found = []
    for run in runs:
        head = next((node for node in run if _has_weight(node)), run[0] if run else None)
        if head is not None:
            names = tuple(str(node.name) for node in run)
            found.append(FormatGroup(str(head.name), names, formats))
    return found


def weight_of(node: ir.Node) -> int | None:
    """Return the number of the constant matrix that a product reads; None if there is none."""
    operator = operator_of(node)
    if operator is None or type(operator) not in _PRODUCTS:
        return None
    for index, value in enumerate(node.inputs):
        tensor = constant_tensor(value) if value is not None else None
        if tensor is not None and tensor.dtype is ir.DataType.FLOAT and len(tensor.shape) > 1:
            return index
    return None


def read_by_layers(model: ir.Model) -> set[str]:
    """Return the names of the values that products with a weight read.

    Those of a model with bodies need its inputs: what bodies compute is measured by runs.
    """
    holds = any(node.graph is not model.graph for node in model.graph.all_nodes())
    inputs = {str(value.name) for value in model.graph.inputs} if holds else set()
    return inputs | {
        str(value.name)
        for node in model.graph.all_nodes()
        if (index := weight_of(node)) is not None
        for place, value in enumerate(node.inputs)
        if value is not None and place != index
    }


def _has_weight(node: ir.Node) -> bool:
    """Whether a product reads a weight, which may be rounded by quantisers already."""
    if weight_of(node) is not None:
        return True
    operator = operator_of(node)
    if operator is None or type(operator) not in _PRODUCTS:
        return False
    read = [value for value in node.inputs[:2] if value is not None]
    return any(constant_tensor(v) is None and _is_fixed(v, _DEPTH) for v in read)


def _is_fixed(value: ir.Value, depth: int) -> bool:
    """Whether a value is a constant, or computed from constants by at most some nodes."""
    if constant_tensor(value) is not None:
        return True
    node = value.producer()
    read = [v for v in node.inputs if v is not None] if node is not None and depth else []
    return bool(read) and all(_is_fixed(v, depth - 1) for v in read)


class ModelRegions:
    """Regions of one model, as :func:`prepare` returns it."""

    def __init__(self, model: ir.Model) -> None:
        self.model = model
        self._nodes = {
            str(node.name): node for node in model.graph if not is_constant_node(node)
        }
        self._roots = {
            str(inner.name): node
            for node in self._nodes.values()
            for inner in (node, *nodes_within(node))
        }
        self._readers: dict[ir.Value, list[ir.Node]] = defaultdict(list)
        for node in self._nodes.values():
            for value in (*node.inputs, *captured_values(node)):
                if value is not None:
                    self._readers[value].append(node)

    def of(self, group: FormatGroup) -> Region:
        """Return the nodes of a group, what they read, and what others read of them.

        In place of a node in a body is the node of the main graph that has the body.
        """
        members = self._members(group)
        inside = set(members)
        frontier = [
            str(value.name)
            for node in members
            for value in node.outputs
            if value.is_graph_output() or not inside.issuperset(self._readers[value])
        ]
        return Region(tuple(members), boundary_of(members), tuple(frontier))

    def _members(self, group: FormatGroup) -> list[ir.Node]:
        found = {self._roots[name] for name in group.nodes if name in self._roots}
        return [node for node in self._nodes.values() if node in found]

    def others(self, group: FormatGroup) -> set[str]:
        """Return the names of nodes in bodies that are run with a group, but are not of it."""
        members = self._members(group)
        every = {str(inner.name) for node in members for inner in nodes_within(node)}
        every |= {str(node.name) for node in members}
        return every - set(group.nodes)

    def behind(self, group: FormatGroup) -> Region | None:
        """Return all that depends on a group; None if nothing does."""
        members = set(self._members(group))
        pending, found = list(members), set[ir.Node]()
        while pending:
            for value in pending.pop().outputs:
                for reader in self._readers[value]:
                    if reader not in found and reader not in members:
                        found.add(reader)
                        pending.append(reader)
        nodes = [node for node in self._nodes.values() if node in found]
        if not nodes:
            return None
        ends = {str(v.name) for v in self.model.graph.outputs}
        made = [str(v.name) for node in nodes for v in node.outputs if v.name in ends]
        return Region(tuple(nodes), boundary_of(nodes), tuple(made))

    def build(self, region: Region, rows: Sequence[Mapping[str, Array]]) -> ir.Model:
        """Return a region as a model from its boundary to its frontier, on `rows`."""
        inner = {str(v.name) for node in region.nodes for v in node.outputs}
        return region_model(self.model, region, rows, inner - set(region.frontier))

    def own_share(self, group: FormatGroup, costs: Mapping[str, float]) -> float:
        """Return a group's own share of the operations of all nodes that run with it."""
        own = sum(costs.get(name, 0.0) for name in group.nodes)
        rest = sum(costs.get(name, 0.0) for name in self.others(group))
        return own / (own + rest) if own + rest else 0.0

    def is_unseen(self, group: FormatGroup, ranges: Mapping[str, tuple[float, float]]) -> bool:
        """Whether all layers of a group are in bodies that do not run on the data."""
        layers = [
            node
            for node in self.model.graph.all_nodes()
            if node.name in group.nodes and weight_of(node) is not None
        ]
        return bool(layers) and all(
            node.name not in self._nodes
            and all(ranges.get(str(v.name), (0.0, 0.0)) == (0.0, 0.0) for v in node.outputs)
            for node in layers
        )


def nodes_within(node: ir.Node) -> list[ir.Node]:
    """Return the nodes in the bodies of a node, those of inner bodies among them."""
    return [n for body in subgraphs_of(node) for g in graphs_within(body) for n in g]


def list_needed_values(regions: Iterable[Region | None]) -> set[str]:
    """Return the names of all values that regions are fed with."""
    return {name for region in regions if region is not None for name in region.boundary}


Steps: TypeAlias = tuple[tuple[str, PlainMapping], ...]
COMPENSATING = "quantize-weights-gptq"
_LEARNERS = (COMPENSATING, "correct-biases")
FLOAT32 = "float32"
"""The format of a part that stays as it is."""


@dataclass(frozen=True)
class Format:
    """A format: the pass that gives it, with passes that run before and after it."""

    name: str
    pass_name: str
    options: PlainMapping = field(default_factory=dict)
    weight_bits: int = 32
    data_bits: int = 32
    before: Steps = ()
    after: Steps = ()

    @property
    def rank(self) -> int:
        """Where its pass stands among others: types of values change last."""
        return 1 if self.pass_name in ("convert-float16", "convert-bfloat16") else 0

    @property
    def steps(self) -> Steps:
        """All passes in order."""
        return (*self.before, (self.pass_name, self.options), *self.after)

    @property
    def needed_opset(self) -> int:
        """The least opset that its passes work in."""
        made = [
            lookup(name)[0](**options, nodes=["*"]) for name, options in self.steps if name
        ]
        return max((type(one).needed_opset(one.options) for one in made), default=0)

    @property
    def learns(self) -> bool:
        """Whether weights or biases are chosen by what layers compute on the user's data."""
        return any(name in _LEARNERS for name, _ in self.steps)

    @property
    def needs_values(self) -> bool:
        """Whether a pass asks what layers read."""
        return any(issubclass(lookup(name)[0], OnData) for name, _ in self.steps if name)


def _weights(name: str, bits: int, **options: object) -> Format:
    return Format(name, "quantize-weights", {"least": 1} | options, bits, 32)


_NBITS = {"form": "matmulnbits", "block": 32}
_BY_INT8 = {**_NBITS, "compute": "int8"}
_INT4, _INT2 = {"weights": "int4", "block": 32}, {"weights": "int2", "block": 32}
_CORRECTED: Steps = (("correct-biases", {}),)
_SMOOTH: Steps = (("smooth-activations", {}),)


def _compensated(name: str, bits: int, **options: object) -> Format:
    return Format(name, COMPENSATING, {"least": 1} | options, bits, 32)


BUILTIN = {
    item.name: item
    for item in (
        Format(FLOAT32, ""),
        Format("float16", "convert-float16", {}, 16, 16),
        Format("bfloat16", "convert-bfloat16", {"missing": "round"}, 16, 16),
        Format("int8-static", "quantize-static", {}, 8, 8),
        Format("int8-dynamic", "quantize-dynamic", {"least": 1}, 8, 8),
        _weights("int8-weights", 8),
        _weights("int4-weights", 4, weights="int4", block=32),
        _weights("int8-nbits", 8, weights="uint8", **_NBITS),
        _weights("int4-nbits", 4, weights="uint4", **_NBITS),
        replace(_weights("int8-nbits-dynamic", 8, weights="uint8", **_BY_INT8), data_bits=8),
        replace(_weights("int4-nbits-dynamic", 4, weights="uint4", **_BY_INT8), data_bits=8),
        Format("int8-tensorrt", "quantize-static", {}, 8, 8, after=(("place-qdq", {}),)),
        Format("int8-static-corrected", "quantize-static", {}, 8, 8, after=_CORRECTED),
        Format("int8-static-smooth", "quantize-static", {}, 8, 8, _SMOOTH, _CORRECTED),
        Format("int8-dynamic-smooth", "quantize-dynamic", {"least": 1}, 8, 8, _SMOOTH),
        _compensated("int4-gptq", 4, **_INT4),
        _compensated("int4-gptq-nbits", 4, **{**_NBITS, "weights": "uint4"}),
        replace(
            _compensated("int4-gptq-nbits-dynamic", 4, **{**_BY_INT8, "weights": "uint4"}),
            data_bits=8,
        ),
        _weights("int2-weights", 2, **_INT2),
        _compensated("int2-gptq", 2, **_INT2),
    )
}
"""Formats that have a name."""


@dataclass
class Observed:
    """What was recorded of the original on a few samples.

    `ranges` are the least and greatest element by name of a value. `values` are by sample,
    only of what layers read and only if a format asks. Passes share `state`, which lasts as
    long as the values.
    """

    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    values: Sequence[PlainMapping] = ()
    state: PlainDict = field(default_factory=dict)


def convert(
    model: ir.Model,
    chosen: Mapping[str, Sequence[str]],
    formats: Mapping[str, Format],
    known: Observed,
    notes: list[str] | None = None,
) -> ir.Model:
    """Return a model some of whose nodes have another format.

    `chosen` has names of nodes by format; other nodes stay as they are. The model is not
    changed; its nodes have names, and its values types. `notes` gets what passes note.
    PassError if a pass refuses it.
    """
    copy = copy_model(model)
    # The name of a node with a body would mean all that is in it.
    holders = {str(n.name) for n in copy.graph.all_nodes() if any(subgraphs_of(n))}
    chosen = {item: [n for n in nodes if n not in holders] for item, nodes in chosen.items()}
    used = [formats[name] for name, nodes in chosen.items() if nodes and name != FLOAT32]
    for item in sorted(used, key=lambda one: (one.rank, one.name)):
        names = [glob.escape(name) for name in chosen[item.name]]
        context = PassContext(ranges=known.ranges, values=known.values)
        for pass_name, options in item.steps:
            (cls,) = lookup(pass_name)
            pass_ = cls(None, known.state, **options, nodes=names)
            pass_.context = context
            pass_.call(copy)
            if notes is not None:
                notes += context.notes
    return copy


def by_format(
    groups: Mapping[str, Sequence[str]], names: Mapping[str, str]
) -> dict[str, list[str]]:
    """Return the names of nodes by format."""
    found: dict[str, list[str]] = {}
    for group, name in names.items():
        found.setdefault(name, []).extend(groups[group])
    return found


Objective = Literal["time", "size", "bops"]
UNITS: dict[Objective, str] = {"time": "s", "size": "B", "bops": "bit operations"}

_RUNS, _SPENT = 5, 0.05
"""Least number of timed runs of a part, and least seconds that they take together."""
_MOST_RUNS = 200


def time_runs(engine: Engine, models: Sequence[ir.Model], feeds: Feeds) -> list[float]:
    """Return each model's least seconds of a run; runs of all take turns."""
    with ExitStack() as stack:
        sessions = [stack.enter_context(engine.prepare(model)) for model in models]
        for session in sessions:
            session.run(feeds)
        best = [float("inf")] * len(sessions)
        start, count = time.perf_counter(), 0
        while count < _RUNS or (
            time.perf_counter() - start < _SPENT * len(sessions) and count < _MOST_RUNS
        ):
            count += 1
            for place, session in enumerate(sessions):
                begin = time.perf_counter()
                session.run(feeds)
                best[place] = min(best[place], time.perf_counter() - begin)
    return best


def shared_bytes(before: ir.Model, after: ir.Model) -> float:
    """Return the most bytes that a converted group may share with its neighbours.

    That is what it adds beside weights, but for nodes that read weights alone.
    """
    old = {str(node.name) for node in before.graph.all_nodes()}
    own = sum(
        ir.to_proto(node).ByteSize()
        for node in after.graph.all_nodes()
        if node.name not in old and not any(v and v.const_value is None for v in node.inputs)
    )
    grown = [written_bytes(model) - weight_bytes(model) for model in (before, after)]
    return max(0.0, float(grown[1] - grown[0] - own))


def operations(model: ir.Model, rows: Mapping[str, Array]) -> dict[str, float]:
    """Return the scalar operations of each node by name, on inputs of certain sizes.

    Those of a node in a body are those of all iterations, if their number is known.

    The shapes of `rows` give the dynamic dimensions.
    """
    dims = {
        str(dim.value): int(size)
        for value in model.graph.inputs
        if value.shape is not None and str(value.name) in rows
        for dim, size in zip(value.shape, rows[str(value.name)].shape, strict=False)
        if isinstance(dim, ir.SymbolicDim) and dim.value is not None
    }
    labels = {label_of(node): str(node.name) for node in model.graph.all_nodes()}
    found = cost_of(model, dims).nodes
    return {labels[c.name]: float(c.flops or 0) for c in found if c.name in labels}


def bit_operations(
    model: ir.Model, group: FormatGroup, item: Format, costs: Mapping[str, float]
) -> float:
    """Return the operations of a group, each times the bits of both its operands.

    A format of integers holds for the nodes that read a weight, one of 16 bits for all.
    """
    total = 0.0
    for node in model.graph.all_nodes():
        if node.name not in group.nodes:
            continue
        weighted = any(constant_tensor(v) is not None for v in node.inputs if v is not None)
        own = item.rank == 1 or weighted
        bits = item.weight_bits * item.data_bits if own else 32 * 32
        total += costs.get(str(node.name), 0.0) * bits
    return total


PACKED = "MatMulNBits"
"""A product of ONNX Runtime with packed integers."""
_HALVES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
_PASSED = frozenset(
    kind.op_type
    for kind in (Add, Cast, Clip, DequantizeLinear, Identity, Mul, QuantizeLinear, Relu)
)
"""What stands between a product and the value that is named as its result was."""
_STEPS = 12
"""Nodes that are looked at between a result and its product."""


@dataclass(frozen=True)
class AuditFinding:
    """Something that is not as it was chosen, with the node's name in the original."""

    node: str
    group: str
    problem: str

    def __str__(self) -> str:
        return f"{self.node} (group {self.group}): {self.problem}"


def audit(
    saved: ir.Model,
    original: ir.Model,
    groups: Sequence[FormatGroup],
    names: Mapping[str, str],
    formats: Mapping[str, Format],
) -> list[AuditFinding]:
    """Compare a model with the formats that were chosen for the groups of the original.

    `original` is as :func:`onnx_passes.tuning.groups.prepare` returns it. What the numbers in
    these formats lose is measured by runs.
    """
    values = {str(v.name): v for n in saved.graph.all_nodes() for v in n.outputs if v.name}
    owners = {name: group.name for group in groups for name in group.nodes}
    found: list[AuditFinding] = []
    for node in original.graph.all_nodes():
        weight = weight_of(node)
        if weight is None:
            continue
        group = owners.get(str(node.name), "")
        item = formats[names.get(group, FLOAT32)]
        layer = find_layer(values.get(str(node.outputs[0].name)), node)
        found += [
            AuditFinding(str(node.name), group, problem)
            for problem in _problems(layer, weight, item)
        ]
    return found


def find_layer(place: ir.Value | None, node: ir.Node) -> ir.Node | None:
    """Return the node that computes a layer's product, backwards from its named result."""
    kinds = (node.op_type, MatMulInteger.op_type, ConvInteger.op_type, PACKED)
    pending = [place.producer() if place is not None else None]
    for _ in range(_STEPS):
        if not pending:
            return None
        current = pending.pop(0)
        if current is None:
            continue
        if current.op_type in kinds:
            return current
        if current.op_type in _PASSED:
            pending += [v.producer() for v in current.inputs if v is not None]
    return None


def read_stored_type(layer: ir.Node, index: int) -> ir.DataType | None:
    """Return the type that a layer's weight is stored in; None if it is not a known way."""
    if layer.op_type == PACKED:
        bits = layer.attributes.get_int("bits", 4)
        return ir.DataType.UINT4 if bits == 4 else ir.DataType.UINT8
    value = layer.inputs[1 if layer.op_type == MatMulInteger.op_type else index]
    producer = value.producer() if value is not None else None
    if producer is not None and producer.op_type == DequantizeLinear.op_type:
        value = producer.inputs[0]
    tensor = constant_tensor(value) if value is not None else None
    return None if tensor is None else tensor.dtype


def _problems(layer: ir.Node | None, weight: int, item: Format) -> Iterator[str]:
    if layer is None:
        yield "its result is not in the model any more"
        return
    dtype = read_stored_type(layer, weight)
    if dtype is None:
        yield f"its weight is not stored in a way that is known, in {layer.op_type}"
        return
    if not _has_format(dtype, item):
        wanted = "stay in" if item.name == FLOAT32 else "be"
        yield f"it is to {wanted} {item.name}, and its weight is {dtype.name.lower()}"
    elif item.pass_name == "quantize-static":
        data = layer.inputs[0].producer() if layer.inputs[0] is not None else None
        if data is None or data.op_type != DequantizeLinear.op_type:
            yield f"it is to be {item.name}, and reads values that are not rounded"
    elif item.pass_name == "quantize-dynamic" and layer.op_type != MatMulInteger.op_type:
        yield f"it is to be {item.name}, and computes in floats"
    elif layer.op_type == PACKED:
        integers = layer.attributes.get_int("accuracy_level", 0) == BY_INT8
        if integers != (item.options.get("compute") == "int8"):
            how = "integers" if integers else "floats"
            yield f"it is to be {item.name}, and computes in {how}"


def _has_format(dtype: ir.DataType, item: Format) -> bool:
    """Whether a weight is stored in the type of a format."""
    if item.name == FLOAT32:
        return dtype is ir.DataType.FLOAT
    if item.rank == 1:
        rounded = item.pass_name == "convert-bfloat16" and dtype is ir.DataType.FLOAT
        return rounded or dtype in _HALVES
    return bool(dtype.is_integer()) and dtype.bitwidth == item.weight_bits
