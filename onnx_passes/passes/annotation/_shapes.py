"""Merging what inference found into what a model says of its values."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType

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
        Whether more is declared of the value than was inferred.
    """
    type_ = ir.serde.deserialize_type_proto_for_type(found)
    shape = ir.serde.deserialize_type_proto_for_shape(found)
    if value.type is None:
        value.type = type_
    if value.type != type_:
        return True
    if shape is None:
        return value.shape is not None
    if value.shape is None:
        value.shape = shape
    elif len(value.shape) == len(shape):
        dims = [merge_dim(d, i) for d, i in zip(value.shape, shape, strict=True)]
        if dims != list(value.shape):
            value.shape = ir.Shape(dims)
    return list(value.shape) != list(shape)


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


def number_names(values: Sequence[ir.Value], taken: AbstractSet[str]) -> None:
    """Number the names that inference invented for unknown dimensions as they appear.

    Its own numbers depend on what was annotated before: a second run would not repeat them.

    Args:
        values: The values annotated, in order.
        taken: Names that belong to the user.
    """
    numbers = (name for n in itertools.count() if (name := f"unk__{n}") not in taken)
    invented: dict[str, str] = {}
    for value in values:
        dims = list(value.shape or ())
        for index, dim in enumerate(dims):
            old = dim.value if isinstance(dim, ir.SymbolicDim) else None
            if old is not None and old.startswith("unk__") and old not in taken:
                if old not in invented:
                    invented[old] = next(numbers)
                dims[index] = ir.SymbolicDim(invented[old])
        if value.shape is not None and dims != list(value.shape):
            value.shape = ir.Shape(dims)


def dimension_names(values: Iterable[ir.Value]) -> set[str]:
    """Return the names of dimensions of values."""
    dims = (dim for value in values for dim in value.shape or ())
    return {dim.value for dim in dims if isinstance(dim, ir.SymbolicDim) and dim.value}


def forget(
    proto: onnx.GraphProto,
    *,
    numbers: bool,
    keep: Mapping[str, Sequence[object]] = MappingProxyType({}),
    inner: bool = False,
) -> None:
    """Remove what is declared of inner values that inference can find itself.

    Inference keeps a declared name; exporters declare one for every value, which hides that
    two dimensions are equal.

    Args:
        proto: The graph, changed in place.
        numbers: Whether to remove fixed sizes too, not only names.
        keep: Dimensions of values, by name, that stay; None for one that does not.
        inner: Whether it is a subgraph.
    """
    unknown = {
        name
        for node in proto.node
        if not onnx.defs.has(node.op_type, domain=node.domain)
        for name in node.output
    }
    constants = {tensor.name for tensor in proto.initializer}
    # The outputs of the main graph are the user's, those of a subgraph are inner values.
    for info in (*proto.value_info, *(proto.output if inner else ())):
        if info.name not in unknown and info.name not in constants:
            dims = info.type.tensor_type.shape.dim
            known = keep.get(info.name, itertools.repeat(None))
            for dim, kept in zip(dims, known, strict=False):
                if kept is None and (numbers or dim.HasField("dim_param")):
                    dim.Clear()
    for node in proto.node:
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                forget(graph, numbers=numbers, keep=keep, inner=True)
