"""Bounds of what a format of integers does to a product, that no input in a range exceeds.

A bound holds for each element of the product, for every input whose elements lie within the
recorded range. It follows from the numbers that are stored: weights are off by a known
amount, and computed values by at most a step, or a share in 16 bits. Nothing is sampled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops.convolution import Conv
from onnx_passes.ops.elementwise import Cast
from onnx_passes.ops.quantization import DequantizeLinear, MatMulInteger, QuantizeLinear
from onnx_passes.tuning.audit import Ranges, find_layer
from onnx_passes.tuning.groups import weight_of
from onnx_passes.tuning.smoothing_scales import read_scales
from onnx_passes.tuning.stored_weights import PACKED, multiplies_integers, read_stored_weight
from onnx_passes.verify.node_equality import constant_tensor

Channels: TypeAlias = tuple[Array, Array]
"""The least and greatest element of each channel, each of shape [channels]."""
_UNIT = 2.0**-24
"""Unit roundoff of float32."""
_HALVES = {
    ir.DataType.FLOAT16: (2.0**-11, 2.0**-25),
    ir.DataType.BFLOAT16: (2.0**-8, 2.0**-134),
}
"""Unit roundoff of types of 16 bits, and half of their least number."""
_LARGEST = {ir.DataType.FLOAT16: 65504.0, ir.DataType.BFLOAT16: 3.38e38}
"""Their greatest finite numbers."""


def product_bound(
    after: ir.Model,
    node: ir.Node,
    ranges: Ranges,
    channels: Callable[[str], Channels | None] = lambda name: None,
) -> float | None:
    """Return the largest error that any element of a product can have.

    The rounding of sums in float32 is part of it; the rounding of the result to a grid, or of
    what follows, is not. A product in 16 bits is taken to sum in float32, as ONNX Runtime on
    x86 and tensor cores do. The rounding of its result to 16 bits is part of the bound.

    Args:
        after: The model, or a part of it, in which the node has another format.
        node: The node of the original; its weight is constant.
        ranges: Recorded ranges of values of the original.
        channels: Returns the recorded range of each channel of a value. A bound of a layer
            whose values are scaled by channel holds for inputs within these.

    Returns:
        The bound; None if the format has none, the node is not a product of one computed
        operand with a matrix of weights, or the result may overflow.
    """
    index = weight_of(node)
    value = node.inputs[index] if index is not None else None
    tensor = constant_tensor(value) if value is not None else None
    data = node.inputs[0]
    if index != 1 or tensor is None or data is None or str(data.name) not in ranges:
        return None
    values = {str(v.name): v for n in after.graph.all_nodes() for v in n.outputs if v.name}
    layer = find_layer(values.get(str(node.outputs[0].name)), node)
    stored = None if layer is None else read_stored_weight(layer, node, index)
    if layer is None or stored is None:
        return None
    old, new = tensor.numpy(), stored.values
    axes = _sum_axes(node, old)
    if axes is None or new.shape != old.shape:
        return None
    low, high = (np.asarray(end, np.float64) for end in ranges[str(data.name)])
    factors = read_scales(layer, node, old.shape)
    scaled = bool((factors != 1).any())
    if scaled:
        found = channels(str(data.name))
        if found is None or any(end.size != factors.size for end in found):
            return None
        low, high = (end.astype(np.float64).reshape(factors.shape) for end in found)
    half = _half_of(layer)
    if half is not None:
        step = np.asarray(
            _rounding_error(np.maximum(np.abs(low), np.abs(high)) * factors, half)
        )
    elif stored.dtype.is_integer() or stored.dtype in _HALVES:
        error = _data_error(layer, low * factors, high * factors)
        if error is None:
            return None
        step = error
    else:
        return None
    size = np.maximum(np.abs(low), np.abs(high))
    count = int(np.prod([old.shape[axis] for axis in axes]))
    rounding = 2 * (count + 4) * _UNIT / (1 - 2 * (count + 4) * _UNIT)
    if scaled:
        rounding += 2 * _UNIT  # of the scaling itself, if scales are not powers of two
    # Differences of float32 are rounded to float32.
    moved = np.subtract(new * factors if scaled else new, old)
    bound = _size(moved, axes, size) * (1 + 4 * _UNIT) + _size(new, axes, step)
    reach = _size(new, axes, size * factors + step)
    bound += rounding * (reach + _size(old, axes, size))
    bound = bound + _bias_error(layer, node)
    if half is not None:
        reach = reach * (1 + rounding) + _bias_size(node)
        if np.max(reach, initial=0.0) > _LARGEST[half]:
            return None
        # The bias is rounded, and what is computed: once with it, and once before.
        bound = (
            bound + 2 * _rounding_error(reach, half) + _rounding_error(_bias_size(node), half)
        )
    return float(np.max(bound, initial=0.0))


def _half_of(layer: ir.Node) -> ir.DataType | None:
    """Return the type of 16 bits that the operand of a layer has, or was rounded to."""
    value = layer.inputs[0]
    for _ in range(2):
        if value is None or value.dtype in _HALVES:
            return None if value is None else value.dtype
        producer = value.producer()
        if producer is None or producer.op_type != Cast.op_type:
            return None
        value = producer.inputs[0]
    return None


def _rounding_error(size: Array, half: ir.DataType) -> Array:
    """Return how far numbers of at most some size are off in a type of 16 bits."""
    unit, least = _HALVES[half]
    return np.asarray(size * unit + least)


def _size(array: Array, axes: tuple[int, ...], weights: Array) -> Array:
    """Return sums of absolute values, each times a weight that broadcasts, in float64."""
    if weights.size == 1:
        total = np.abs(array).sum(axis=axes, dtype=np.float64)
        return np.asarray(total * float(weights.reshape(-1)[0]))
    return np.asarray((np.abs(array) * weights).sum(axis=axes, dtype=np.float64))


def _sum_axes(node: ir.Node, weight: Array) -> tuple[int, ...] | None:
    """Return the axes of a weight that are summed over."""
    if "transB" in node.attributes or weight.ndim == 2:
        return (1,) if node.attributes.get_int("transB", 0) else (0,)
    # A filter: channels of the output come first. Of a stack of matrices, rows are summed.
    filtered = node.op_type == Conv.op_type
    return tuple(range(1, weight.ndim)) if filtered else (-2,)


def _data_error(layer: ir.Node, low: Array, high: Array) -> Array | None:
    """Return how far a computed operand within ranges is off; 0 if it is not rounded."""
    wide = max(float(high.max()), 0.0) - min(float(low.min()), 0.0)
    if layer.op_type == MatMulInteger.op_type:
        # The scale is that of the values at hand, and the zero point is rounded.
        return np.asarray(wide / 255)
    if layer.op_type == PACKED and multiplies_integers(layer):
        # Rounded by blocks, from -127 to 127 or between the ends, by kernels of their own.
        most = 2 * max(float(high.max()), -float(low.min()))
        return np.asarray(max(wide, most) / 254 * (1 + 2.0**-10))
    source = layer.inputs[0].producer() if layer.inputs[0] is not None else None
    if source is None or source.op_type != DequantizeLinear.op_type:
        return np.zeros(())
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
    beyond = np.maximum((least - start) * step - low, high - (most - start) * step)
    # The quotient is rounded to float32 before it is rounded to an integer.
    return np.asarray(step / 2 * (1 + 2.0**-10) + np.maximum(beyond, 0.0))


def _bias_size(node: ir.Node) -> Array:
    """Return the sizes of a constant bias; zero without one."""
    value = node.inputs[2] if len(node.inputs) > 2 else None
    tensor = constant_tensor(value) if value is not None else None
    return np.zeros(()) if tensor is None else np.abs(tensor.numpy().astype(np.float64))


def _bias_error(layer: ir.Node, node: ir.Node) -> Array:
    """Return how far a bias is off."""
    old = node.inputs[2] if len(node.inputs) > 2 else None
    new = layer.inputs[2] if len(layer.inputs) > 2 else None
    expected = constant_tensor(old) if old is not None else None
    if new is None or layer.op_type != node.op_type or (old is not None and expected is None):
        return np.zeros(())
    known = 0.0 if expected is None else expected.numpy().astype(np.float64)
    changed = constant_tensor(new)
    if changed is not None:
        return np.asarray(np.abs(changed.numpy().astype(np.float64) - known))
    producer = new.producer()
    if producer is None or producer.op_type != DequantizeLinear.op_type:
        return np.zeros(())
    levels, scale = (None if v is None else constant_tensor(v) for v in producer.inputs[:2])
    if levels is None or scale is None:
        return np.full((), np.inf)
    found = levels.numpy().astype(np.float64) * scale.numpy().astype(np.float64)
    return np.asarray(np.abs(found - known))
