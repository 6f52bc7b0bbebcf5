"""What rules may conclude from shapes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.passes._support.tensors import constant_of

INT_MAX = 2**31 - 1
"""From here on, an end of a Slice means "to the end"."""

Dim = int | str | None


def dims_of(value: ir.Value | None) -> list[Dim] | None:
    """Return the dimensions of a value: sizes, names, or None for an unknown one.

    Two dimensions of one name are equal: shape-inference has seen to that.
    """
    if value is None or value.shape is None:
        return None
    return [dim if isinstance(dim, int) else dim.value for dim in value.shape]


def sizes_of(value: ir.Value | None) -> list[int] | None:
    """Return the dimensions of a value, if all are numbers."""
    dims = dims_of(value)
    if dims is None:
        return None
    sizes = [dim for dim in dims if isinstance(dim, int)]
    return sizes if len(sizes) == len(dims) else None


def ints_of(value: ir.Value | None) -> list[int] | None:
    """Return the elements of a constant of integers, of rank 0 or 1."""
    tensor = constant_of(value)
    if tensor is None or len(tensor.shape) > 1 or not tensor.dtype.is_integer():
        return None
    return [int(number) for number in np.atleast_1d(tensor.numpy())]


def widens(value: ir.Value | None, other: ir.Value | None) -> bool:
    """Whether broadcasting with ``other`` may give a value another shape than its own.

    Args:
        value: The value; None for an input that is left out.
        other: The other operand.
    """
    mine, theirs = dims_of(value), dims_of(other)
    if theirs is None:
        tensor = constant_of(other)
        theirs = None if tensor is None else [int(d) for d in tensor.shape.numpy()]
    if theirs == []:
        return False
    if mine is None or theirs is None or len(theirs) > len(mine):
        return True
    pairs = zip(reversed(mine), reversed(theirs), strict=False)
    return any(b != 1 and (b is None or a != b) for a, b in pairs)


def is_shape_of(shape: ir.Value | None, value: ir.Value | None) -> bool:
    """Whether ``shape`` is computed as the whole shape of ``value``.

    Args:
        shape: What may be a shape.
        value: The value.
    """
    node = shape.producer() if shape is not None else None
    return (
        node is not None
        and (node.domain, node.op_type) == ("", "Shape")
        and not node.attributes
        and node.inputs[0] is value
        and value is not None
    )
