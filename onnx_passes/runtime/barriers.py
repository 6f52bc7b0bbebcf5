"""Barriers that make ONNX Runtime round each value below float32 as the model says.

ONNX Runtime's CPU has few kernels of half precision. At every optimization level it puts Cast
nodes around the other operators, removes each pair of Casts that meets, and runs an operator
that has such a kernel in float32 if all its neighbors need Casts. So the same model with one
more output, or with one node less, rounds at other places.

Two Identity nodes in a row behind a value stop this: both have kernels for every type, and
neither has neighbors that all need Casts. One Identity alone is run in float32 like any other
operator. A barrier also keeps apart two Casts of the model, of which ONNX Runtime removes the
first even if it loses digits.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.walk import all_graphs, all_nodes, all_tensors
from onnx_passes.runtime.weightless import split_weights

LOW = frozenset(
    dtype
    for dtype in ir.DataType
    if dtype in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16) or dtype.name.startswith("FLOAT8")
)
"""The types below float32 that have a barrier."""

_LENGTH = 2
"""Identity nodes in a row that make a barrier."""
_NEWEST_OPSET = 21
"""Opset of Identity in a graph that has no operator of the standard domain."""
_TYPE_ATTRIBUTES = ("to", "dtype", "output_dtype")

_Types = dict[str, set[ir.DataType]]


def with_barriers(model: ir.Model) -> ir.Model:
    """Return a model in which ONNX Runtime rounds each value below float32.

    Every reader of a node's result of such a type, in the same graph or a nested one, reads
    it behind two Identity nodes. The result keeps its name, so graph outputs and the
    interface stay as they are, and a value that becomes an output changes no other. Graph
    inputs, initializers and Constants need no barrier: to widen them loses nothing. Values of
    unknown type have one if the model has any value below float32.

    Holds for sessions without graph optimizations, which remove Identity nodes.

    Args:
        model: The model; not changed.

    Returns:
        The model itself if it needs no barrier, else a copy that shares its tensors.
    """
    low = _has_low_values(model)
    if not low and not any(_needs_between_casts(v) for v in _results(model)):
        return model
    copy = copy_model(model)
    types = _inferred_types(copy) if low else {}
    names = _names(copy)
    # Decided for all of them first, since barriers part Casts.
    chosen = [v for v in _results(copy) if _needs_barrier(v, types, low=low)]
    for value in chosen:
        _add_barrier(value, names)
    for graph in (copy.graph, *(function.graph for function in copy.functions.values())):
        if chosen and "" not in graph.opset_imports:
            graph.opset_imports[""] = copy.opset_imports.get("", _NEWEST_OPSET)
    return copy


def _results(model: ir.Model) -> Iterator[ir.Value]:
    """Yield the results of nodes that some node reads; Constants have none."""
    for node in all_nodes(model):
        if node.op_identifier() != ("", "Constant", ""):
            yield from (v for v in node.outputs if v.name and v.uses())


def _needs_barrier(value: ir.Value, types: _Types, *, low: bool) -> bool:
    if not low:
        return _needs_between_casts(value)
    if value.dtype is not None:
        return value.dtype in LOW or _needs_between_casts(value)
    if value.type is not None or _is_no_tensor(value):
        return False
    found = types.get(str(value.name))
    return not found or bool(found & LOW) or _needs_between_casts(value)


def _is_no_tensor(value: ir.Value) -> bool:
    producer = value.producer()
    operator = "" if producer is None else producer.op_type
    return "Sequence" in operator or operator == "Optional"


def _needs_between_casts(value: ir.Value) -> bool:
    """Whether a value is a Cast that may lose digits, and another Cast reads it."""
    producer = value.producer()
    if producer is None or not _is_cast(producer):
        return False
    if not any(_is_cast(usage.node) for usage in value.uses()):
        return False
    source = producer.inputs[0]
    before, after = None if source is None else source.dtype, _target(producer)
    if before is None or after is None:
        return True
    if ir.DataType.STRING in (before, after):
        return False
    if before.is_integer() and after.is_floating_point() and before.bitwidth == 64:
        return True
    return not np.can_cast(before.numpy(), after.numpy(), "safe")


def _is_cast(node: ir.Node) -> bool:
    return node.op_identifier() == ("", "Cast", "")


def _target(cast: ir.Node) -> ir.DataType | None:
    attribute = cast.attributes.get("to")
    if attribute is None or attribute.is_ref():
        return None
    return ir.DataType(attribute.as_int())


def _has_low_values(model: ir.Model) -> bool:
    """Whether a value below float32 can occur: declared, in a tensor, or by an attribute."""
    return (
        any(value.dtype in LOW for value in _values(model))
        or any(tensor.dtype in LOW for tensor in all_tensors(model))
        or any(_names_low_type(node) for node in all_nodes(model))
    )


def _values(model: ir.Model) -> Iterator[ir.Value]:
    for graph in all_graphs(model):
        yield from itertools.chain(graph.inputs, graph.outputs)
        for node in graph:
            yield from node.outputs


def _names_low_type(node: ir.Node) -> bool:
    # The attribute of a function's call may have any name.
    every = node.domain not in ("", "ai.onnx")
    for attribute in node.attributes.values():
        if attribute.type != ir.AttributeType.INT:
            continue
        if attribute.is_ref():
            if attribute.name in _TYPE_ATTRIBUTES:
                return True
        elif every or attribute.name in _TYPE_ATTRIBUTES:
            number = attribute.as_int()
            if any(number == dtype.value for dtype in LOW):
                return True
    return False


def _inferred_types(model: ir.Model) -> _Types:
    """Return the types that onnx infers, by name; names of nested graphs may coincide."""
    if all(v.dtype is not None for v in _results(model)):
        return {}
    try:
        proto = onnx.shape_inference.infer_shapes(split_weights(model).proto)
    except (onnx.shape_inference.InferenceError, ir.serde.SerdeError, OSError, ValueError):
        return {}
    found: _Types = {}
    pending = [proto.graph]
    while pending:
        graph = pending.pop()
        _collect(graph.value_info, found)
        for node in graph.node:
            for attribute in node.attribute:
                pending += [attribute.g, *attribute.graphs]
    return found


def _collect(infos: Iterable[onnx.ValueInfoProto], found: _Types) -> None:
    for info in infos:
        number = info.type.tensor_type.elem_type
        if number:
            found.setdefault(info.name, set()).add(ir.DataType(number))


def _names(model: ir.Model) -> set[str]:
    names = {str(node.name) for node in all_nodes(model)}
    names |= {str(value.name) for value in _values(model)}
    for graph in all_graphs(model):
        names |= set(graph.initializers)
    return names


def _add_barrier(value: ir.Value, names: set[str]) -> None:
    producer = value.producer()
    assert producer is not None, "only results of nodes have barriers"
    assert producer.graph is not None, "the walk yields nodes of graphs"
    readers = list(value.uses())
    chain: list[ir.Node] = []
    end = value
    for _ in range(_LENGTH):
        name = _new_name(str(value.name), names)
        made = ir.Value(name=name, type=value.type, shape=value.shape)
        chain.append(ir.Node("", "Identity", [end], outputs=[made], name=name))
        end = made
    for reader, index in readers:
        reader.replace_input_with(index, end)
    producer.graph.insert_after(producer, chain)


def _new_name(base: str, names: set[str]) -> str:
    candidates = (f"{base}_barrier{number}" for number in itertools.count())
    name = next(candidate for candidate in candidates if candidate not in names)
    names.add(name)
    return name
