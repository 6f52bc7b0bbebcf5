"""Merging what inference found into what a model says of its values."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import onnx
import onnx_ir as ir

from onnx_passes.passes._support.scopes import own_values

Dim = int | ir.SymbolicDim


def merge_dim(declared: Dim, inferred: Dim) -> Dim:
    """Combine what is declared and what is inferred of one dimension.

    A number wins against a name, what is inferred against what is declared: the operators
    decide, and inferred names start at the model's inputs, so that they say which dimensions
    are equal.
    """
    if isinstance(inferred, int):
        return inferred
    if isinstance(declared, int) or inferred.value is None:
        return declared
    return inferred


def merge(value: ir.Value, found: onnx.TypeProto) -> bool:
    """Add an inferred type and shape to a value.

    Returns:
        Whether that says more than, or something else than, before.
    """
    type_and_shape = ir.serde.deserialize_type_proto_for_type(found)
    shape = ir.serde.deserialize_type_proto_for_shape(found)
    modified = False
    if value.type is None and type_and_shape is not None:
        value.type = type_and_shape
        modified = True
    if shape is None or (value.type is not None and value.type != type_and_shape):
        return modified
    if value.shape is None or len(value.shape) != len(shape):
        # A rank that contradicts the declared one is a declaration that nothing relies on.
        merged = shape if value.shape is None else None
    else:
        merged = ir.Shape([merge_dim(d, i) for d, i in zip(value.shape, shape, strict=True)])
    if merged is None or merged == value.shape:
        return modified
    value.shape = merged
    return True


def inferred_types(
    graph: ir.Graph, proto: onnx.GraphProto
) -> Iterator[tuple[ir.Value, onnx.TypeProto]]:
    """Pair the values that a graph and its subgraphs define with the types found for them."""
    found = {info.name: info.type for info in (*proto.value_info, *proto.output)}
    for value in own_values(graph):
        if value.name in found:
            yield value, found[value.name]
    for node, node_proto in zip(graph, proto.node, strict=True):
        for attribute in node_proto.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                inner = node.attributes[attribute.name].as_graph()
                yield from inferred_types(inner, attribute.g)
            elif attribute.type == onnx.AttributeProto.GRAPHS:
                inner_graphs = node.attributes[attribute.name].as_graphs()
                for inner, inner_proto in zip(inner_graphs, attribute.graphs, strict=True):
                    yield from inferred_types(inner, inner_proto)


def number_names(types: Iterable[onnx.TypeProto], declared: set[str]) -> None:
    """Number the names that inference invented for unknown dimensions as they appear.

    Its own numbers depend on what was annotated before: a second run would not repeat them.
    """
    numbers = (f"unk__{n}" for n in itertools.count())
    names: dict[str, str] = {}
    for dim in (dim for type_ in types for dim in _dims(type_)):
        invented = dim.dim_param.startswith("unk__") and dim.dim_param not in declared
        if invented and dim.dim_param not in names:
            names[dim.dim_param] = next(name for name in numbers if name not in declared)
        if invented:
            dim.dim_param = names[dim.dim_param]


def _dims(type_: onnx.TypeProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    if type_.HasField("sequence_type"):
        return _dims(type_.sequence_type.elem_type)
    if type_.HasField("optional_type"):
        return _dims(type_.optional_type.elem_type)
    return iter(type_.tensor_type.shape.dim)


def dimension_names(proto: onnx.GraphProto) -> set[str]:
    """Return the names of dimensions in a graph and its subgraphs."""
    infos = (*proto.input, *proto.value_info, *proto.output)
    names = {dim.dim_param for info in infos for dim in _dims(info.type) if dim.dim_param}
    for node in proto.node:
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                names |= dimension_names(graph)
    return names


def forget(proto: onnx.GraphProto, *, numbers: bool, inner: bool = False) -> None:
    """Remove what is declared of inner values that inference can find itself.

    Inference keeps a declared name; exporters declare one for every value, which hides that
    two dimensions are equal.

    Args:
        proto: The graph, changed in place.
        numbers: Whether to remove fixed sizes too, not only names.
        inner: Whether it is a subgraph.
    """
    unknown = {
        name
        for node in proto.node
        if not onnx.defs.has(node.op_type, domain=node.domain)
        for name in node.output
    }
    # The outputs of the main graph are the user's, those of a subgraph are inner values.
    for info in (*proto.value_info, *(proto.output if inner else ())):
        if info.name not in unknown:
            for dim in info.type.tensor_type.shape.dim:
                if numbers or dim.HasField("dim_param"):
                    dim.Clear()
    for node in proto.node:
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                forget(graph, numbers=numbers, inner=True)
