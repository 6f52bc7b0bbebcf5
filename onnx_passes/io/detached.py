"""A model in two parts, its graph and its tensors, that go together again exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.errors import ModelError
from onnx_passes.io.blobs import Blobs
from onnx_passes.io.contents import all_tensors
from onnx_passes.io.load import deserialize
from onnx_passes.io.slots import fill, replaced
from onnx_passes.io.tensors import array_buffer, tensor_buffer

Row = dict[str, Any]
"""How one tensor is kept, as plain data."""


def detach(model: ir.Model) -> tuple[bytes, list[ir.TensorProtocol]]:
    """Serialise a model without the content of its tensors.

    Returns:
        The graph, in which each tensor is external and named by its position; and the tensors,
        each once.

    Raises:
        ModelError: The model cannot be written as ONNX.
    """
    tensors = list(all_tensors(model))
    places = {id(tensor): index for index, tensor in enumerate(tensors)}

    def stand_in(tensor: ir.TensorProtocol, initializer: bool) -> ir.TensorProtocol:
        shape = ir.Shape(tensor.shape.numpy())
        place = str(places[id(tensor)])
        # The length of external data may be left out, and a string has none.
        # Nor is its name: tensors are shared, and names are all that changes about them.
        return ir.ExternalTensor(place, None, None, tensor.dtype, shape=shape, name="")

    try:
        with replaced(model, stand_in):
            proto = ir.to_proto(model)
    except (ir.serde.SerdeError, ValueError, TypeError) as error:
        raise ModelError(f"the model cannot be written: {error}") from error
    return proto.SerializeToString(deterministic=True), tensors


def attach(graph: bytes, tensors: Sequence[ir.TensorProtocol]) -> ir.Model:
    """Put a graph that :func:`detach` wrote and its tensors together.

    Raises:
        ModelError: They do not fit.
    """
    try:
        model = deserialize(onnx.ModelProto.FromString(graph))
    except Exception as error:
        raise ModelError(f"the graph cannot be read: {error}") from error

    def real(tensor: ir.TensorProtocol, initializer: bool) -> ir.TensorProtocol:
        if not isinstance(tensor, ir.ExternalTensor):
            raise ModelError("the graph holds a tensor of its own")
        found = tensors[int(str(tensor.location))]
        if found.dtype != tensor.dtype or found.shape.numpy() != tensor.shape.numpy():
            raise ModelError(f"tensor {tensor.location} is not the one that the graph names")
        return found

    fill(model, real)
    return model


def keep(tensor: ir.TensorProtocol, blobs: Blobs) -> Row:
    """Write a tensor's content to a store, and return what :func:`fetch` reads it back by.

    Raises:
        ModelError: The content cannot be read, or belongs to a file that is not kept.
        OSError: It cannot be written.
    """
    if isinstance(tensor, ir.ExternalTensor):
        raise ModelError(f"tensor {tensor.name!r} lies in a file that a pass has named")
    row: Row = {
        "dtype": int(tensor.dtype),
        "shape": list(tensor.shape.numpy()),
        **remarks(tensor),
    }
    if tensor.dtype == ir.DataType.STRING or isinstance(tensor, ir.TensorProtoTensor):
        # Protobufs may list their elements, and are written again as they are.
        proto = ir.serde.serialize_tensor(tensor)
        return {**row, "form": "proto", "blob": blobs.put(proto.SerializeToString())}
    if tensor.dtype.bitwidth < 8 and not isinstance(tensor, ir.Tensor):
        return {**row, "form": "packed", "blob": blobs.put(tensor_buffer(tensor))}
    return {**row, "form": "array", "blob": blobs.put(array_buffer(tensor.numpy()))}


def fetch(row: Row, blobs: Blobs) -> ir.TensorProtocol:
    """Return a tensor that :func:`keep` wrote.

    Raises:
        ModelError: Its content is gone, or is not what was written.
    """
    data = blobs.get(row["blob"])
    dtype, shape = ir.DataType(row["dtype"]), ir.Shape(row["shape"])
    tensor: ir.TensorProtocol
    if row["form"] == "proto":
        proto = onnx.TensorProto.FromString(data)
        tensor = ir.TensorProtoTensor(proto)
        if dtype == ir.DataType.STRING:
            tensor = ir.StringTensor(tuple(proto.string_data), shape=shape)
    elif row["form"] == "packed":
        tensor = ir.PackedTensor(np.frombuffer(data, np.uint8), dtype, shape=shape)
    else:
        array = np.frombuffer(data, np.uint8).view(dtype.numpy()).reshape(row["shape"])
        tensor = ir.Tensor(array, dtype=dtype)
    remark(tensor, row)
    return tensor


def remarks(tensor: ir.TensorProtocol) -> Row:
    """Return what is said about a tensor, and may be changed."""
    return {
        "name": tensor.name,
        "doc_string": tensor.doc_string,
        "metadata": dict(tensor.metadata_props),
    }


def remark(tensor: ir.TensorProtocol, row: Row) -> None:
    """Say about a tensor what :func:`remarks` has found."""
    if remarks(tensor) != {key: row[key] for key in ("name", "doc_string", "metadata")}:
        tensor.name, tensor.doc_string = row["name"], row["doc_string"]
        tensor.metadata_props.clear()
        tensor.metadata_props.update(row["metadata"])
