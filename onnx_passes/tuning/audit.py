"""What a tuned model stores: its formats, weights and scales, and the error they allow.

The audit reads the model alone and asks no pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops.activations import Relu
from onnx_passes.ops.convolution import Conv
from onnx_passes.ops.elementwise import Add, Cast, Clip, Identity, Mul
from onnx_passes.ops.quantization import (
    ConvInteger,
    DequantizeLinear,
    MatMulInteger,
    QuantizeLinear,
)
from onnx_passes.passes.precision.quantize_weights import BY_INT8
from onnx_passes.tuning.groups import COMPENSATING, FLOAT32, Format, FormatGroup, weight_of
from onnx_passes.verify.node_equality import constant_tensor

PACKED = "MatMulNBits"
"""A product of ONNX Runtime with packed integers."""
_UNIT = {
    ir.DataType.FLOAT16: (2.0**-10, 2.0**-24),
    ir.DataType.BFLOAT16: (2.0**-7, 2.0**-133),
}
"""Relative spacing of numbers and smallest number."""


_WIDE_BITS = 16


def multiplies_integers(layer: ir.Node) -> bool:
    """Whether a product with packed integers rounds what it reads to integers of 8 bits."""
    return layer.attributes.get_int("accuracy_level", 0) == BY_INT8


@dataclass(frozen=True)
class StoredWeight:
    """A weight, as numbers that the layer computes with, in the layout of the original.

    `step` is the distance of neighbouring numbers, and broadcasts with `values`. A number may
    be off by `slack` steps.
    """

    dtype: ir.DataType
    values: Array
    step: Array
    slack: float = 0.5


def read_stored_weight(layer: ir.Node, original: ir.Node, index: int) -> StoredWeight | None:
    """Return the weight that a layer reads; None if it is stored in no way that is known."""
    if layer.op_type == PACKED:
        return _unpack(layer, original)
    value = layer.inputs[1 if layer.op_type == MatMulInteger.op_type else index]
    if value is None:
        return None
    tensor = constant_tensor(value)
    if layer.op_type == MatMulInteger.op_type:
        return _of_product(layer, tensor, original)
    if tensor is not None:
        return _plain(tensor)
    producer = value.producer()
    if producer is None or producer.op_type != DequantizeLinear.op_type:
        return None
    return _dequantise(producer)


def _tensor(node: ir.Node, index: int) -> ir.TensorProtocol | None:
    """Return the constant that an input of a node is; None for another, or for no input."""
    value = node.inputs[index] if index < len(node.inputs) else None
    return None if value is None else constant_tensor(value)


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


def _dequantise(node: ir.Node) -> StoredWeight | None:
    levels, scale, zero = (_tensor(node, index) for index in range(3))
    if levels is None or scale is None:
        return None
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


def _unpack(layer: ir.Node, original: ir.Node) -> StoredWeight | None:
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
    values, step = (levels[:, :depth] - origin) * step, np.abs(step)
    if not original.attributes.get_int("transB", 0):
        values, step = values.T, step.T
    dtype = ir.DataType.UINT4 if bits == 4 else ir.DataType.UINT8
    return StoredWeight(dtype, values, step, _slack(dtype, origin))


def _unpack_bits(data: Array, bits: int) -> Array:
    if bits == 8:
        return data
    return np.stack([data & 15, data >> 4], axis=-1).reshape(len(data), -1)


_QUANTISERS = (DequantizeLinear.op_type, QuantizeLinear.op_type, "DynamicQuantizeLinear")


def read_scales(layer: ir.Node, node: ir.Node, shape: tuple[int, ...]) -> Array:
    """Return what the values that a layer reads were scaled by, to broadcast with its weight.

    Read off the constants that scale them: a Mul in front, or a normalisation whose constants
    differ from those of the original.
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


Ranges = Mapping[str, tuple[float, float]]

_ROUNDING = 1e-3
"""Of a step: what float32 arithmetic may add to half a step."""
_OFFSET = 0.5
"""Steps by which weights may be off in the mean that make up for each other's errors."""
_PASSED = frozenset(
    kind.op_type
    for kind in (Add, Cast, Clip, DequantizeLinear, Identity, Mul, QuantizeLinear, Relu)
)
"""What stands between a product and the value that is named as its result was."""
_HALVES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


@dataclass(frozen=True)
class AuditFinding:
    """Something that is not as it was chosen, with the node's name in the original."""

    node: str
    group: str
    problem: str

    def __str__(self) -> str:
        return f"{self.node} (group {self.group}): {self.problem}"


def audit(
    saved: ir.Model,
    original: ir.Model,
    groups: Sequence[FormatGroup],
    names: Mapping[str, str],
    formats: Mapping[str, Format],
    ranges: Ranges,
) -> list[AuditFinding]:
    """Compare a model with the formats that were chosen for the groups of the original.

    `original` is as :func:`onnx_passes.tuning.groups.prepare` returns it.
    """
    values = {str(v.name): v for n in saved.graph.all_nodes() for v in n.outputs if v.name}
    owners = {name: group.name for group in groups for name in group.nodes}
    found: list[AuditFinding] = []
    for node in original.graph.all_nodes():
        weight = weight_of(node)
        if weight is None:
            continue
        group = owners.get(str(node.name), "")
        item = formats[names.get(group, FLOAT32)]
        place = values.get(str(node.outputs[0].name))
        problems = _layer(node, weight, place, item)
        found += [AuditFinding(str(node.name), group, problem) for problem in problems]
    old = {str(v.name) for node in original.graph.all_nodes() for v in node.outputs}
    for node in saved.graph.all_nodes():
        if str(node.outputs[0].name) in old:
            continue  # a quantiser that the original has
        name = str(node.name)
        found += [AuditFinding(name, "quantisers", problem) for problem in _pair(node, ranges)]
    return found


def _layer(node: ir.Node, weight: int, place: ir.Value | None, item: Format) -> Iterator[str]:
    layer = find_layer(place, node)
    if layer is None:
        yield "its result is not in the model any more"
        return
    stored = read_stored_weight(layer, node, weight)
    if stored is None:
        yield f"its weight is not stored in a way that is known, in {layer.op_type}"
        return
    tensor = _tensor(node, weight)
    assert tensor is not None, "it was found to be constant"
    yield from _format(stored, item, layer)
    expected = tensor.numpy()
    if item.is_smoothed:
        expected = expected / read_scales(layer, node, expected.shape)
    yield from _numbers(stored, expected, "weight", item)
    if item.pass_name == COMPENSATING and stored.values.shape == expected.shape:
        yield from _check_compensation(stored, expected)
    if item.pass_name == "quantize-static":
        data = layer.inputs[0].producer() if layer.inputs[0] is not None else None
        if data is None or data.op_type != DequantizeLinear.op_type:
            yield f"it is to be {item.name}, and reads values that are not rounded"


def find_layer(place: ir.Value | None, node: ir.Node) -> ir.Node | None:
    """Return the node that computes a layer's product, backwards from its named result."""
    kinds = (node.op_type, MatMulInteger.op_type, ConvInteger.op_type, PACKED)
    pending = [place.producer() if place is not None else None]
    for _ in range(12):
        if not pending:
            return None
        current = pending.pop(0)
        if current is None:
            continue
        if current.op_type in kinds:
            return current
        if current.op_type in _PASSED:
            pending += [v.producer() for v in current.inputs if v is not None]
    return None


def _format(stored: StoredWeight, item: Format, layer: ir.Node) -> Iterator[str]:
    wanted, bits = item.name, stored.dtype.bitwidth
    half = stored.dtype in _HALVES
    rounded = item.pass_name == "convert-bfloat16" and stored.dtype is ir.DataType.FLOAT
    if item.rank == 1 and not (half or rounded):
        yield f"it is to be {wanted}, and its weight is {stored.dtype.name.lower()}"
    elif item.rank == 0 and item.name != FLOAT32:
        if not stored.dtype.is_integer():
            yield f"it is to be {wanted}, and its weight is {stored.dtype.name.lower()}"
        elif bits != item.weight_bits:
            yield f"it is to be {wanted}, and its weight has {bits} bits"
        elif item.pass_name == "quantize-dynamic" and layer.op_type != MatMulInteger.op_type:
            yield f"it is to be {wanted}, and computes in floats"
        elif layer.op_type == PACKED:
            integers = multiplies_integers(layer)
            if integers != (item.options.get("compute") == "int8"):
                how = "integers" if integers else "floats"
                yield f"it is to be {wanted}, and computes in {how}"
    elif item.name == FLOAT32 and stored.dtype is not ir.DataType.FLOAT:
        yield f"it is to stay in float32, and its weight is {stored.dtype.name.lower()}"


def _numbers(stored: StoredWeight, expected: Array, what: str, item: Format) -> Iterator[str]:
    """Hold what is stored against the original: off by at most half a step.

    Formats whose integers are learned may be off by more, as may numbers that a narrower range
    cuts off.
    """
    if stored.values.shape != expected.shape:
        yield f"its {what} has shape {stored.values.shape}, not {expected.shape}"
        return
    error = np.asarray(np.subtract(stored.values, expected))
    np.abs(error, out=error)
    limit = stored.step * (stored.slack + item.slack + _ROUNDING) + 1e-30
    beyond = ~(error <= limit)
    cuts = (
        item.options.get("calibration") == "mse" or item.options.get("form") == "matmulnbits"
    )
    if cuts and item.weight_bits < 16:
        size, most = np.abs(stored.values), (1 << (item.weight_bits - 1)) - 1.5
        cut = (size >= stored.step * most) & (size < np.abs(expected))
        beyond &= ~(cut & (stored.values * expected >= 0))
    if beyond.any():
        place = tuple(int(i) for i in np.argwhere(beyond)[0])
        worst = float(np.max(error / np.maximum(limit, 1e-30)))
        yield (
            f"its {what} is off by more than the rounding of its format at {beyond.sum()} of "
            f"{beyond.size} elements, first {list(place)}, up to {worst:.3g} times"
        )


def _check_compensation(stored: StoredWeight, expected: Array) -> Iterator[str]:
    """Hold weights that make up for each other's errors against the original: on the whole."""
    steps = (stored.values - expected) / np.maximum(stored.step, 1e-30)
    size, mean = float(np.sqrt(np.mean(steps**2))), float(np.mean(steps))
    if steps.size and (size > 1.0 or abs(mean) > _OFFSET):
        yield (
            f"its weight is off by {size:.2g} steps on the whole, and by {mean:.2g} in the "
            "mean: more than rounding with compensation does"
        )


def _pair(node: ir.Node, ranges: Ranges) -> Iterator[str]:
    """Hold a quantiser of computed values against its other half and the recorded range."""
    if node.op_type != QuantizeLinear.op_type or node.domain:
        return
    source, step, origin = node.inputs[0], _tensor(node, 1), _tensor(node, 2)
    if source is None or step is None or origin is None:
        return
    for reader in node.outputs[0].consumers():
        if reader.op_type != DequantizeLinear.op_type:
            continue
        for index, ours in ((1, step), (2, origin)):
            theirs = _tensor(reader, index)
            if theirs is None or not np.array_equal(ours.numpy(), theirs.numpy()):
                kind = "scale" if index == 1 else "zero point"
                yield f"the two quantisers of {source.name!r} differ in their {kind}"
    name = str(source.name)
    known = ranges.get(name) or ranges.get(name.removesuffix("_exact"))
    if known is None or step.size != 1 or origin.size != 1:
        return
    size, dtype = float(step.numpy().item()), origin.dtype
    start = float(origin.numpy().astype(np.float32).item())
    low, high = (known[0] / size + start, known[1] / size + start)
    least, most = float(int(dtype.min)), float(int(dtype.max))
    wanted = f"the recorded {known[0]:g} to {known[1]:g}"
    slack = 0.5 + 10 * _ROUNDING  # the zero point is rounded
    if low < least - slack or high > most + slack:
        yield f"the grid of {source.name!r} does not cover {wanted}"
    middle = 0.0 if dtype.is_signed() else (most + 1) / 2
    symmetric = 2 * max(high - start, start - low)
    wide = symmetric if start == middle else high - low
    if known != (0.0, 0.0) and wide < 0.97 * (most - least):
        yield f"the grid of {source.name!r} is wider than {wanted}"
