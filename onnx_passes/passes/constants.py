"""Constants of a graph: which values always hold the same tensor, and that tensor.

An initializer that is also an input of the graph is only a default, and not a constant.
"""

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array


def is_constant(value: ir.Value | None) -> bool:
    """Whether ``value`` always holds the same tensor.

    An initializer that is also a graph input is only a default the caller may override.
    """
    return (
        value is not None
        and not value.is_graph_input()
        and ir.convenience.get_const_tensor(value) is not None
    )


def constant(value: ir.Value) -> Array:
    """Return the tensor a constant ``value`` holds.

    Raises:
        ValueError: ``value`` is not a constant.
    """
    tensor = ir.convenience.get_const_tensor(value)
    if tensor is None or value.is_graph_input():
        raise ValueError(f"{value.name!r} is not a constant")
    return tensor.numpy()


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


def numbers_of(value: ir.Value | None) -> Array | None:
    """Return the elements of a constant; None for text and for any other value."""
    tensor = constant_of(value)
    return None if tensor is None or tensor.dtype is ir.DataType.STRING else tensor.numpy()
