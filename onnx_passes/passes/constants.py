"""Reading constants out of a graph."""

from __future__ import annotations

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
