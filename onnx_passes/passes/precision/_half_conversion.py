"""What the conversions to types of 16 bits share.

A node keeps its type if ONNX Runtime has no kernel for it in the lower type.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Literal

import numpy as np
import onnx_ir as ir
from pydantic import Field

from onnx_passes.errors import PassError
from onnx_passes.model.copy import copy_nodes
from onnx_passes.model.ort_sessions import open_session
from onnx_passes.model.walk import graphs_within
from onnx_passes.passes.common.bounds import MOVES, bounds_of
from onnx_passes.passes.common.large_tensors import LARGEST_KEPT
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.context import InterfaceMap
from onnx_passes.passes.convert.convert_io_types import ConvertIoTypes
from onnx_passes.passes.precision._half_precision import (
    EXACT,
    FAINT,
    NONE,
    ROUNDED,
    SIZES,
    WIDE,
    Lowering,
    Signature,
    faint_values,
    misfit,
    misfit_of,
    moves_only,
    signature_of,
    sizing_nodes,
)
from onnx_passes.passes.precision._node_selection import NOTHING, OnSomeNodes
from onnx_passes.passes.precision._recording import read_feeds, record
from onnx_passes.plain import PlainDict

_FOUND: dict[tuple[object, ...], bool] = {}


def has_kernel(
    node: ir.Node, signature: Signature, half: ir.DataType, opsets: Mapping[str, int]
) -> bool:
    """Whether ONNX Runtime runs a node whose places of a signature have a lower type.

    Answers are kept by operator, opset, attributes and types. Kernels of scatters load, and
    refuse to reduce numbers of 16 bits when they run.
    """
    reduction = node.attributes.get("reduction")
    if node.op_type.startswith("Scatter") and reduction and reduction.value != "none":
        return False
    attributes = ",".join(sorted(str(a) for a in node.attributes.values()))
    kinds = tuple(None if v is None else v.dtype for v in node.inputs)
    key = (node.domain, node.op_type, opsets.get(node.domain), attributes, kinds, half)
    if key not in _FOUND:
        _FOUND[key] = _loads(node, signature, half, opsets)
    return _FOUND[key]


def crashes(node: ir.Node) -> bool:
    """Whether a node is a product, or its Transpose, that ONNX Runtime crashes on in float16.

    Versions 1.31 and 1.32 fuse them, Casts between them too. They crash where the first axis
    of the left operand becomes one of the last two, as behind a recurrent layer.
    """
    if node.op_type == "Transpose":
        return any(crashes(use.node) for v in node.outputs for use in v.uses() if use.idx == 0)
    before = node.inputs[0].producer() if node.op_type == "MatMul" and node.inputs[0] else None
    if before is None or before.op_type != "Transpose" or "perm" not in before.attributes:
        return False
    first, *others = sorted(perm := before.attributes["perm"].as_ints())
    return perm.index(first) >= len(perm) - 2 > 0 and [a for a in perm if a != first] == others


def _loads(
    node: ir.Node, signature: Signature, half: ir.DataType, opsets: Mapping[str, int]
) -> bool:
    (copy,), values = copy_nodes([node])
    inputs, constants = [], []
    lowered = {node.inputs[i] for i in signature.inputs}
    for value in dict.fromkeys(v for v in node.inputs if v is not None):
        entry, tensor = values[value], constant_of(value)
        entry.const_value = None
        kind = half if value in lowered else value.dtype
        if kind is None:
            return False
        entry.type = ir.TensorType(kind)
        if tensor is not None and value not in lowered and tensor.nbytes <= LARGEST_KEPT:
            # Axes and shapes decide what the node is.
            entry.const_value = tensor
            constants.append(entry)
        else:
            inputs.append(entry)
    for index, output in enumerate(copy.outputs):
        output.shape = None
        if index in signature.outputs:
            output.type = ir.TensorType(half)
    graph = ir.Graph(
        inputs,
        [value for value in copy.outputs if value.name],
        nodes=[copy],
        initializers=constants,
        opset_imports=dict(opsets),
        name="kernel",
    )
    try:
        open_session(ir.to_proto(ir.Model(graph, ir_version=10)))
    except Exception:  # those of ONNX Runtime have no common class
        return False
    return True


_WHERE = ("nodes", "operators", "after", "before")
_INTEGERS = MOVES | {
    *("Abs", "Add", "Concat", "CumSum", "Div", "Max", "Min", "MatMul", "Mul", "Neg"),
    *("ReduceSum", "Sub", "Where"),
}
"""Operators whose result is as large as their operands, such as positions and angles."""
UNREACHED = "whose branch or loop runs on no sample: give inputs on which it does"
_MARGIN = 8
"""How many times as large as on made-up inputs values may be on others."""


class ConvertsToHalf(OnSomeNodes):
    """A pass that moves float32 nodes to a type of 16 bits.

    Attributes:
        io: Whether inputs and outputs keep their type or are converted.
        missing: Treatment of nodes that ONNX Runtime has no kernel for. They stay in float32,
            have inputs and outputs rounded to the type in float32, or are converted for
            another engine.
        data: .npz files, each with the inputs of one run by name, on which values are
            recorded; by default the inputs of the pipeline, given or generated.
    """

    needs = ("shape-inference",)
    interface_changes = frozenset({"types"})
    half: ClassVar[ir.DataType]

    io: Literal["keep", "convert"] = "keep"
    missing: Literal["keep", "round", "convert"] = "keep"
    data: list[str] = Field(default_factory=list)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Convert the nodes."""
        opened = self.open_functions(model)
        found, without = self._candidates(model)
        lowering = Lowering(model, self.half)
        lowering.lower(found)
        if without:
            lowering.round_around(without)
            self.context.notes.append(
                f"{len(without)} stay in float32 because ONNX Runtime has no kernel; their "
                f"inputs and outputs are rounded to {self.half.name.lower()}"
            )
        if not (found or without):
            what = f"float32 node that {self.half.name.lower()} can compute"
            self.context.notes.append(NOTHING.format(what))
        moved = False
        if self.io == "convert":
            ports = self._ports()
            moved = bool(ports.call(model).modified)
            _join_casts(model, self.half)
        return ir.passes.PassResult(model, modified=bool(found or without or moved or opened))

    def interface_map(self, before: ir.Model) -> InterfaceMap | None:
        """Round inputs and outputs as a caller would."""
        return self._ports().interface_map(before) if self.io == "convert" else None

    def _ports(self) -> ConvertIoTypes:
        return ConvertIoTypes(all={"float32": self.half.name.lower()})

    def _candidates(
        self, model: ir.Model
    ) -> tuple[dict[ir.Node, Signature], dict[ir.Node, Signature]]:
        """Return the nodes that are converted, and those that are only rounded around."""
        kept: dict[str, list[str]] = defaultdict(list)
        opsets = dict(model.graph.opset_imports)
        chosen: dict[ir.Node, Signature] = {}
        without: dict[ir.Node, Signature] = {}
        meant = self.select(model, bodies=True)
        every = meant
        if self.nodes or self.operators or self.after or self.before:
            # Movements beside the nodes that are meant may be converted too.
            anywhere: PlainDict = {option: [] for option in _WHERE}
            every = type(self)(**self.options | anywhere).select(model, bodies=True)
        possible = self._possible(every, opsets, kept if every is meant else None)
        largest = self._largest(model, possible)
        reasons = {name: misfit(np.array([v]), self.half) for name, v in largest.items()}
        seen = {name: reason for name, reason in reasons.items() if reason is not None}
        for value in faint_values(model.graph.all_nodes(), self.half):
            seen.setdefault(str(value.name), FAINT)
        if self.half is ir.DataType.FLOAT16:  # others hold what float32 holds
            for name in _unreached(model, largest):
                seen.setdefault(name, UNREACHED)
        exact = self._reading_integers(model, largest)
        sizing = sizing_nodes(model.graph.all_nodes())
        for node, places in possible.items():
            reason = misfit_of(node, places, self.half, seen)
            if reason is None and node in exact:
                reason = ROUNDED.format(self.half.name.lower())
            if reason is None and node in sizing:
                reason = SIZES
            if reason is None and self.missing != "convert":
                reason = self._lacking(node, places, opsets)
                if reason is not None and self.missing == "round":
                    without[node] = places
                    continue
            if reason is None:
                chosen[node] = places
            elif node in meant:
                kept[reason].append(node.name or node.op_type)
        moves = {n for n in chosen if moves_only(n)}
        wanted = {n: p for n, p in chosen.items() if n in set(meant)}
        found = set(wanted) | _with_moves(model.graph.all_nodes(), wanted, moves)
        self.note_kept({reason: names for reason, names in kept.items() if reason != NONE})
        rounded = {n: p for n, p in without.items() if n in set(meant)}
        return {n: p for n, p in chosen.items() if n in found}, rounded

    def _possible(
        self,
        nodes: list[ir.Node],
        opsets: Mapping[str, int],
        kept: dict[str, list[str]] | None,
    ) -> dict[ir.Node, Signature]:
        found = {}
        for node in nodes:
            places = signature_of(node, opsets.get(node.domain, 1), self.half)
            if isinstance(places, Signature):
                found[node] = places
            elif kept is not None and constant_of(node.outputs[0]) is None:
                kept[places].append(node.name or node.op_type)
        return found

    def _lacking(
        self, node: ir.Node, places: Signature, opsets: Mapping[str, int]
    ) -> str | None:
        if crashes(node):
            return "that ONNX Runtime would fuse, and crash on"
        if has_kernel(node, places, self.half, opsets):
            return None
        return f"for which ONNX Runtime has no kernel in {self.half.name.lower()}"

    def _largest(self, model: ir.Model, nodes: Iterable[ir.Node]) -> dict[str, float]:
        """Return the largest absolute element of recorded values, by name."""
        if self.context.ranges and not self.data:
            ranges = self.context.ranges
            return {name: max(-low, high) for name, (low, high) in ranges.items()}
        feeds = read_feeds(self.data, self.name) if self.data else self.context.samples
        largest: dict[str, float] = defaultdict(float)
        margin, samples = (1, feeds) if feeds else (_MARGIN, self.context.made_up)
        names = {str(v.name) for n in nodes for v in (*n.inputs, *n.outputs) if v is not None}
        try:
            recorded = record(model, samples, names, self.name, bodies=True) if samples else ()
            for sample in recorded:
                for name, array in sample.items():
                    if array.dtype == np.float32 and array.size:
                        finite = np.abs(array[np.isfinite(array)])
                        most = float(finite.max(initial=0.0))
                        largest[name] = max(largest[name], margin * most)
        except PassError:
            if feeds:
                raise
            largest.clear()
        if not feeds:
            where = (
                f"made-up inputs, {margin} times as large," if largest else "constants alone"
            )
            self.context.notes.append(f"no data is given: {where} show what overflows")
        return largest

    def _reading_integers(self, model: ir.Model, largest: Mapping[str, float]) -> set[ir.Node]:
        """Return nodes that compute from nothing but constants and integers of any size.

        Positions are such integers: a sine of them needs all their digits. Integers whose
        ``largest`` recorded element is small count as small.
        """
        given = self.data or self.context.samples or self.context.ranges
        whole: set[ir.Value] = set()
        found: set[ir.Node] = set()
        for node in model.graph.all_nodes():
            read = [v for v in node.inputs if v is not None]
            output = node.outputs[0] if node.outputs and read else None
            if output is None or output.dtype is not WIDE:
                continue
            if node.op_type == "Cast":
                seen = largest.get(str(output.name), np.inf) if given else np.inf
                most = min(seen, max(map(abs, bounds_of(read[0]))))
                if (kind := read[0].dtype) and kind.is_integer() and most > EXACT[self.half]:
                    whole.add(output)
                continue
            floats = {v for v in read if v.dtype is WIDE and constant_of(v) is None}
            if floats and floats <= whole:
                found.add(node)
                if node.op_type in _INTEGERS:
                    whole.add(output)
        return found


def _unreached(model: ir.Model, largest: Mapping[str, float]) -> Iterator[str]:
    """Yield names of what bodies compute in which no sample has a number but 0."""
    for graph in graphs_within(model.graph):
        made = [(str(v.name), node) for node in graph for v in node.outputs]
        recorded = [largest[name] for name, _ in made if name in largest]
        if graph is not model.graph and recorded and not any(recorded):
            yield from (name for name, node in made if not moves_only(node))


def _join_casts(model: ir.Model, half: ir.DataType) -> None:
    """Remove Casts from the lower type to float32 and back, which change nothing."""
    for node in list(model.graph):
        if node.op_type != "Cast" or node.outputs[0].dtype is not half:
            continue
        wide = node.inputs[0].producer() if node.inputs[0] is not None else None
        if wide is None or wide.op_type != "Cast" or wide.domain:
            continue
        source = wide.inputs[0]
        if source is None or source.dtype is not half:
            continue
        (output,) = node.outputs
        if output.is_graph_output():
            producer = source.producer()
            if producer is None or source.is_graph_output():
                continue
            name, place = output.name, list(model.graph.outputs).index(output)
            output.name, source.name = f"{name}_cast", name
            source.shape = output.shape
            model.graph.outputs[place] = source
        output.replace_all_uses_with(source)
        model.graph.remove(node, safe=True)
        if not wide.outputs[0].uses() and not wide.outputs[0].is_graph_output():
            model.graph.remove(wide, safe=True)


def _with_moves(
    nodes: Iterable[ir.Node], chosen: Mapping[ir.Node, Signature], moves: set[ir.Node]
) -> set[ir.Node]:
    """Return the movements that are lowered too, so that Casts around them meet and go.

    A node that only moves elements changes no value: lowered with a neighbour, it saves a Cast
    or makes one cheaper. ``nodes`` are all in order; ``moves`` may be lowered for this reason.
    """
    found: set[ir.Node] = set(chosen)
    order = list(nodes)
    while True:
        size = len(found)
        for node in (*order, *reversed(order)):
            if node not in moves or node in found:
                continue
            source = node.inputs[0].producer() if node.inputs[0] is not None else None
            users = {user for v in node.outputs for user in v.consumers()}
            ends = any(v.is_graph_output() for v in node.outputs)
            if (source in found and bool(users & found)) or (
                bool(users) and users <= found and not ends
            ):
                found.add(node)
        if len(found) == size:
            return found - set(chosen)
