"""A model as the protobuf that onnx's inference reads, kept up to date from round to round."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx
import onnx_ir as ir

from onnx_passes.model.walk import graphs_within, node_outputs, nodes_of
from onnx_passes.ops.bodies import attach_bodies
from onnx_passes.passes._support.proto import light_proto
from onnx_passes.passes.annotation._bare import bare_proto, denoted
from onnx_passes.passes.annotation._engine_shapes import follow_engines
from onnx_passes.passes.annotation._forgetting import forget, results_without_schema
from onnx_passes.passes.annotation._memory import InferenceMemory

_GRAPHS = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)

Written = tuple[int | str | None, ...]

_Types = dict[tuple[ir.DataType, Written | None], onnx.TypeProto]


@dataclass(slots=True)
class _Entry:
    """What is declared of a value.

    Attributes:
        value: The value.
        graph: Where a declaration is added that is not there yet.
        info: The declaration; None while nothing is known of the value.
        inferred: Whether inference can find out the dimensions by itself.
        typed: Whether a type stands there.
        written: The dimensions that stand there; None where no shape does.
        shape: The shape of the value that they were taken from.
        kept: The dimensions that had to stay then.
    """

    value: ir.Value
    graph: onnx.GraphProto
    info: onnx.ValueInfoProto | None
    inferred: bool
    typed: bool = False
    written: Written | None = None
    shape: ir.Shape | None = None
    kept: Sequence[object] | None = None

    def __post_init__(self) -> None:
        """Note what serialising has written."""
        self.shape = self.value.shape
        if self.info is None:
            return
        self.typed = self.value.type is not None
        if self.typed and self.shape is not None:
            self.written = _plain(self.shape)


class ModelDraft:
    """What inference is given of a model: its nodes once, its shapes anew in each round.

    Serialising a whole model for each round took four times as long as the inference.
    """

    def __init__(self, model: ir.Model, known: InferenceMemory) -> None:
        """Serialise a model without its big weights.

        Args:
            model: The model.
            known: What was written of it before.
        """
        self.model = model
        nested = any(True for _ in itertools.islice(graphs_within(model.graph), 1, None))
        # What is written here has no denotations, and functions declare values of their own.
        self._plain = not model.functions and not denoted(model)
        self._bare = self._plain and not nested
        self.proto = (
            bare_proto(model, known) if self._bare else light_proto(model, overridable=False)
        )
        follow_engines(self.proto.graph)
        attach_bodies(self.proto)
        # What is written of a value here has no remarks, and few types and shapes occur.
        self._types: _Types | None = {} if self._bare else None
        self._numbers: bool | None = None
        self._entries: list[_Entry] = []
        self._main = self._index(model.graph, self.proto.graph, inner=False)

    def update(self, *, numbers: bool, keep: Mapping[str, Sequence[object]]) -> None:
        """Write down what is known of inner values, but for what inference can find itself.

        Inference keeps a declared name; exporters declare one for every value, which hides
        that two dimensions are equal.

        Args:
            numbers: Whether to leave out fixed sizes too, not only names.
            keep: Dimensions of values, by name, that stay; None for one that does not.
        """
        if not self._plain:
            if self._numbers is not None:
                self.proto = light_proto(self.model, overridable=False)
                follow_engines(self.proto.graph)
                attach_bodies(self.proto)
            forget(self.proto.graph, numbers=numbers, keep=keep)
        changed = numbers is not self._numbers
        self._numbers = numbers
        for entry in self._entries:
            kept = keep.get(entry.value.name or "")
            value = entry.value
            if (
                changed
                or entry.shape is not value.shape
                or entry.kept != kept
                or entry.typed is not (value.type is not None)
            ):
                entry.shape, entry.kept = value.shape, kept
                _write(entry, numbers, self._types)

    def types_in(self, inferred: onnx.ModelProto) -> Iterator[tuple[ir.Value, onnx.TypeProto]]:
        """Pair values with the types that inference has found, those of subgraphs included."""
        return _types_in(self._main, inferred.graph)

    def _index(self, graph: ir.Graph, proto: onnx.GraphProto, *, inner: bool) -> _Scope:
        """Find the declarations that change between rounds.

        Those of the main graph's inputs and outputs are the user's.
        """
        fixed = results_without_schema(proto) | {tensor.name for tensor in proto.initializer}
        infos = {info.name: info for info in proto.value_info}
        made = [v for outputs in map(node_outputs, nodes_of(graph)) for v in outputs if v.name]
        found: list[tuple[ir.Value, onnx.ValueInfoProto | None]] = [
            (value, infos.get(value.name or ""))
            for value in made
            if not value.is_graph_output()
        ]
        found += zip(graph.outputs, proto.output, strict=True) if inner else ()
        if self._plain:
            for value, info in found:
                self._entries.append(_Entry(value, proto, info, value.name not in fixed))
            for value, info in zip(graph.inputs, proto.input, strict=True) if inner else ():
                self._entries.append(_Entry(value, proto, info, inferred=False))
        scope = _Scope([(value.name or "", value) for value in (*graph.inputs, *made)])
        if self._bare:
            return scope
        for place, (node, node_proto) in enumerate(zip(graph, proto.node, strict=True)):
            if any(attribute.type in _GRAPHS for attribute in node_proto.attribute):
                bodies = zip(_bodies_of(node, node_proto), _bodies(node_proto), strict=True)
                inside = [self._index(*pair, inner=True) for pair in bodies]
                scope.bodies.append((place, inside))
        return scope


@dataclass
class _Scope:
    """The values of a graph that inference says something of, and the graphs in it.

    Attributes:
        values: Values by name.
        bodies: The subgraphs of nodes, by the node's place.
    """

    values: list[tuple[str, ir.Value]]
    bodies: list[tuple[int, list[_Scope]]] = field(default_factory=list)


def _types_in(
    scope: _Scope, proto: onnx.GraphProto
) -> Iterator[tuple[ir.Value, onnx.TypeProto]]:
    found = {info.name: info for info in (*proto.value_info, *proto.output)}
    for name, value in scope.values:
        info = found.get(name)
        if info is not None:
            yield value, info.type
    for place, inside in scope.bodies:
        for inner, body in zip(inside, _bodies(proto.node[place]), strict=True):
            yield from _types_in(inner, body)


def _bodies(proto: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in proto.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == onnx.AttributeProto.GRAPHS:
            yield from attribute.graphs


def _bodies_of(node: ir.Node, proto: onnx.NodeProto) -> Iterator[ir.Graph]:
    for attribute in proto.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield node.attributes[attribute.name].as_graph()
        elif attribute.type == onnx.AttributeProto.GRAPHS:
            yield from node.attributes[attribute.name].as_graphs()


def _plain(shape: ir.Shape) -> Written:
    return tuple([d if isinstance(d, int) else d.value for d in shape.dims])


def _write(entry: _Entry, numbers: bool, known: _Types | None) -> None:
    value, type_ = entry.value, entry.value.type
    if type_ is None:
        return
    if entry.info is None:
        entry.info = entry.graph.value_info.add()
        entry.info.name = value.name or ""
    if known is not None and type(type_) is ir.TensorType and not type_.denotation:
        wanted = _wanted(entry, numbers)
        if not entry.typed or wanted != entry.written:
            entry.typed, entry.written = True, wanted
            key = (type_.dtype, wanted)
            if key not in known:
                known[key] = onnx.TypeProto()
                known[key].tensor_type.elem_type = type_.dtype.value
                _write_shape(known[key].tensor_type, wanted)
            entry.info.type.CopyFrom(known[key])
        return
    if not entry.typed:
        ir.serde.serialize_type_into(entry.info.type, type_)
        entry.typed = True
    if not isinstance(type_, ir.TensorType):
        # Inference is given the shapes of sequences and sparse tensors as they are.
        entry.info.type.Clear()
        ir.serde.serialize_type_into(entry.info.type, type_)
        if value.shape is not None:
            ir.serde.serialize_shape_into(entry.info.type, value.shape)
        return
    wanted = _wanted(entry, numbers)
    if wanted == entry.written:
        return
    entry.written = wanted
    entry.info.type.tensor_type.ClearField("shape")
    _write_shape(entry.info.type.tensor_type, wanted)


def _write_shape(tensor: onnx.TypeProto.Tensor, dims: Written | None) -> None:
    if dims is None:
        return
    tensor.shape.SetInParent()
    add = tensor.shape.dim.add
    for dim in dims:
        if dim is None:
            add()
        elif isinstance(dim, int):
            add(dim_value=dim)
        else:
            add(dim_param=dim)


def _wanted(entry: _Entry, numbers: bool) -> Written | None:
    if entry.shape is None:
        return None
    dims = _plain(entry.shape)
    if not entry.inferred:
        return dims
    if entry.kept is None:
        return None if numbers else tuple([_number(d) for d in dims])
    kept = (*entry.kept, *dims[len(entry.kept) :])
    left = zip(dims, kept, strict=False)
    return tuple([d if k is not None else None if numbers else _number(d) for d, k in left])


def _number(dim: int | str | None) -> int | None:
    return dim if isinstance(dim, int) else None
