"""What values were scaled by in front of a layer, read off a model alone."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops.convolution import Conv
from onnx_passes.ops.elementwise import Mul
from onnx_passes.ops.quantization import DequantizeLinear, QuantizeLinear
from onnx_passes.verify.node_equality import constant_tensor

_QUANTISERS = (DequantizeLinear.op_type, QuantizeLinear.op_type, "DynamicQuantizeLinear")


def read_scales(layer: ir.Node, node: ir.Node, shape: tuple[int, ...]) -> Array:
    """Return what the values that a layer reads were scaled by, to broadcast with its weight.

    Read off the constants that scale them: a Mul in front, or a normalisation whose constants
    differ from those of the original.

    Args:
        layer: The layer.
        node: The node of the original.
        shape: Shape of its weight.
    """
    first, old = layer.inputs[0], node.inputs[0]
    value = None if first is None else _before_quantisers(first)
    producer = value.producer() if value is not None else None
    source = old.producer() if old is not None else None
    factors = np.ones(1)
    if producer is not None and producer.op_type == Mul.op_type and value is not None:
        known = [constant_tensor(v) for v in producer.inputs if v is not None]
        read = [_before_quantisers(v).name for v in producer.inputs if v is not None]
        if old is not None and old.name in read and any(t is not None for t in known):
            factors = next(t for t in known if t is not None).numpy()
    if factors.size == 1 and producer is not None and source is not None:
        factors = _ratio(producer, source)
    full = [1] * len(shape)
    if factors.size > 1:
        if factors.size != shape[_depth(node)]:
            return np.ones(full)  # of something else: the weight is held as it is
        full[_depth(node)] = -1
    return factors.astype(np.float64).reshape(full)


def _before_quantisers(value: ir.Value) -> ir.Value:
    """Return the value that a pair of quantisers rounds; the value itself if none does."""
    for kind in _QUANTISERS:
        producer = value.producer()
        if (
            producer is not None
            and producer.op_type == kind
            and producer.inputs[0] is not None
        ):
            value = producer.inputs[0]
    return value


def _depth(node: ir.Node) -> int:
    """Return the axis of a weight that is summed over."""
    filtered = node.op_type == Conv.op_type
    return 1 if filtered or node.attributes.get_int("transB", False) else -2


def _ratio(new: ir.Node, old: ir.Node) -> Array:
    """Return by which factors the constants of a normalisation or product changed."""
    for ours, theirs in zip(new.inputs, old.inputs, strict=False):
        pair = [constant_tensor(v) if v is not None else None for v in (ours, theirs)]
        if pair[0] is None or pair[1] is None or pair[0].shape != pair[1].shape:
            continue
        if pair[0].dtype is not ir.DataType.FLOAT:
            continue  # sizes of a Reshape, say
        first, second = (tensor.numpy().astype(np.float64) for tensor in pair if tensor)
        if first.size > 1 and (second != 0).all():
            return np.asarray(first / second).reshape(-1)
    return np.ones(1)
