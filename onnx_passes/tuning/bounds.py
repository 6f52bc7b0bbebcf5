"""Bounds of what a format of integers does to a product, that no input in a range exceeds.

A bound holds for each element of the product, for every input whose elements lie within the
recorded range. It follows from the integers that are stored: weights are off by a known
amount, and computed values by at most a step. Nothing is sampled.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.convolution import Conv
from onnx_passes.ops.integer_products import MatMulInteger
from onnx_passes.ops.quantization import DequantizeLinear, QuantizeLinear
from onnx_passes.runtime.base import Array
from onnx_passes.tuning.audit import Ranges, find_layer
from onnx_passes.tuning.groups import weight_of
from onnx_passes.tuning.stored import stored_weight
from onnx_passes.verify.node_equality import constant_tensor

_UNIT = 2.0**-24
"""Unit roundoff of float32."""


def product_bound(after: ir.Model, node: ir.Node, ranges: Ranges) -> float | None:
    """Return the largest error that any element of a product can have.

    The rounding of sums in float32 is part of it; the rounding of the result to a grid, or of
    what follows, is not.

    Args:
        after: The model, or a part of it, in which the node has another format.
        node: The node of the original; its weight is constant.
        ranges: Recorded ranges of values of the original.

    Returns:
        The bound; None where the format is not one of integers, or the node is not a product
        of one computed operand with a matrix of weights.
    """
    index = weight_of(node)
    value = node.inputs[index] if index is not None else None
    tensor = constant_tensor(value) if value is not None else None
    data = node.inputs[0]
    if index != 1 or tensor is None or data is None or str(data.name) not in ranges:
        return None
    values = {str(v.name): v for n in after.graph for v in n.outputs if v.name}
    layer = find_layer(values.get(str(node.outputs[0].name)), node)
    stored = None if layer is None else stored_weight(layer, node, index)
    if layer is None or stored is None or not stored.dtype.is_integer():
        return None
    low, high = ranges[str(data.name)]
    step = _data_error(layer, low, high)
    if step is None:
        return None
    size = max(abs(low), abs(high))
    old, new = tensor.numpy(), stored.values
    axes = _summed(node, old)
    if axes is None or new.shape != old.shape:
        return None
    count = int(np.prod([old.shape[axis] for axis in axes]))
    rounding = 2 * (count + 4) * _UNIT / (1 - 2 * (count + 4) * _UNIT)
    weights = _size(new, axes)
    moved = _size(np.subtract(new, old, dtype=np.float64), axes)
    bound = moved * size + weights * step
    bound += rounding * (weights * (size + step) + _size(old, axes) * size)
    bias = _bias_error(layer, node)
    return float(np.max(bound + bias, initial=0.0))


def _size(array: Array, axes: tuple[int, ...]) -> Array:
    """Return sums of absolute values, in float64."""
    return np.asarray(np.abs(array).sum(axis=axes, dtype=np.float64))


def _summed(node: ir.Node, weight: Array) -> tuple[int, ...] | None:
    """Return the axes of a weight that are summed over."""
    if "transB" in node.attributes or weight.ndim == 2:
        return (1,) if node.attributes.get_int("transB", 0) else (0,)
    # A filter: channels of the output come first. Of a stack of matrices, rows are summed.
    filtered = node.op_type == Conv.op_type
    return tuple(range(1, weight.ndim)) if filtered else (-2,)


def _data_error(layer: ir.Node, low: float, high: float) -> float | None:
    """Return how far a computed operand within a range is off; 0 if it is not rounded."""
    if layer.op_type == MatMulInteger.op_type:
        # The scale is that of the values at hand, and the zero point is rounded.
        return (max(high, 0.0) - min(low, 0.0)) / 255
    source = layer.inputs[0].producer() if layer.inputs[0] is not None else None
    if source is None or source.op_type != DequantizeLinear.op_type:
        return 0.0
    first = source.inputs[0].producer() if source.inputs[0] is not None else None
    if first is None or first.op_type != QuantizeLinear.op_type:
        return None
    scale, zero = (
        None if v is None else constant_tensor(v) for v in (*first.inputs, None)[1:3]
    )
    if scale is None or zero is None or scale.size != 1:
        return None
    step, start = float(scale.numpy().item()), float(zero.numpy().astype(float).item())
    least, most = float(int(zero.dtype.min)), float(int(zero.dtype.max))
    beyond = max(0.0, (least - start) * step - low, high - (most - start) * step)
    # The quotient is rounded to float32 before it is rounded to an integer.
    return step / 2 * (1 + 2.0**-10) + beyond


def _bias_error(layer: ir.Node, node: ir.Node) -> Array:
    """Return how far a bias is off."""
    old = node.inputs[2] if len(node.inputs) > 2 else None
    new = layer.inputs[2] if len(layer.inputs) > 2 else None
    expected = constant_tensor(old) if old is not None else None
    if expected is None or new is None or layer.op_type != node.op_type:
        return np.zeros(())
    producer = new.producer()
    if producer is None or producer.op_type != DequantizeLinear.op_type:
        return np.zeros(())
    levels, scale = (None if v is None else constant_tensor(v) for v in producer.inputs[:2])
    if levels is None or scale is None:
        return np.full((), np.inf)
    found = levels.numpy().astype(np.float64) * scale.numpy().astype(np.float64)
    return np.asarray(np.abs(found - expected.numpy()))
