"""What a DequantizeLinear of constants computes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.precision._grid import Grid, dequantise


def dequantise_node(node: ir.Node) -> Array | None:
    """Return the result of a DequantizeLinear; None if it is computed or not float32."""
    levels, scale, *rest = (constant_of(value) for value in node.inputs)
    if levels is None or scale is None or scale.dtype is not ir.DataType.FLOAT:
        return None
    if rest and rest[0] is None:
        return None
    array, factors = levels.numpy(), scale.numpy()
    zero = rest[0].numpy() if rest and rest[0] is not None else np.zeros(factors.shape)
    block = node.attributes.get_int("block_size", 0) or 0
    axis = (node.attributes.get_int("axis", 1) or 0) % max(1, array.ndim)
    grid = Grid(factors, zero, axis if factors.ndim else None, block)
    if factors.size == 1 and not block:
        grid = Grid(factors.reshape(()), zero.reshape(()))
    return dequantise(array, grid)
