"""The weight of a layer, computed from what a model stores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops.elementwise import Cast, Mul
from onnx_passes.ops.quantization import DequantizeLinear, MatMulInteger
from onnx_passes.passes.precision.quantize_weights import BY_INT8
from onnx_passes.verify.node_equality import constant_tensor

PACKED = "MatMulNBits"
"""A product of ONNX Runtime with packed integers."""
_UNIT = {
    ir.DataType.FLOAT16: (2.0**-10, 2.0**-24),
    ir.DataType.BFLOAT16: (2.0**-7, 2.0**-133),
    ir.DataType.FLOAT8E4M3FN: (2.0**-3, 2.0**-9),
    ir.DataType.FLOAT8E5M2: (2.0**-2, 2.0**-16),
}
"""Relative spacing of numbers and smallest number."""


EIGHTHS = (ir.DataType.FLOAT8E4M3FN, ir.DataType.FLOAT8E5M2)
"""Types of eight bits that are not integers."""
_WIDE_BITS = 16


def multiplies_integers(layer: ir.Node) -> bool:
    """Whether a product with packed integers rounds what it reads to integers of 8 bits.

    Args:
        layer: A MatMulNBits.
    """
    return layer.attributes.get_int("accuracy_level", 0) == BY_INT8


@dataclass(frozen=True)
class StoredWeight:
    """A weight.

    Attributes:
        dtype: Type that is stored.
        values: The numbers that the layer computes with, in the layout of the original.
        step: Distance of neighbouring numbers at each element; broadcasts with ``values``.
        slack: By how many steps a number may be off.
    """

    dtype: ir.DataType
    values: Array
    step: Array
    slack: float = 0.5


def read_stored_weight(layer: ir.Node, original: ir.Node, index: int) -> StoredWeight | None:
    """Return the weight that a layer reads; None if it is stored in no way that is known.

    Args:
        layer: The node that computes the product.
        original: The node of the original.
        index: Number of the input of the original that is its weight.
    """
    if layer.op_type == PACKED:
        return _unpack(layer)
    value = layer.inputs[1 if layer.op_type == MatMulInteger.op_type else index]
    if value is None:
        return None
    tensor = constant_tensor(value)
    if layer.op_type == MatMulInteger.op_type:
        return _of_product(layer, tensor, original)
    if tensor is not None:
        return _plain(tensor)
    producer = value.producer()
    if producer is not None and producer.op_type == Cast.op_type:
        tensor = constant_tensor(producer.inputs[0]) if producer.inputs[0] else None
        return _eighth(tensor, 1.0) if tensor is not None and tensor.dtype in EIGHTHS else None
    if producer is None or producer.op_type != DequantizeLinear.op_type:
        return None
    return _dequantise(producer)


def _plain(tensor: ir.TensorProtocol) -> StoredWeight:
    array = tensor.numpy()
    # Numbers of at most 32 bits are exact in float32. A layer may be large: no wider copies.
    values = array.astype(np.float32 if array.dtype.itemsize <= 4 else np.float64, copy=False)
    if tensor.dtype not in _UNIT:
        # float32 may hold numbers that were rounded to 16 bits.
        exact = not np.array_equal(array.astype(ir.DataType.BFLOAT16.numpy()), array)
        step = np.zeros(()) if exact else np.abs(values) * 2.0**-7
        return StoredWeight(tensor.dtype, values, step)
    relative, least = _UNIT[tensor.dtype]
    return StoredWeight(tensor.dtype, values, np.abs(values) * relative * 1.01 + least)


def _eighth(tensor: ir.TensorProtocol, scale: Array | float) -> StoredWeight:
    """Return numbers of float8 times scales, which broadcast."""
    values = tensor.numpy().astype(np.float64) * scale
    relative, least = _UNIT[tensor.dtype]
    size = np.broadcast_to(scale, values.shape)
    return StoredWeight(tensor.dtype, values, np.abs(values) * relative * 1.01 + least * size)


def _dequantise(node: ir.Node) -> StoredWeight | None:
    levels, scale, zero = (
        None if value is None else constant_tensor(value)
        for value in (*node.inputs, None, None)[:3]
    )
    if levels is None or scale is None:
        return None
    if levels.dtype in EIGHTHS:
        factors = scale.numpy().astype(np.float64)
        if factors.ndim:
            full = [1] * len(levels.shape)
            full[node.attributes.get_int("axis", 1)] = -1
            factors = factors.reshape(full)
        return _eighth(levels, factors)
    # In float32, a product is off by a share of a step that counts from 16 bits on only.
    wide = np.float64 if levels.dtype.bitwidth >= _WIDE_BITS else np.float32
    values: Array = levels.numpy().astype(wide)
    step: Array = scale.numpy().astype(wide)
    origin = np.zeros(step.shape, np.int32) if zero is None else zero.numpy().astype(np.int32)
    axis = node.attributes.get_int("axis", 1) or 0
    block = node.attributes.get_int("block_size", 0) or 0
    if step.ndim == 1 and not block:
        full = [1] * values.ndim
        full[axis] = -1
        if step.size not in (1, values.shape[axis]):
            return None
        step, origin = step.reshape(full), origin.reshape(full)
    elif block:
        size = values.shape[axis]
        step = step.repeat(block, axis).take(range(size), axis)
        origin = origin.repeat(block, axis).take(range(size), axis)
    np.subtract(values, origin, out=values, casting="same_kind")
    np.multiply(values, step, out=values)
    return StoredWeight(levels.dtype, values, step, _slack(levels.dtype, origin))


def _slack(dtype: ir.DataType, origin: Array) -> float:
    """Return by how many steps a number may be off: the zero point is rounded as well."""
    middle = 0 if dtype.is_signed() else (int(dtype.max) + 1) // 2
    return 0.5 if (origin == middle).all() else 1.0


def _of_product(
    layer: ir.Node, tensor: ir.TensorProtocol | None, original: ir.Node
) -> StoredWeight | None:
    """Return the weight of a product of integers, whose scale is multiplied in behind it."""
    zero = layer.inputs[3] if len(layer.inputs) > 3 else None
    scale = _scale_behind(layer)
    if tensor is None or scale is None:
        return None
    integers, origin = tensor.numpy().astype(np.int64), np.zeros((), np.int64)
    if zero is not None:
        known = constant_tensor(zero)
        if known is None:
            return None
        origin = known.numpy().astype(np.int64)
    step = scale.astype(np.float64)
    if step.ndim and step.size not in (1, integers.shape[-1]):
        return None
    values = (integers - origin) * step
    step = np.broadcast_to(step, values.shape)
    if original.attributes.get_int("transB", 0):
        values, step = values.T, step.T
    return StoredWeight(tensor.dtype, values, step, _slack(tensor.dtype, origin))


def _scale_behind(layer: ir.Node) -> Array | None:
    """Return the constant among the scales that a sum of integers is multiplied by."""
    data = layer.inputs[0].producer() if layer.inputs[0] is not None else None
    for cast in layer.outputs[0].consumers():
        for product in cast.outputs[0].consumers() if cast.op_type == Cast.op_type else ():
            for value in product.inputs if product.op_type == Mul.op_type else ():
                both = value.producer() if value is not None else None
                if both is None or both.op_type != Mul.op_type:
                    continue
                dynamic = [v for v in both.inputs if v is not None and v.producer() is data]
                constants = [
                    t for v in both.inputs if v is not None and (t := constant_tensor(v))
                ]
                if dynamic and constants:
                    return constants[0].numpy()
    return None


def _unpack(layer: ir.Node) -> StoredWeight | None:
    names = ("K", "N", "bits", "block_size")
    depth, columns, bits, block = (layer.attributes.get_int(n, 0) or 0 for n in names)
    inputs = [None if v is None else constant_tensor(v) for v in layer.inputs]
    if len(inputs) < 3 or inputs[1] is None or inputs[2] is None or bits not in (4, 8):
        return None
    blocks = -(-depth // block)
    levels = _unpack_bits(inputs[1].numpy().reshape(columns, -1), bits).astype(np.int64)
    step = inputs[2].numpy().astype(np.float64).reshape(columns, blocks)
    origin = np.full((columns, blocks), 1 << (bits - 1), np.int64)
    zeros = inputs[3] if len(inputs) > 3 else None
    if zeros is not None:
        packed = _unpack_bits(zeros.numpy().reshape(columns, -1), bits)
        origin = packed[:, :blocks].astype(np.int64)
    step = step.repeat(block, 1)[:, :depth]
    origin = origin.repeat(block, 1)[:, :depth]
    values = (levels[:, :depth] - origin) * step
    dtype = ir.DataType.UINT4 if bits == 4 else ir.DataType.UINT8
    return StoredWeight(dtype, values.T, step.T, _slack(dtype, origin))


def _unpack_bits(data: Array, bits: int) -> Array:
    if bits == 8:
        return data
    return np.stack([data & 15, data >> 4], axis=-1).reshape(len(data), -1)
