"""Large weights: protobufs of models without them, and temporary files for new ones."""

from collections.abc import Iterable
from functools import cached_property
from typing import TypeGuard

import onnx
import onnx_ir as ir

from onnx_passes.model.save import TensorFile
from onnx_passes.model.tensor_bytes import byte_count
from onnx_passes.model.walk import tensors_replaced

LARGEST_KEPT = 1024
"""Tensors up to this many bytes stay in: shapes are computed from them."""


def light_proto(model: ir.Model) -> onnx.ModelProto:
    """Serialise a model for inference of shapes; big tensors refer to a file that is missing.

    Initializers that are inputs too are left out: nothing can be concluded from a default that
    the caller may override.
    """
    with tensors_replaced(model, lambda tensor, _: stub(tensor) if is_big(tensor) else tensor):
        proto = ir.to_proto(model)
    if model.ir_version >= 4:
        inputs = {value.name for value in proto.graph.input}
        constants = [t for t in proto.graph.initializer if t.name not in inputs]
        del proto.graph.initializer[:]
        proto.graph.initializer.extend(constants)
    return proto


def weightless_proto(model: ir.Model) -> onnx.ModelProto:
    """Serialise a model that can be loaded; big weights of the main graph become inputs."""
    weights = {v: t for v in model.graph.initializers.values() if is_big(t := v.const_value)}
    try:
        for value, tensor in weights.items():
            value.const_value = stub(tensor)
        proto = ir.to_proto(model)
    finally:
        for value, tensor in weights.items():
            value.const_value = tensor
    graph = proto.graph
    given = {value.name for value in graph.input}
    held = []
    for tensor in graph.initializer:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            held.append(tensor)
        elif tensor.name not in given:
            graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
    del graph.initializer[:]
    graph.initializer.extend(held)
    return proto


def is_big(tensor: ir.TensorProtocol | None) -> TypeGuard[ir.TensorProtocol]:
    """Whether a tensor is left out."""
    if tensor is None or tensor.dtype is ir.DataType.STRING:
        return False
    return byte_count(tensor) > LARGEST_KEPT


def stub(tensor: ir.TensorProtocol) -> ir.ExternalTensor:
    """Return what replaces a tensor that is left out."""
    return ir.ExternalTensor(
        "not-serialised",
        0,
        tensor.nbytes,
        tensor.dtype,
        shape=ir.Shape(tensor.shape.numpy()),
        name=tensor.name or "",
    )


SMALL = 1 << 16
"""Bytes below which a constant stays in memory."""


class Scratch:
    """Constants that a pass makes, in memory or in a file from which engines map them.

    They go to a file if a large weight of the model is in one: then all of them may not fit
    into memory. The file is gone with the last of its tensors. The model is looked at when the
    first large constant is made; ``always`` uses a file in any case.
    """

    def __init__(self, model: ir.Model, *, always: bool = False) -> None:
        self._model, self._always = model, always
        self._file: TensorFile | None = None

    @cached_property
    def _active(self) -> bool:
        return self._always or any(
            isinstance(value.const_value, ir.ExternalTensor)
            and value.const_value.nbytes >= SMALL
            for value in self._model.graph.initializers.values()
        )

    def keep(self, tensor: ir.TensorProtocol) -> ir.TensorProtocol:
        """Return a tensor that holds no memory, if constants go to a file.

        A small tensor is returned as it is, and any if the temporary folder has no room.
        """
        if tensor.nbytes < SMALL or not self._active:
            return tensor
        try:
            self._file = self._file or TensorFile()
            return self._file.append(tensor)
        except OSError:
            self._active = False
            return tensor

    def keep_constants(self, nodes: Iterable[ir.Node]) -> None:
        """Let Constant nodes hold no memory, if constants go to a file.

        A tensor that is in a file stays there.
        """
        for node in nodes:
            held = node.attributes.get("value") if node.op_type == "Constant" else None
            if held is None or held.is_ref() or held.type is not ir.AttributeType.TENSOR:
                continue
            tensor = held.as_tensor()
            if tensor.dtype is ir.DataType.STRING or isinstance(tensor, ir.ExternalTensor):
                continue
            if (kept := self.keep(tensor)) is not tensor:
                node.attributes["value"] = ir.AttrTensor("value", kept)
