"""Does a model hold exactly the formats that were chosen? Read off the model alone.

Nothing here asks the passes. Layers are found by the names of what they compute. Weights are
computed from the integers that are stored, and compared with those of the original.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops.activations import Relu
from onnx_passes.ops.elementwise import Add, Cast, Clip, Identity, Mul
from onnx_passes.ops.quantization import (
    ConvInteger,
    DequantizeLinear,
    MatMulInteger,
    QuantizeLinear,
)
from onnx_passes.tuning.groups import FormatGroup, weight_of
from onnx_passes.tuning.part_formats import COMPENSATING, FLOAT32, Format
from onnx_passes.tuning.smoothing_scales import read_scales
from onnx_passes.tuning.stored_weights import (
    EIGHTHS,
    PACKED,
    StoredWeight,
    multiplies_integers,
    read_stored_weight,
)
from onnx_passes.verify.node_equality import constant_tensor

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
    """Something that is not as it was chosen.

    Attributes:
        node: Name of the node in the original.
        group: Its group.
        problem: What is wrong, in one clause.
    """

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
    """Hold a model against the formats that were chosen for the groups of the original.

    Args:
        saved: The model, as it was read back.
        original: As :func:`onnx_passes.tuning.groups.prepare` returns it.
        groups: Its groups.
        names: Format by group.
        formats: Formats by name.
        ranges: Recorded ranges of values of the original.

    Returns:
        What is wrong; nothing if all is as it was chosen.
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
    value = node.inputs[weight]
    tensor = constant_tensor(value) if value is not None else None
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
    """Return the node that computes the product of a layer, from its result backwards.

    Args:
        place: The value that is named as the result was.
        node: The node of the original.
    """
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
    elif item.pass_name == "convert-float8":
        if stored.dtype not in EIGHTHS:
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
    if item.options.get("calibration") == "mse" and item.weight_bits < 16:
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
    source, scale, zero = (*node.inputs, None, None)[:3]
    step, origin = (None if v is None else constant_tensor(v) for v in (scale, zero))
    if source is None or step is None or origin is None:
        return
    for reader in node.outputs[0].consumers():
        if reader.op_type != DequantizeLinear.op_type:
            continue
        for index, ours in ((1, step), (2, origin)):
            other = reader.inputs[index] if len(reader.inputs) > index else None
            theirs = constant_tensor(other) if other is not None else None
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
