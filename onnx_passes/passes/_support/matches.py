"""What rules ask of the values and nodes that their pattern has matched."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array, FloatLimits, float_limits
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.base import MatchContext

FLOATS = (
    ir.DataType.FLOAT16,
    ir.DataType.BFLOAT16,
    ir.DataType.FLOAT,
    ir.DataType.DOUBLE,
)
"""The types that linear layers compute in."""


def node_of(value: ir.Value) -> ir.Node:
    """Return the node that computes a value, as the pattern says that one does."""
    node = value.producer()
    assert node is not None, "the pattern has matched a node"
    return node


def read_once(value: ir.Value) -> bool:
    """Whether one input of one node is all that reads a value."""
    return len(value.uses()) == 1 and not value.is_graph_output()


def opset_at(context: MatchContext) -> int:
    """Return the opset of the main domain at a match; 0 where functions leave it unclear.

    A graph inside of a function has the opset of the function, which may differ from that of
    the model; the match does not say whose graph it is in.
    """
    model, place = context.model, context.graph_or_function
    imports = place.opset_imports if isinstance(place, ir.Function) else model.opset_imports
    if not isinstance(place, ir.Function) and place is not model.graph:
        functions = [f.opset_imports.get("", 0) for f in model.functions.values()]
        if {*functions} - {imports.get("", 0)}:
            return 0
    return int(imports.get("", 0))


def wide(value: ir.Value | None) -> Array | None:
    """Return a constant of floats in double precision, None for anything else."""
    tensor = constant_of(value)
    if tensor is None or tensor.dtype not in FLOATS:
        return None
    return tensor.numpy().astype(np.float64)


def narrowed(array: Array, dtype: ir.DataType) -> Array | None:
    """Return numbers in a type of lower precision, None where they leave its range.

    Range here means that nothing becomes infinite, and nothing but zero becomes so small
    that digits are lost.

    Args:
        array: Numbers of any shape, in a wider type.
        dtype: The type of lower precision.
    """
    info = float_info(dtype)
    with np.errstate(all="ignore"):
        sizes = np.abs(array)
        fits = np.isfinite(array) & (sizes <= float(info.max))
        fits &= (sizes >= float(info.tiny)) | (array == 0)
        return array.astype(dtype.numpy()) if fits.all() else None


def float_info(dtype: ir.DataType) -> FloatLimits:
    """Return the limits of a type of floats, bfloat16 too."""
    return float_limits(dtype.numpy())


def scalar_of(value: ir.Value | None) -> float | None:
    """Return the one number that a constant of floats holds, whatever its rank."""
    array = wide(value)
    return float(array.reshape(-1)[0]) if array is not None and array.size == 1 else None
