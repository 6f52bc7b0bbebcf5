"""The protobuf of a model that onnx's shape inference reads, and what it found, merged back.

The protobuf is kept up to date between rounds. It declares nothing of what nodes compute, and
follows engines where onnx infers other shapes. What one inference found is kept for the next
one over the same model.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from operator import is_
from typing import Generic, TypeVar

import onnx
import onnx_ir as ir

from onnx_passes.model.digest import shape_key, type_key
from onnx_passes.model.protos import graphs_of
from onnx_passes.model.tensor_bytes import ListedTensor, tensor_buffer
from onnx_passes.model.walk import (
    graphs_within,
    node_attributes,
    node_head,
    node_inputs,
    node_outputs,
    nodes_of,
    subgraphs_of,
    value_name,
)
from onnx_passes.ops.bodies import attach_bodies, has_body
from onnx_passes.passes.common.large_tensors import is_big, light_proto, stub
from onnx_passes.passes.replace import INVENTED

Dim = int | ir.SymbolicDim


def merge_dim(declared: Dim, inferred: Dim) -> Dim:
    """Combine what is declared and what is inferred of one dimension.

    What is inferred wins against what is declared: the operators decide, and inferred names
    start at the model's inputs, so that they say which dimensions are equal. A declared number
    gives way to such a name, which has any size, and not to one that was invented.
    """
    if isinstance(inferred, int):
        return inferred
    if inferred.value is None:
        return declared
    invented = inferred.value.startswith(INVENTED)
    return declared if invented and isinstance(declared, int) else inferred


@dataclass(frozen=True)
class FoundShape:
    """What inference has found of a value.

    ``type`` is shared, and must not be given to a value.
    """

    type: ir.TypeProtocol | None
    shape: ir.Shape | None
    dims: tuple[Dim, ...]

    @classmethod
    def of(cls, proto: onnx.TypeProto) -> FoundShape:
        """Read what inference says."""
        tensor = proto.tensor_type
        dims = tensor.shape.dim
        if not tensor.HasField("shape") or any(dim.denotation for dim in dims):
            shape = ir.serde.deserialize_type_proto_for_shape(proto)
        else:
            # Not all of onnx-ir's reader, which takes a third of the time of inference.
            read = (
                d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in dims
            )
            shape = ir.Shape(read, frozen=True)
        type_ = ir.serde.deserialize_type_proto_for_type(proto)
        return cls(type_, shape, shape.dims if shape is not None else ())


class Merging:
    """Merges what round after round of inference finds.

    Most values have one of a few shapes, and most keep theirs from round to round.
    """

    def __init__(
        self, fixed: AbstractSet[ir.Value], before: Mapping[bytes, FoundShape]
    ) -> None:
        """Begin.

        Values in ``fixed`` stay; ``before`` is what the last inference read, by protobuf's
        text.
        """
        self._fixed = fixed
        self._before = before
        self.read: dict[bytes, FoundShape] = {}
        self._last: dict[ir.Value, tuple[bytes, ir.Shape | None]] = {}

    def merge(self, types: Iterable[tuple[ir.Value, onnx.TypeProto]]) -> bool:
        """Add inferred types and shapes to values.

        Returns whether more is declared of any value than was inferred now.
        """
        declared = False
        for value, proto_type in types:
            text = proto_type.SerializeToString()
            known = self._last.get(value)
            if known is not None and known[0] == text and known[1] is value.shape:
                continue  # as in the round before, and so is what would come of it
            if value in self._fixed or value.is_initializer():
                continue
            found = self.read.get(text)
            if found is None:
                found = self._before.get(text) or FoundShape.of(proto_type)
                self.read[text] = found
            if value.type is None:
                value.type = ir.serde.deserialize_type_proto_for_type(proto_type)
            declared |= merge(value, found)
            self._last[value] = (text, value.shape)
        return declared


def merge(value: ir.Value, found: FoundShape) -> bool:
    """Add an inferred type and shape to a value that has a type.

    Returns whether more is declared of the value than was inferred.
    """
    if value.type != found.type:
        return True
    if found.shape is None:
        return value.shape is not None
    if value.shape is None:
        value.shape = found.shape
        return False
    own = value.shape.dims
    if own == found.dims:
        return False
    if len(own) == len(found.dims):
        dims = tuple(merge_dim(d, i) for d, i in zip(own, found.dims, strict=True))
        if dims != own:
            value.shape = ir.Shape(dims)
        return dims != found.dims
    value.shape = found.shape  # without what is declared, inference finds another rank
    return False


def number_names(values: Sequence[ir.Value], taken: AbstractSet[str]) -> None:
    """Number the names that inference invented for unknown dimensions as they appear.

    Its own numbers depend on what was annotated before: a second run would not repeat them.
    Names in ``taken`` belong to the user.
    """
    numbers = (name for n in itertools.count() if (name := f"{INVENTED}{n}") not in taken)
    invented: dict[str, str] = {}
    for value in values:
        if value.shape is None:
            continue
        changed: dict[int, str] = {}
        for index, dim in enumerate(value.shape.dims):
            old = None if isinstance(dim, int) else dim.value
            if old is not None and old.startswith(INVENTED) and old not in taken:
                if old not in invented:
                    invented[old] = next(numbers)
                if invented[old] != old:
                    changed[index] = invented[old]
        if changed:
            dims = enumerate(value.shape.dims)
            value.shape = ir.Shape([changed.get(index, dim) for index, dim in dims])


def dimension_names(values: Iterable[ir.Value]) -> set[str]:
    """Return the names of dimensions of values."""
    dims = (dim for value in values for dim in value.shape or ())
    return {dim.value for dim in dims if isinstance(dim, ir.SymbolicDim) and dim.value}


def forget(proto: onnx.GraphProto, *, inner: bool = False) -> None:
    """Remove the shapes that are declared of inner values, which inference finds by itself.

    Those of ``inner`` outputs are, as the user sees outputs of the main graph only.
    """
    fixed = results_without_schema(proto) | {tensor.name for tensor in proto.initializer}
    for info in (*proto.value_info, *(proto.output if inner else ())):
        if info.name not in fixed and info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")  # a false rank hides the right one
    for node in proto.node:
        for graph in graphs_of(node.attribute):
            forget(graph, inner=True)


def results_without_schema(proto: onnx.GraphProto) -> set[str]:
    """Return the names of what operators without a schema compute."""
    operators = {(node.op_type, node.domain) for node in proto.node}
    unknown = {
        (op_type, domain)
        for op_type, domain in operators
        if not onnx.defs.has(op_type, domain=domain) and not has_body(domain, op_type)
    }
    return {
        name
        for node in (proto.node if unknown else ())
        if (node.op_type, node.domain) in unknown
        for name in node.output
    }


OwnerT = TypeVar("OwnerT", ir.Node, ir.Value)
ProtoT = TypeVar("ProtoT", onnx.NodeProto, onnx.TensorProto)


@dataclass
class Written(Generic[OwnerT, ProtoT]):
    """Protobufs of nodes, or of initializers, with what they were made of.

    ``made`` has by owner what is compared by value, what is compared by identity, and the
    protobuf.
    """

    write: Callable[[OwnerT], ProtoT]
    made: dict[OwnerT, tuple[Hashable, Sequence[object], ProtoT]] = field(default_factory=dict)

    def renew(
        self, owners: Iterable[tuple[OwnerT, Hashable, Sequence[object]]]
    ) -> Mapping[OwnerT, ProtoT]:
        """Return the protobufs of owners, made anew where an owner has changed.

        Those of all others are forgotten. Each owner comes with values, and with objects that
        nothing changes, that its protobuf is made of.
        """
        before, self.made = self.made, {}
        for owner, values, objects in owners:
            found = before.get(owner)
            if (
                found is None
                or found[0] != values
                or len(found[1]) != len(objects)
                or not all(map(is_, found[1], objects))
            ):
                found = (values, objects, self.write(owner))
            self.made[owner] = found
        return {owner: proto for owner, (_, _, proto) in self.made.items()}


def parts_of(node: ir.Node) -> tuple[ir.Node, Hashable, Sequence[object]]:
    """Return a node without subgraphs, and what its protobuf is made of."""
    reads = tuple([None if v is None else value_name(v) for v in node_inputs(node)])
    results = tuple(map(value_name, node_outputs(node)))
    return node, (node_head(node), reads, results), tuple(node_attributes(node).values())


class InferenceMemory:
    """What inferences over one model share.

    Protobufs of ``nodes`` without subgraphs are kept for models without functions. ``shapes``
    has what the last inference read, by protobuf's text, and ``reshapes`` dimensions of
    results of Reshape, by all that they depend on.
    """

    def __init__(
        self,
        node: Callable[[ir.Node], onnx.NodeProto],
        tensor: Callable[[ir.Value], onnx.TensorProto],
    ) -> None:
        """Remember nothing yet."""
        self.nodes = Written(node)
        self.tensors = Written(tensor)
        self.shapes: dict[bytes, FoundShape] = {}
        self.reshapes: dict[Hashable, list[int | str | None]] = {}


_POOLS = ("AveragePool", "LpPool", "MaxPool")
_CONCERNED = frozenset({*_POOLS, "Constant", "PRelu", "Squeeze"})
_NO_ATTRIBUTE = onnx.AttributeProto()


def follow_engines(graph: onnx.GraphProto, empty: AbstractSet[str] = frozenset()) -> None:
    """Change nodes so that inference finds the shapes that engines compute.

    - Pooling with ``ceil_mode``: before opset 22, onnx also counts a last window that starts
      in the padding behind, which ONNX Runtime, as later opsets, leaves out. Padding behind of
      at most window - stride gives the right number for any size of the image.
    - Squeeze with an empty list of axes: onnx removes no dimension, ONNX Runtime all of size
      1, as if there were no list.
    - PRelu: onnx lets the slope be repeated, ONNX Runtime both operands, as in a product.

    The graph with its subgraphs is changed in place, and not meant to be run. ``empty`` has
    names of empty constants around it.
    """
    empty = empty | {tensor.name for tensor in graph.initializer if list(tensor.dims) == [0]}
    for node in graph.node:
        if node.op_type in _CONCERNED:
            attributes = {attribute.name: attribute for attribute in node.attribute}
            if node.op_type == "Constant" and list(
                attributes.get("value", _NO_ATTRIBUTE).t.dims
            ) == [0]:
                empty |= {node.output[0]}
            if node.op_type in _POOLS and not node.domain and "pads" in attributes:
                _cap(attributes)
            if node.op_type == "Squeeze" and not node.domain and empty & {*node.input[1:]}:
                del node.input[1]
            if node.op_type == "PRelu" and not node.domain:
                node.op_type = "Mul"
        for body in graphs_of(node.attribute):
            follow_engines(body, empty)


def _cap(attributes: dict[str, onnx.AttributeProto]) -> None:
    if "ceil_mode" not in attributes or not attributes["ceil_mode"].i:
        return
    kernel, pads = attributes["kernel_shape"].ints, attributes["pads"].ints
    strides, dilations = (
        attributes[name].ints if name in attributes else [1] * len(kernel)
        for name in ("strides", "dilations")
    )
    for axis, stride in enumerate(strides):
        behind, window = len(kernel) + axis, (kernel[axis] - 1) * dilations[axis] + 1
        if window < stride:  # padding may not be negative; a wider window counts the same
            kernel[axis], dilations[axis], window = stride, 1, stride
        pads[behind] = min(pads[behind], window - stride)


def new_memory() -> InferenceMemory:
    """Return what remembers nodes and initializers as they are written here."""
    return InferenceMemory(_node, _initializer)


def bare_proto(model: ir.Model, known: InferenceMemory) -> onnx.ModelProto:
    """Serialise a model for inference.

    Defaults of inputs are left out, so that nothing is concluded from them; big weights refer
    to a file that does not exist.
    """
    proto = onnx.ModelProto(ir_version=model.ir_version)
    for domain, version in sorted(model.opset_imports.items()):
        proto.opset_import.add(domain=domain, version=version)
    graphs = list(graphs_within(model.graph))
    held: list[tuple[ir.Value, str | None, tuple[object]]] = [
        (value, value.name, (value.const_value,))
        for graph in graphs
        for value in graph.initializers.values()
        if value.const_value is not None
        if not (graph is model.graph and value.is_graph_input() and model.ir_version >= 4)
    ]
    nodes = (node for graph in graphs for node in nodes_of(graph))
    plain = (node for node in nodes if not _has_body(node))
    parts = known.tensors.renew(held), known.nodes.renew(map(parts_of, plain))
    _write_graph(proto.graph, model.graph, parts)
    if model.functions:
        proto.functions.extend(light_proto(model).functions)
    return proto


_Parts = tuple[Mapping[ir.Value, onnx.TensorProto], Mapping[ir.Node, onnx.NodeProto]]
"""What initializers and nodes without subgraphs are written as."""


def _write_graph(proto: onnx.GraphProto, graph: ir.Graph, parts: _Parts) -> None:
    tensors, nodes = parts
    proto.name = graph.name or ""
    for value in graph.inputs:
        ir.serde.serialize_value_into(proto.input.add(), value)
    for value in graph.outputs:
        ir.serde.serialize_value_into(proto.output.add(), value)
    held = graph.initializers.values()
    for value in held:
        if not value.is_graph_input() and not _says_as_much(value.const_value, value):
            ir.serde.serialize_value_into(proto.value_info.add(), value)
    proto.initializer.extend(tensors[value] for value in held if value in tensors)
    proto.node.extend(nodes.get(n) or _node(n, parts) for n in nodes_of(graph))


def _has_body(node: ir.Node) -> bool:
    return any(True for _ in subgraphs_of(node))  # a graph without nodes is false


def _initializer(value: ir.Value) -> onnx.TensorProto:
    assert value.const_value is not None, "the caller looks"
    proto = onnx.TensorProto()
    _tensor(proto, value.const_value)
    proto.name = value.name or ""
    return proto


def _says_as_much(tensor: ir.TensorProtocol | None, value: ir.Value) -> bool:
    """Whether a tensor has all that is declared of its value."""
    return tensor is not None and tensor.dtype is value.dtype and tensor.shape == value.shape


def _tensor(proto: onnx.TensorProto, tensor: ir.TensorProtocol) -> None:
    if is_big(tensor):
        ir.serde.serialize_tensor_into(proto, stub(tensor))
    elif type(tensor) in _PLAIN and tensor.dtype.bitwidth >= 8:
        # What onnx-ir would write, without its remarks, in a third of the time.
        proto.data_type = tensor.dtype.value
        proto.dims.extend(tensor.shape.numpy())
        proto.raw_data = bytes(tensor_buffer(tensor))
    else:
        ir.serde.serialize_tensor_into(proto, tensor)


_PLAIN = (ir.Tensor, ListedTensor)
"""Tensors that hold an array as it is."""


def _node(node: ir.Node, parts: _Parts | None = None) -> onnx.NodeProto:
    """Serialise a node; those in its subgraphs are among ``parts``."""
    outputs = [value_name(value) or "" for value in node_outputs(node)]
    while outputs and not outputs[-1]:
        outputs.pop()
    domain, op_type, overload, name, _ = node_head(node)
    proto = onnx.NodeProto(
        op_type=op_type,
        domain=domain or None,
        overload=overload or None,
        name=name or None,
        input=[
            "" if value is None else value_name(value) or "" for value in node_inputs(node)
        ],
        output=outputs,
    )
    for attribute in node_attributes(node).values():
        into = proto.attribute.add()
        if attribute.is_ref():
            ir.serde.serialize_reference_attribute_into(into, attribute)
        elif parts is not None and attribute.type == ir.AttributeType.GRAPH:
            into.name, into.type = attribute.name, onnx.AttributeProto.GRAPH
            _write_graph(into.g, attribute.as_graph(), parts)
        elif parts is not None and attribute.type == ir.AttributeType.GRAPHS:
            into.name, into.type = attribute.name, onnx.AttributeProto.GRAPHS
            for graph in attribute.as_graphs():
                _write_graph(into.graphs.add(), graph, parts)
        elif attribute.type == ir.AttributeType.TENSOR and is_big(attribute.value):
            into.name, into.type = attribute.name, onnx.AttributeProto.TENSOR
            _tensor(into.t, attribute.value)
        else:
            ir.serde.serialize_attribute_into(into, attribute)
    return proto


@dataclass(slots=True)
class _Entry:
    """What is declared of a value.

    ``graph`` gets a declaration that is not there yet; ``info`` is set once something is
    known. Inference finds dimensions of an ``inferred`` value by itself. The declaration was
    made of ``told``.
    """

    value: ir.Value
    graph: onnx.GraphProto
    info: onnx.ValueInfoProto | None
    inferred: bool
    told: tuple[object, ...] = ()


class ModelDraft:
    """What inference is given of a model: its nodes once, its shapes anew in each round.

    Serialising a whole model for each round took four times as long as the inference.
    """

    def __init__(self, model: ir.Model, known: InferenceMemory) -> None:
        """Serialise a model without its big weights."""
        self.proto = bare_proto(model, known)
        follow_engines(self.proto.graph)
        attach_bodies(self.proto)
        # Few types and shapes occur.
        self._types: dict[Hashable, onnx.TypeProto] = {}
        self._entries: list[_Entry] = []
        self._main = self._index(model.graph, self.proto.graph, inner=False)

    def update(self, *, numbers: bool, keep: Mapping[str, Sequence[object]]) -> None:
        """Write down what is known of inner values, but for what inference can find itself.

        Inference keeps a declared name; exporters declare one for every value, which hides
        that two dimensions are equal. With ``numbers`` fixed sizes are left out too, not only
        names. ``keep`` has dimensions that stay, by names of values; None for one that does
        not.
        """
        for entry in self._entries:
            type_, kept = entry.value.type, keep.get(entry.value.name or "")
            found = entry.inferred and isinstance(type_, ir.TensorType)
            shape = None if found and numbers and kept is None else entry.value.shape
            told = (type_, shape, found and numbers, kept)
            if type_ is not None and told != entry.told:
                entry.told = told
                if entry.info is None:
                    entry.info = entry.graph.value_info.add(name=entry.value.name or "")
                known = None if kept is None or not found else tuple(kept)
                key = (type_key(type_), shape_key(shape), found, numbers, known)
                if key not in self._types:
                    self._types[key] = _declaration(type_, shape)
                    if found:
                        _forget_dims(self._types[key], numbers, known)
                entry.info.type.CopyFrom(self._types[key])

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
        for value, info in found:
            self._entries.append(_Entry(value, proto, info, value.name not in fixed))
        for value, info in zip(graph.inputs, proto.input, strict=True) if inner else ():
            self._entries.append(_Entry(value, proto, info, inferred=False))
        scope = _Scope([(value.name or "", value) for value in (*graph.inputs, *made)])
        for place, node in enumerate(nodes_of(graph)):
            if _has_body(node):
                written = graphs_of(proto.node[place].attribute)
                bodies = zip(subgraphs_of(node), written, strict=True)
                inside = [self._index(*pair, inner=True) for pair in bodies]
                scope.bodies.append((place, inside))
        return scope


@dataclass
class _Scope:
    """The values of a graph that inference says something of, and the graphs in it.

    ``bodies`` are the subgraphs of nodes, by the node's place.
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
        for inner, body in zip(inside, graphs_of(proto.node[place].attribute), strict=True):
            yield from _types_in(inner, body)


def _declaration(type_: ir.TypeProtocol, shape: ir.Shape | None) -> onnx.TypeProto:
    found = onnx.TypeProto()
    ir.serde.serialize_type_into(found, type_)
    if shape is not None:
        ir.serde.serialize_shape_into(found, shape)
    return found


def _forget_dims(type_: onnx.TypeProto, numbers: bool, kept: Sequence[object] | None) -> None:
    """Forget the dimensions that inference finds by itself."""
    dims = type_.tensor_type.shape.dim
    for dim, stays in zip(dims, kept or (None,) * len(dims), strict=False):
        if stays is None and (numbers or dim.HasField("dim_param")):
            dim.Clear()
