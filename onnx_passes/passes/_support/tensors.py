"""Tensors that a model holds."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir


def constant_tensor(node: ir.Node) -> ir.TensorProtocol | None:
    """Return what a Constant node holds; None for other nodes and for sparse values.

    In a function the value may refer to an attribute of the function: None too.
    """
    if (node.domain, node.op_type) != ("", "Constant") or len(node.attributes) != 1:
        return None
    (attribute,) = node.attributes.values()
    if attribute.is_ref():
        return None
    match attribute.name:
        case "value":
            tensor = attribute.as_tensor()
        case "value_int" | "value_ints":
            tensor = ir.Tensor(np.array(attribute.value, dtype=np.int64))
        case "value_float" | "value_floats":
            tensor = ir.Tensor(np.array(attribute.value, dtype=np.float32))
        case "value_string":
            tensor = ir.StringTensor([attribute.as_string().encode()], shape=ir.Shape([]))
        case "value_strings":
            strings = [text.encode() for text in attribute.as_strings()]
            tensor = ir.StringTensor(strings, shape=ir.Shape([len(strings)]))
        case _:
            return None
    return tensor


def constant_of(value: ir.Value | None) -> ir.TensorProtocol | None:
    """Return the tensor that a value always holds, None if there is none.

    An initializer that is also an input is only a default that the caller may override. A
    tensor noted on a value that is not an initializer is not believed: it may be stale.
    """
    if value is None or value.is_graph_input():
        return None
    if value.is_initializer():
        return value.const_value
    producer = value.producer()
    return constant_tensor(producer) if producer is not None else None
