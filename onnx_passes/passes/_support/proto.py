"""Models as protobuf without their weights, for the parts of onnx that take nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import onnx
import onnx_ir as ir

from onnx_passes.model.tensor_bytes import byte_count
from onnx_passes.model.walk import all_graphs

SMALL = 1024
"""Tensors up to this many bytes stay in: shapes are computed from them."""

ResultT = TypeVar("ResultT")


def light_proto(
    model: ir.Model, *, overridable: bool = True, main_graph_only: bool = False
) -> onnx.ModelProto:
    """Serialise a model; big tensors are left as references to a file that does not exist.

    Args:
        model: Any model; as before when this returns.
        overridable: Whether initializers that are also inputs stay; without them nothing can
            be concluded from a default that the caller may override.
        main_graph_only: Whether to leave out initializers of the main graph only, and keep
            tensors in subgraphs and attributes.
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
    return byte_count(tensor) > SMALL


def stub(tensor: ir.TensorProtocol, name: str | None) -> ir.ExternalTensor:
    """Return what replaces a tensor that is left out.

    Args:
        tensor: The tensor.
        name: Its name; None for none.
    """
    return ir.ExternalTensor(
        "not-serialised",
        0,
        tensor.nbytes,
        tensor.dtype,
        shape=ir.Shape(tensor.shape.numpy()),
        name=name or "",
    )
