"""A binary model written weight by weight, to the bytes that protobuf would write.

Protobuf holds a message in memory whole, and what it is written to beside it: writing takes
two to three times the weights. Here it writes a model whose large weights are empty, and they
are put in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.errors import ModelError
from onnx_passes.model.apart import GRAPH, INITIALIZER, RAW_DATA, SMALL
from onnx_passes.model.contents import all_graphs
from onnx_passes.model.formats import LIMIT
from onnx_passes.model.render import render
from onnx_passes.model.slots import Choice
from onnx_passes.model.tensor_bytes import ListedTensor, chunks
from onnx_passes.model.wire import fields, head

Left = Mapping[str, ir.TensorProtocol]
"""Tensors that were left empty, by the names of their initializers."""

Parts = list[bytes | ir.TensorProtocol]

_KINDS = (ir.Tensor, ir.PackedTensor, ir.ExternalTensor)


def emptied(model: ir.Model, choose: Choice) -> tuple[Choice, Left]:
    """Leave the large initializers of a model empty.

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

    def choice(tensor: ir.TensorProtocol, initializer: bool) -> ir.TensorProtocol:
        if initializer and id(tensor) in known:
            return _empty(tensor)
        return choose(tensor, initializer)

    return choice, left


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
    lean = render(model, "binary", where)
    names = [tensor.name for tensor in model.graph.initializer]
    parts: Parts = []
    for field in fields(lean, 0, len(lean)):
        if field.number == GRAPH:
            parts += _graph(lean, field.content, field.end, names, left)
        else:
            parts.append(lean[field.start : field.end])
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


def _graph(lean: bytes, start: int, end: int, names: list[str], left: Left) -> Parts:
    parts: Parts = []
    place = 0
    for field in fields(lean, start, end):
        if field.number != INITIALIZER:
            continue
        tensor = left.get(names[place])
        place += 1
        if tensor is not None:
            parts.append(lean[start : field.start])
            parts += _tensor(lean, field.content, field.end, tensor)
            start = field.end
    parts.append(lean[start:end])
    return [head(GRAPH, _size(parts)), *parts]


def _tensor(lean: bytes, start: int, end: int, tensor: ir.TensorProtocol) -> Parts:
    raw = next(field for field in fields(lean, start, end) if field.number == RAW_DATA)
    before = lean[start : raw.start] + head(RAW_DATA, tensor.nbytes)
    parts: Parts = [before, tensor, lean[raw.end : end]]
    return [head(INITIALIZER, _size(parts)), *parts]


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
