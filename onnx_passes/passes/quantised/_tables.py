"""Reading and making weighted thresholds."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops.bodies.operator_bodies import CUSTOM
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.base import Op, Value
from onnx_passes.passes.streamline._terms import constant


def table_of(thresholds: Value, weights: Value) -> tuple[Array, Array] | None:
    """Return constant thresholds and weights, broadcast to one shape; None if computed.

    Args:
        thresholds: Thresholds, [..., steps].
        weights: Weights of a shape that broadcasts with them.

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


def turns_of(thresholds: Value, weights: Value) -> Array | None:
    """Return where thresholds begin to go the other way.

    Args:
        thresholds: Thresholds, [..., steps].
        weights: Weights of a shape that broadcasts with them.

    Returns:
        float32 ``[turns, ...]``, infinite for a turn that a channel does not have; no turns if
        all weights of a channel have one sign. None if something is computed or NaN.
    """
    found = table_of(thresholds, weights)
    if found is None or np.isnan(found[0]).any():
        return None
    order = np.argsort(found[0], axis=-1, kind="stable")
    places, signs = (np.take_along_axis(part, order, -1) for part in found)
    rows = []
    for row, sign in zip(
        places.reshape(-1, places.shape[-1]),
        np.sign(signs).reshape(-1, places.shape[-1]),
        strict=True,
    ):
        row, sign = row[sign != 0], sign[sign != 0]
        rows.append(row[1:][sign[1:] != sign[:-1]])
    most = max(map(len, rows))
    turns = np.full((len(rows), most), np.inf, np.float32)
    for row, target in zip(rows, turns, strict=True):
        target[: len(row)] = row
    return np.moveaxis(turns.reshape(*places.shape[:-1], most), -1, 0)


def multi_threshold(op: Op, x: Value, thresholds: Array, weights: Array) -> Value:
    """Make a MultiThreshold of our own domain; weights that repeat become one number.

    Args:
        op: Builds nodes.
        x: The value.
        thresholds: float32 of [..., steps].
        weights: float32 of a shape that broadcasts with the thresholds.
    """
    single = weights.size and (weights == weights.flat[0]).all()
    weights = weights.reshape(-1)[0] if single else weights
    made: Value = op.MultiThreshold(
        x, constant(op, thresholds), constant(op, weights), _domain=CUSTOM
    )
    return made
