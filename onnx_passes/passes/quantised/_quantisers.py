"""Quantisers and weighted thresholds, as passes read and make them.

A pair of QuantizeLinear and DequantizeLinear counts as one quantiser.
"""

from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops.bodies.operator_bodies import CUSTOM, QONNX_ALIASES
from onnx_passes.passes.base import Op, Value
from onnx_passes.passes.common.rules import TermCall, call
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.streamline._rule_constants import constant

DOMAINS = (*QONNX_ALIASES, CUSTOM)

_TRUNC_2_OPERANDS = 5

_CALLS = (
    *((k, d) for d in QONNX_ALIASES for k in ("Quant", "IntQuant", "BipolarQuant")),
    ("Quant", CUSTOM),
)
"""Quantisers by name and domain."""


def quantisers(*names: str) -> list[TermCall]:
    """Return quantisers as expressions of as many of some operands as they have, for ``y``."""
    return [
        call(k, *names[: 2 if k == "BipolarQuant" else 4], result="y", domain=d)
        for k, d in _CALLS
    ]


@dataclass(frozen=True)
class Quantiser:
    """An IntQuant, BipolarQuant or Trunc (version 2) whose parameters are constants.

    Levels are from ``low`` to ``high``; if ``bipolar``, -1 and 1 with nothing between.
    ``mode`` is in capital letters.
    """

    node: ir.Node
    scale: Array
    zero: Array
    low: float
    high: float
    mode: str
    bipolar: bool

    @property
    def levels(self) -> int:
        """Number of levels, as far as they are integers."""
        return 2 if self.bipolar else int(np.floor(self.high) - np.ceil(self.low)) + 1


def quantiser_of(node: ir.Node | None) -> Quantiser | None:
    """Read a quantiser; None for other nodes, and where a parameter is computed."""
    if node is None or node.domain not in DOMAINS:
        return None
    known = [constant_of(value) for value in node.inputs[1:]]
    if any(tensor is None or tensor.dtype != ir.DataType.FLOAT for tensor in known):
        return None
    arrays = [tensor.numpy() for tensor in known if tensor is not None]
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return None
    if node.op_type == "BipolarQuant" and len(arrays) == 1:
        return Quantiser(node, arrays[0], np.zeros((), np.float32), -1, 1, "ROUND", True)
    if node.op_type == "Trunc" and len(arrays) == _TRUNC_2_OPERANDS:
        return _truncation(node, arrays)
    if node.op_type not in ("Quant", "IntQuant") or len(arrays) != 3 or arrays[2].size != 1:
        return None
    scale, zero, bits = arrays
    return _integer(node, scale, zero, float(bits.reshape(())))


def _truncation(node: ir.Node, arrays: list[Array]) -> Quantiser | None:
    """Read version 2 of Trunc, which keeps its levels within bounds."""
    scale, zero, _, out_scale, bits = arrays
    if bits.size != 1 or not (scale > 0).all() or not (out_scale > 0).all():
        return None
    step = 2 ** np.rint(np.log2(out_scale.astype(np.float64) / scale))
    found = _integer(
        node, out_scale, (zero / step).astype(np.float32), float(bits.reshape(()))
    )
    return None if found.bipolar else found


def _integer(node: ir.Node, scale: Array, zero: Array, bits: float) -> Quantiser:
    signed = bool(node.attributes.get_int("signed", 1))
    narrow = bool(node.attributes.get_int("narrow", int(node.op_type != "Trunc")))
    mode = (node.attributes.get_string("rounding_mode", "ROUND") or "ROUND").upper()
    if signed:
        low, high = -(2.0 ** (bits - 1)) + narrow, 2.0 ** (bits - 1) - 1
    else:
        low, high = 0.0, 2.0**bits - 1 - narrow
    return Quantiser(node, scale, zero, low, high, mode, signed and bits == 1)


_SIGNED = {2: ir.DataType.INT2, 4: ir.DataType.INT4, 8: ir.DataType.INT8}
_UNSIGNED = {2: ir.DataType.UINT2, 4: ir.DataType.UINT4, 8: ir.DataType.UINT8}
NARROW = frozenset(t for types in (_SIGNED, _UNSIGNED) for b, t in types.items() if b < 8)
"""Integer types of less than 8 bits."""

_SINCE = {2: 25, 4: 21, 8: 10}
"""Opsets from which QuantizeLinear has integers with this number of bits."""

PER_CHANNEL = 13
"""Opset from which QuantizeLinear has a scale for each channel."""


@dataclass(frozen=True)
class Levels:
    """Integers from one to another, both included."""

    low: int
    high: int

    def dtype(self, opset: int, *, narrow: bool) -> ir.DataType | None:
        """Return a type of ONNX that holds them, the smallest that the opset has.

        With ``narrow``, types of less than 8 bits are taken, if they hold nothing else.
        """
        types = _SIGNED if self.low < 0 else _UNSIGNED
        for bits, dtype in types.items():
            ends = range_of(dtype)
            fits = ends == self if bits < 8 else ends.low <= self.low <= self.high <= ends.high
            if fits and opset >= _SINCE[bits] and (narrow or bits == 8):
                return dtype
        return None

    def form(self) -> tuple[int, bool, bool] | None:
        """Return bits, and whether they are signed and narrow; None for other bounds."""
        signed = self.low < 0
        if signed:
            bits = (self.high + 1).bit_length()
            least, narrow = -(1 << (bits - 1)), self.low != -(1 << (bits - 1))
            fits = self.high == -least - 1 and self.low == least + narrow
        else:
            bits = (self.high + 1).bit_length() - (self.high & (self.high + 1) == 0)
            narrow = self.high != (1 << bits) - 1
            fits = self.low == 0 and self.high == (1 << bits) - 1 - narrow
        return (bits, signed, narrow) if fits and 2 <= bits <= 8 else None


def range_of(dtype: ir.DataType) -> Levels:
    """Return the levels of an integer type."""
    return Levels(int(dtype.min), int(dtype.max))


def is_integer_type(dtype: ir.DataType | None) -> bool:
    """Whether quantisers here make integers of a type."""
    return dtype in _SIGNED.values() or dtype in _UNSIGNED.values()


def axis_of(array: Array, rank: int | None) -> int | None:
    """Return the one axis along which a constant differs; None if that is not so.

    The constant has more than one element, and is broadcast with a value of that rank; None
    where it is not known.
    """
    if rank is None or array.ndim > rank:
        return None
    axes = [rank - array.ndim + place for place, size in enumerate(array.shape) if size != 1]
    return axes[0] if len(axes) == 1 else None


STANDARD = ("", "QuantizeLinear")
"""The quantiser of the standard, by domain and name."""

_BEYOND = 64
"""Steps of a quantiser to fewer bits than 8 beyond which it saturates."""


@dataclass(frozen=True)
class QdqPair:
    """A QuantizeLinear and the DequantizeLinear that reads it, with a Clip between or not.

    Scale and zero point of ``quantiser`` are in the shape in which they are broadcast. The
    scale differs along ``axis``, from the front; None for one scale.
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

    Both are float32, in the shape in which they are broadcast. The scale differs along
    ``axis``, from the front; None for one scale.
    """

    scale: Array
    zero: Array
    dtype: ir.DataType
    axis: int | None


def grid_of(node: ir.Node, shape: ir.Shape | None) -> PairGrid | None:
    """Read scale and zero point of a node; None if one is computed, or the scale is odd."""
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

    Of numbers that no int32 holds, ONNX Runtime makes its least level. ``proto`` is the same
    node in the protobuf, whose input is renamed.
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


def table_of(
    thresholds: ir.Value | None, weights: ir.Value | None
) -> tuple[Array, Array] | None:
    """Return constant thresholds and weights, broadcast to one shape; None if computed.

    Thresholds are [..., steps], as are both results, in float32.
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

    Float32 ``[turns, ...]``, infinite for a turn that a channel does not have; no turns if all
    weights of a channel have one sign. None if something is computed or NaN.
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

    Thresholds are [..., steps], with which weights broadcast; both float32.
    """
    single = weights.size and (weights == weights.flat[0]).all()
    weights = weights.reshape(-1)[0] if single else weights
    return op.MultiThreshold(
        x, constant(op, thresholds), constant(op, weights), _domain=CUSTOM
    )
