"""Reading and making weighted thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.bodies.domains import CUSTOM
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.base import Op, Value

Array = np.ndarray[Any, np.dtype[Any]]


def table_of(thresholds: Value, weights: Value) -> tuple[Array, Array] | None:
    """Return constant thresholds and weights, broadcast to one shape; None if computed.

    Returns:
        Two arrays ``[..., steps]`` of float32.
    """
    found = [constant_of(value) for value in (thresholds, weights)]
    arrays = [t.numpy() for t in found if t is not None and t.dtype == ir.DataType.FLOAT]
    if len(arrays) != 2 or arrays[0].ndim < 1 or arrays[0].size == 0:
        return None
    try:
        first, second = np.broadcast_arrays(*arrays)
    except ValueError:
        return None
    return first, second


def multi_threshold(op: Op, x: Value, thresholds: Array, weights: Array) -> Value:
    """Make a MultiThreshold of our own domain; weights that repeat become one number."""
    single = weights.size and (weights == weights.flat[0]).all()
    weights = weights.reshape(-1)[0] if single else weights
    made: Value = op.MultiThreshold(
        x, number(op, thresholds), number(op, weights), _domain=CUSTOM
    )
    return made


def number(op: Op, array: Any) -> Value:
    """Make a constant of float32."""
    made: Value = op.Constant(value=ir.tensor(np.array(array, np.float32)))
    return made
