"""A binary model written weight by weight, to the bytes that protobuf would write.

Protobuf holds a message in memory whole, and what it is written to beside it: writing takes
two to three times the weights. Here it writes a model whose large weights are empty, and they
are put in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.errors import ModelError
from onnx_passes.model.apart import GRAPH, INITIALIZER, RAW_DATA, SMALL
from onnx_passes.model.contents import all_graphs, attribute_tensors
from onnx_passes.model.fields import node_attributes, nodes_of
from onnx_passes.model.formats import LIMIT
from onnx_passes.model.render import render
from onnx_passes.model.slots import Choice
from onnx_passes.model.tensor_bytes import ListedTensor, chunks
from onnx_passes.model.wire import Field, fields, head

Left = Mapping[str, ir.TensorProtocol]
"""Tensors that were left empty, by the names of their initializers and Constant nodes."""

Parts = list[bytes | ir.TensorProtocol]

_NODE = 1
_PATHS = {INITIALIZER: (RAW_DATA,), _NODE: (5, 5, RAW_DATA)}
"""Fields of a graph, with those that lead to a tensor's content: attribute, and its tensor."""

_KINDS = (ir.Tensor, ir.PackedTensor, ir.ExternalTensor)


def emptied(model: ir.Model, choose: Choice) -> tuple[Choice, Left]:
    """Leave the large initializers of a model empty, and those of Constant nodes.

    Args:
        model: The model.
        choose: What is to be written for each tensor. What it makes external is not large.

    Returns:
        What to write at first, and what belongs into the empty ones.
    """
    inner = {
        id(value.const_value)
        for graph in all_graphs(model)
        if graph is not model.graph
        for value in graph.initializers.values()
    }
    left: dict[str, ir.TensorProtocol] = {}
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if not isinstance(tensor, _KINDS) or isinstance(tensor, ListedTensor):
            continue
        if tensor.dtype == ir.DataType.STRING:
            continue
        # A tensor is chosen for wherever it is used, and only those of the graph are filled.
        if tensor.nbytes < SMALL or id(tensor) in inner or value.name is None:
            continue
        if not isinstance(choose(tensor, True), ir.ExternalTensor):
            left[value.name] = tensor
    known = {id(tensor) for tensor in left.values()}
    held = _in_constants(model, choose)
    alone = {id(tensor) for tensor in held.values()}

    def choice(tensor: ir.TensorProtocol, initializer: bool) -> ir.TensorProtocol:
        if id(tensor) in (known if initializer else alone):
            return _empty(tensor)
        return choose(tensor, initializer)

    return choice, {**left, **held}


def _in_constants(model: ir.Model, choose: Choice) -> dict[str, ir.TensorProtocol]:
    """Return the large tensors that one Constant node of the main graph has, by its output."""
    found: dict[str, ir.TensorProtocol] = {}
    places: Counter[int] = Counter()
    for graph in all_graphs(model):
        for node in filter(node_attributes, nodes_of(graph)):
            for tensor in attribute_tensors(node.attributes):
                places[id(tensor)] += 1
                if graph is model.graph and node.op_type == "Constant":
                    found[str(node.outputs[0].name)] = tensor
    return {
        name: tensor
        for name, tensor in found.items()
        if isinstance(tensor, _KINDS)
        and not isinstance(tensor, ListedTensor)
        and tensor.dtype != ir.DataType.STRING
        and tensor.nbytes >= SMALL
        and places[id(tensor)] == 1
        and not isinstance(choose(tensor, False), ir.ExternalTensor)
    }


def _empty(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    return ir.LazyTensor(
        lambda: ir.Tensor(np.empty(0, np.uint8)),
        dtype=tensor.dtype,
        shape=ir.Shape(tensor.shape.numpy()),
        cache=False,
        name=tensor.name,
        doc_string=tensor.doc_string,
        metadata_props=dict(tensor.metadata_props),
    )


def stream(model: onnx.ModelProto, left: Left, where: str) -> Iterator[bytes | memoryview]:
    """Yield a binary model piece by piece, always the same bytes.

    Args:
        model: The model; initializers that are left have ``raw_data`` without a content.
        left: Their contents.
        where: The file, for errors.

    Raises:
        ModelError: The model is too large for protobuf, or a tensor cannot be read.
    """
    parts = _parts(model, left, where)
    size = _size(parts)
    if size > LIMIT:
        raise ModelError(
            f"the model has {size} bytes, more than the {LIMIT} that protobuf can read",
            where=where,
            help="save it as .onnx with external data",
        )
    for part in parts:
        if isinstance(part, bytes):
            yield part
        else:
            yield from _content(part)


def count_bytes(model: onnx.ModelProto, left: Left) -> int:
    """Return the bytes that :func:`stream` yields, with no weight read and no limit."""
    return _size(_parts(model, left, "model"))


def _parts(model: onnx.ModelProto, left: Left, where: str) -> Parts:
    lean = render(model, "binary", where)
    names = {
        INITIALIZER: [tensor.name for tensor in model.graph.initializer],
        _NODE: [node.output[0] if node.output else "" for node in model.graph.node],
    }
    parts: Parts = []
    for field in fields(lean, 0, len(lean)):
        if field.number == GRAPH:
            parts += _graph(lean, field.content, field.end, names, left)
        else:
            parts.append(lean[field.start : field.end])
    return parts


def _graph(
    lean: bytes, start: int, end: int, names: Mapping[int, list[str]], left: Left
) -> Parts:
    parts: Parts = []
    places = {number: iter(known) for number, known in names.items()}
    for field in fields(lean, start, end):
        if field.number not in places:
            continue
        tensor = left.get(next(places[field.number]))
        if tensor is not None:
            parts.append(lean[start : field.start])
            parts += _filled(lean, field, _PATHS[field.number], tensor)
            start = field.end
    parts.append(lean[start:end])
    return [head(GRAPH, _size(parts)), *parts]


def _filled(
    lean: bytes, field: Field, path: tuple[int, ...], tensor: ir.TensorProtocol
) -> Parts:
    """Return a field with the content of a tensor at the end of a path of inner fields."""
    if not path:
        return [head(field.number, tensor.nbytes), tensor]
    inside = fields(lean, field.content, field.end)
    inner = next(each for each in inside if each.number == path[0])
    parts: Parts = [
        lean[field.content : inner.start],
        *_filled(lean, inner, path[1:], tensor),
        lean[inner.end : field.end],
    ]
    return [head(field.number, _size(parts)), *parts]


def _size(parts: Parts) -> int:
    return sum(len(part) if isinstance(part, bytes) else part.nbytes for part in parts)


def _content(tensor: ir.TensorProtocol) -> Iterator[bytes | memoryview]:
    size = 0
    for chunk in chunks(tensor):
        size += len(chunk)
        yield chunk
    if size != tensor.nbytes:
        raise ModelError(
            f"tensor {tensor.name!r} has {size} bytes, but its type and shape take "
            f"{tensor.nbytes}",
            help="check what the last pass put into the model",
        )
