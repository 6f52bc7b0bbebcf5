"""The places of a model that hold tensors, and other tensors in them for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager

import onnx_ir as ir

from onnx_passes.io.contents import all_graphs

Choice = Callable[[ir.TensorProtocol, bool], ir.TensorProtocol]
"""What to put in place of a tensor, which may be itself, and whether it is an initializer."""


@contextmanager
def replaced(model: ir.Model, choose: Choice) -> Iterator[None]:
    """Put other tensors in a model's initializers and attributes until the block ends.

    Names of tensors are put back too, because onnx-ir sets them when it serialises.
    """
    values = [v for graph in all_graphs(model) for v in graph.initializers.values()]
    holders: list[MutableMapping[str, ir.Attr]] = [
        node.attributes for graph in all_graphs(model) for node in graph if node.attributes
    ]
    holders += [function.attributes for function in model.functions.values()]
    before = [(v, t, t.name) for v in values if (t := v.const_value) is not None]
    swapped: list[tuple[MutableMapping[str, ir.Attr], ir.Attr]] = []
    try:
        for value, tensor, _ in before:
            value.const_value = choose(tensor, True)
        for holder in holders:
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
    if attribute.is_ref() or attribute.value is None:
        return attribute
    note = attribute.doc_string
    if attribute.type == ir.AttributeType.TENSOR:
        tensor = attribute.as_tensor()
        chosen = choose(tensor, False)
        if chosen is not tensor:
            return ir.AttrTensor(attribute.name, chosen, doc_string=note)
    elif attribute.type == ir.AttributeType.TENSORS:
        tensors = attribute.as_tensors()
        found = [choose(tensor, False) for tensor in tensors]
        if any(a is not b for a, b in zip(found, tensors, strict=True)):
            return ir.AttrTensors(attribute.name, found, doc_string=note)
    return attribute
