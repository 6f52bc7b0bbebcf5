"""The places that hold a model's tensors, and other tensors there, for good or a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Literal

import onnx_ir as ir

from onnx_passes.model.contents import all_graphs
from onnx_passes.model.fields import attribute_type, node_attributes, nodes_of
from onnx_passes.model.tensor_bytes import immutable, lists_elements

_TENSORS = (ir.AttributeType.TENSOR, ir.AttributeType.TENSORS)

Choice = Callable[[ir.TensorProtocol, bool], ir.TensorProtocol]
"""What to put in place of a tensor, which may be itself, and whether it is an initializer."""


def make_immutable(model: ir.Model, *, layout: Literal["any", "same"]) -> bool:
    """Put tensors that nobody can write to in place of others, in a model for good.

    Args:
        model: The model, changed in place.
        layout: ``same`` leaves tensors alone whose protobufs list their elements, since
            others are written as raw bytes. Their arrays are copies in any case.

    Returns:
        Whether any tensor was replaced.

    Raises:
        ModelError: The data of a tensor cannot be read.
    """
    made: dict[int, tuple[ir.TensorProtocol, ir.TensorProtocol]] = {}

    def choose(tensor: ir.TensorProtocol, initializer: bool) -> ir.TensorProtocol:
        # What is shared stays shared. The key's tensor is kept, so that ids stay unique.
        known = made.get(id(tensor))
        if known is None:
            left = layout == "same" and lists_elements(tensor)
            known = made[id(tensor)] = (tensor, tensor if left else immutable(tensor))
        return known[1]

    fill(model, choose)
    return any(old is not new for old, new in made.values())


def fill(model: ir.Model, choose: Choice) -> None:
    """Put other tensors in a model's initializers and attributes for good.

    Args:
        model: The model; it is changed.
        choose: Gets a tensor and whether it is an initializer, and returns the tensor to hold.
    """
    for graph in all_graphs(model):
        for value in graph.initializers.values():
            tensor = value.const_value
            if tensor is not None and (chosen := choose(tensor, True)) is not tensor:
                value.const_value = chosen
    for holder in _holders(model):
        for name, attribute in [*holder.items()]:
            other = _with_tensors(attribute, choose)
            if other is not attribute:
                holder[name] = other


def _holders(model: ir.Model) -> list[MutableMapping[str, ir.Attr]]:
    holders: list[MutableMapping[str, ir.Attr]] = [
        node.attributes
        for graph in all_graphs(model)
        for node in nodes_of(graph)
        if node_attributes(node)
    ]
    return holders + [function.attributes for function in model.functions.values()]


@contextmanager
def replaced(model: ir.Model, choose: Choice) -> Iterator[None]:
    """Put other tensors in a model's initializers and attributes until the block ends.

    Names of tensors are put back too, because onnx-ir sets them when it serialises.

    Args:
        model: The model.
        choose: Gets a tensor and whether it is an initializer, and returns the tensor to hold.
    """
    values = [v for graph in all_graphs(model) for v in graph.initializers.values()]
    before = [(v, t, t.name) for v in values if (t := v.const_value) is not None]
    swapped: list[tuple[MutableMapping[str, ir.Attr], ir.Attr]] = []
    try:
        for value, tensor, _ in before:
            value.const_value = choose(tensor, True)
        for holder in _holders(model):
            for name, attribute in list(holder.items()):
                other = _with_tensors(attribute, choose)
                if other is not attribute:
                    swapped.append((holder, attribute))
                    holder[name] = other
        yield
    finally:
        for holder, attribute in swapped:
            holder[attribute.name] = attribute
        for value, tensor, tensor_name in before:
            value.const_value = tensor
            if tensor.name != tensor_name:
                tensor.name = tensor_name


def _with_tensors(attribute: ir.Attr, choose: Choice) -> ir.Attr:
    kind = attribute_type(attribute)
    if kind not in _TENSORS or attribute.is_ref() or attribute.value is None:
        return attribute  # as nearly all of them
    note = attribute.doc_string
    if kind == ir.AttributeType.TENSOR:
        tensor = attribute.value
        chosen = choose(tensor, False)
        if chosen is not tensor:
            return ir.AttrTensor(attribute.name, chosen, doc_string=note)
        return attribute
    tensors = attribute.value
    found = [choose(tensor, False) for tensor in tensors]
    if any(a is not b for a, b in zip(found, tensors, strict=True)):
        return ir.AttrTensors(attribute.name, found, doc_string=note)
    return attribute
