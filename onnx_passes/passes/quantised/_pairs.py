"""QuantizeLinear and DequantizeLinear as one quantiser."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.quantised._attributes import Quantiser
from onnx_passes.passes.quantised._grids import NARROW, is_integer_type, range_of

STANDARD = ("", "QuantizeLinear")
"""The quantiser of the standard, by domain and name."""

_BEYOND = 64
"""Steps of a quantiser to fewer bits than 8 beyond which it saturates."""


@dataclass(frozen=True)
class QdqPair:
    """A QuantizeLinear and the DequantizeLinear that reads it, with a Clip between or not.

    Attributes:
        nodes: The nodes in order.
        quantiser: What they do together; scale and zero point are in the shape in which they
            are broadcast.
        axis: The axis along which the scale differs, from the front; None for one scale.
    """

    nodes: tuple[ir.Node, ...]
    quantiser: Quantiser
    axis: int | None

    @property
    def source(self) -> ir.Value | None:
        """What is quantised."""
        return self.nodes[0].inputs[0]


def pair_of(node: ir.Node | None) -> QdqPair | None:
    """Read the pair that a DequantizeLinear ends; None for other nodes and computed scales."""
    if node is None or (node.domain, node.op_type) != ("", "DequantizeLinear"):
        return None
    nodes = [node]
    for kinds in (("Clip", "QuantizeLinear"), ("QuantizeLinear",)):
        value = nodes[0].inputs[0]
        before = None if value is None else value.producer()
        if before is None or before.domain != "" or before.op_type not in kinds:
            return None
        nodes.insert(0, before)
        if before.op_type == "QuantizeLinear":
            break
    first, x = nodes[0], nodes[0].inputs[0]
    if any(attribute.is_ref() for n in nodes for attribute in n.attributes.values()):
        return None
    known = grid_of(node, None if x is None else x.shape)
    other = grid_of(first, None if x is None else x.shape)
    if known is None or other is None or known.axis != other.axis or not _same(known, other):
        return None
    low, high = _bounds(nodes, known.dtype)
    quantiser = Quantiser(node, known.scale, known.zero, low, high, "ROUND", False)
    return QdqPair(tuple(nodes), quantiser, known.axis) if low <= high else None


@dataclass(frozen=True)
class PairGrid:
    """Constant scale and zero point of a QuantizeLinear or DequantizeLinear.

    Attributes:
        scale: The scale, float32, in the shape in which it is broadcast.
        zero: The zero point, float32 of the same shape.
        dtype: Type of the integers.
        axis: The axis along which the scale differs, from the front; None for one scale.
    """

    scale: Array
    zero: Array
    dtype: ir.DataType
    axis: int | None


def grid_of(node: ir.Node, shape: ir.Shape | None) -> PairGrid | None:
    """Read scale and zero point of a node; None if one is computed, or the scale is odd.

    Args:
        node: The QuantizeLinear or DequantizeLinear.
        shape: Shape of its operand, if it is known.
    """
    scale = constant_of(node.inputs[1])
    zero = constant_of(node.inputs[2]) if len(node.inputs) > 2 else None
    if scale is None or scale.dtype != ir.DataType.FLOAT:
        return None
    if node.attributes.get_int("block_size", 0) or node.attributes.get_int("output_dtype", 0):
        return None
    scales = scale.numpy()
    if not scales.size or not (np.isfinite(scales) & (scales > 0)).all():
        return None
    zeros = np.zeros_like(scales) if zero is None else zero.numpy().astype(np.float32)
    dtype: ir.DataType | None = ir.DataType.UINT8
    if zero is not None:
        dtype = zero.dtype
    elif len(node.inputs) > 2 and node.inputs[2] is not None:
        return None  # it is computed
    elif node.op_type == "DequantizeLinear":
        dtype = None if node.inputs[0] is None else node.inputs[0].dtype
    if dtype is None or not (is_integer_type(dtype) or dtype == ir.DataType.INT32):
        return None
    if scales.size == zeros.size == 1:
        return PairGrid(scales.reshape(()), zeros.reshape(()), dtype, None)
    axis = node.attributes.get_int("axis", 1) or 0
    if scales.ndim != 1 or zeros.shape != scales.shape or shape is None:
        return None
    if not -len(shape) <= axis < len(shape):
        return None
    wide = [1] * len(shape)
    wide[axis] = scales.size
    return PairGrid(scales.reshape(wide), zeros.reshape(wide), dtype, axis % len(shape))


def bounding(node: ir.Node, proto: onnx.NodeProto) -> list[onnx.NodeProto]:
    """Return nodes that keep large numbers from a quantiser to few bits, which reads them.

    Of numbers that no int32 holds, ONNX Runtime makes its least level.

    Args:
        node: The quantiser.
        proto: The same node in the protobuf, whose input is renamed.
    """
    if node.op_type != "QuantizeLinear" or node.outputs[0].dtype not in NARROW:
        return []
    scale = constant_of(node.inputs[1])
    if scale is None:
        return []
    end = np.float32(_BEYOND) * scale.numpy().max()
    ends = [
        onnx.helper.make_node("Constant", [], [f"{proto.input[0]}_{place}"], value_float=value)
        for place, value in (("least", float(-end)), ("most", float(end)))
    ]
    inside = f"{proto.input[0]}_inside"
    names = [proto.input[0], *(made.output[0] for made in ends)]
    proto.input[0] = inside
    return [*ends, onnx.helper.make_node("Clip", names, [inside])]


def _bounds(nodes: list[ir.Node], dtype: ir.DataType) -> tuple[float, float]:
    """Return the least and greatest level; the first is above if a bound is computed."""
    whole = range_of(dtype)
    low, high = float(whole.low), float(whole.high)
    if len(nodes) == 3:
        for place, value in enumerate(nodes[1].inputs[1:]):
            tensor = constant_of(value)
            if value is None:
                continue
            if tensor is None or tensor.size != 1:
                return 1.0, 0.0
            end = float(tensor.numpy().reshape(()))
            low, high = (low, min(high, end)) if place else (max(low, end), high)
    return low, high


def _same(one: PairGrid, other: PairGrid) -> bool:
    same = np.array_equal(one.scale, other.scale) and np.array_equal(one.zero, other.zero)
    return same and one.dtype == other.dtype


__all__ = ["STANDARD", "PairGrid", "QdqPair", "bounding", "grid_of", "pair_of"]
