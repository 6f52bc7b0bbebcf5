"""A model as the protobuf that onnx's inference reads, kept up to date from round to round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import onnx
import onnx_ir as ir

from onnx_passes.passes._support.proto import light_proto

_NOTHING: Mapping[str, Sequence[object]] = MappingProxyType({})

Written = tuple[int | str | None, ...]


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
        self.typed = self.info is not None and self.value.type is not None
        if self.typed and self.shape is not None:
            self.written = _plain(self.shape)


class Draft:
    """What inference is given of a model: its nodes once, its shapes anew in each round.

    Serialising a whole model for each round took four times as long as the inference.
    """

    def __init__(self, model: ir.Model) -> None:
        """Serialise a model without its big weights."""
        self.model = model
        self.proto = light_proto(model, overridable=False)
        # What is written here has no denotations, and functions declare values of their own.
        denoted = any(dim.denotation for dim in _dims(self.proto.graph))
        self._plain = not denoted and not model.functions
        self._numbers: bool | None = None
        self._entries: list[_Entry] = []
        if self._plain:
            self._index(model.graph, self.proto.graph, inner=False)

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
                _write(entry, numbers)

    def _index(self, graph: ir.Graph, proto: onnx.GraphProto, *, inner: bool) -> None:
        """Find the declarations that change between rounds.

        Those of the main graph's inputs and outputs are the user's.
        """
        fixed = _unknown(proto) | {tensor.name for tensor in proto.initializer}
        infos = {info.name: info for info in proto.value_info}
        found: list[tuple[ir.Value, onnx.ValueInfoProto | None]] = [
            (value, infos.get(value.name or ""))
            for node in graph
            for value in node.outputs
            if value.name and not value.is_graph_output()
        ]
        found += zip(graph.outputs, proto.output, strict=True) if inner else ()
        for value, info in found:
            self._entries.append(_Entry(value, proto, info, value.name not in fixed))
        for value, info in zip(graph.inputs, proto.input, strict=True) if inner else ():
            self._entries.append(_Entry(value, proto, info, inferred=False))
        for node, node_proto in zip(graph, proto.node, strict=True):
            for body, body_proto in bodies(node, node_proto):
                self._index(body, body_proto, inner=True)


def bodies(node: ir.Node, proto: onnx.NodeProto) -> Iterator[tuple[ir.Graph, onnx.GraphProto]]:
    """Pair the subgraphs of a node with those of its protobuf."""
    for attribute in proto.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield node.attributes[attribute.name].as_graph(), attribute.g
        elif attribute.type == onnx.AttributeProto.GRAPHS:
            graphs = node.attributes[attribute.name].as_graphs()
            yield from zip(graphs, attribute.graphs, strict=True)


def forget(
    proto: onnx.GraphProto,
    *,
    numbers: bool,
    keep: Mapping[str, Sequence[object]] = _NOTHING,
    inner: bool = False,
) -> None:
    """Remove what is declared of inner values that inference can find itself.

    Args:
        proto: The graph, changed in place.
        numbers: Whether to remove fixed sizes too, not only names.
        keep: Dimensions of values, by name, that stay; None for one that does not.
        inner: Whether it is a subgraph.
    """
    fixed = _unknown(proto) | {tensor.name for tensor in proto.initializer}
    # The outputs of the main graph are the user's, those of a subgraph are inner values.
    for info in (*proto.value_info, *(proto.output if inner else ())):
        if info.name not in fixed:
            dims = info.type.tensor_type.shape.dim
            known = keep.get(info.name, (None,) * len(dims))
            for dim, kept in zip(dims, known, strict=False):
                if kept is None and (numbers or dim.HasField("dim_param")):
                    dim.Clear()
    for node in proto.node:
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                forget(graph, numbers=numbers, keep=keep, inner=True)


def _unknown(proto: onnx.GraphProto) -> set[str]:
    """Return the names of what operators without a schema compute."""
    return {
        name
        for node in proto.node
        if not onnx.defs.has(node.op_type, domain=node.domain)
        for name in node.output
    }


def _dims(proto: onnx.GraphProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    for info in (*proto.input, *proto.value_info, *proto.output):
        yield from info.type.tensor_type.shape.dim
    for node in proto.node:
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _dims(graph)


def _plain(shape: ir.Shape) -> Written:
    return tuple([d if isinstance(d, int) else d.value for d in shape.dims])


def _write(entry: _Entry, numbers: bool) -> None:
    value = entry.value
    if value.type is None:
        return
    if entry.info is None:
        entry.info = entry.graph.value_info.add()
        entry.info.name = value.name or ""
    if not entry.typed:
        ir.serde.serialize_type_into(entry.info.type, value.type)
        entry.typed = True
    if not isinstance(value.type, ir.TensorType):
        # Inference is given the shapes of sequences and sparse tensors as they are.
        entry.info.type.Clear()
        ir.serde.serialize_type_into(entry.info.type, value.type)
        if value.shape is not None:
            ir.serde.serialize_shape_into(entry.info.type, value.shape)
        return
    wanted = _wanted(entry, numbers)
    if wanted == entry.written:
        return
    entry.written = wanted
    tensor = entry.info.type.tensor_type
    tensor.ClearField("shape")
    if wanted is None:
        return
    tensor.shape.SetInParent()
    add = tensor.shape.dim.add
    for dim in wanted:
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
        return (None,) * len(dims) if numbers else tuple([_number(d) for d in dims])
    kept = (*entry.kept, *dims[len(entry.kept) :])
    left = zip(dims, kept, strict=False)
    return tuple([d if k is not None else None if numbers else _number(d) for d, k in left])


def _number(dim: int | str | None) -> int | None:
    return dim if isinstance(dim, int) else None
