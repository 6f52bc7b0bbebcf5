"""Large weights: protobufs of models without them, and temporary files for new ones."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TypeVar

import onnx
import onnx_ir as ir

from onnx_passes.model.save import TensorFile
from onnx_passes.model.tensor_bytes import byte_count
from onnx_passes.model.walk import all_graphs

LARGEST_KEPT = 1024
"""Tensors up to this many bytes stay in: shapes are computed from them."""

ResultT = TypeVar("ResultT")


def light_proto(
    model: ir.Model, *, overridable: bool = True, main_graph_only: bool = False
) -> onnx.ModelProto:
    """Serialise a model; big tensors are left as references to a file that does not exist.

    Without ``overridable``, initializers that are inputs too are left out: nothing can be
    concluded from a default that the caller may override. With ``main_graph_only``, tensors in
    subgraphs and attributes stay.
    """
    with _weights_hidden(model, main_graph_only=main_graph_only):
        proto = ir.to_proto(model)
    if not overridable and model.ir_version >= 4:
        inputs = {value.name for value in proto.graph.input}
        constants = [t for t in proto.graph.initializer if t.name not in inputs]
        del proto.graph.initializer[:]
        proto.graph.initializer.extend(constants)
    return proto


@contextmanager
def _weights_hidden(model: ir.Model, *, main_graph_only: bool) -> Iterator[None]:
    restore: list[Callable[[], None]] = []
    try:
        for graph in [model.graph] if main_graph_only else all_graphs(model):
            for value in graph.initializers.values():
                if is_big(value.const_value):
                    _hide_initializer(value, restore)
            for node in () if main_graph_only else graph:
                attribute = node.attributes.get("value")
                if attribute is not None and is_big(_tensor_in(attribute)):
                    _hide_attribute(node, attribute, restore)
        yield
    finally:
        for undo in restore:
            undo()


def _hide_initializer(value: ir.Value, restore: list[Callable[[], None]]) -> None:
    tensor = value.const_value
    assert tensor is not None, "the caller looks"

    def undo() -> None:
        value.const_value = tensor

    restore.append(undo)
    value.const_value = stub(tensor, value.name)


def _hide_attribute(
    node: ir.Node, attribute: ir.Attr, restore: list[Callable[[], None]]
) -> None:
    def undo() -> None:
        node.attributes[attribute.name] = attribute

    restore.append(undo)
    tensor = attribute.as_tensor()
    node.attributes[attribute.name] = ir.AttrTensor(attribute.name, stub(tensor, tensor.name))


def _tensor_in(attribute: ir.Attr) -> ir.TensorProtocol | None:
    if attribute.is_ref() or attribute.type is not ir.AttributeType.TENSOR:
        return None
    return attribute.as_tensor()


def is_big(tensor: ir.TensorProtocol | None) -> bool:
    """Whether a tensor is left out."""
    if tensor is None or tensor.dtype is ir.DataType.STRING:
        return False
    return byte_count(tensor) > LARGEST_KEPT


def stub(tensor: ir.TensorProtocol, name: str | None) -> ir.ExternalTensor:
    """Return what replaces a tensor that is left out."""
    return ir.ExternalTensor(
        "not-serialised",
        0,
        tensor.nbytes,
        tensor.dtype,
        shape=ir.Shape(tensor.shape.numpy()),
        name=name or "",
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
