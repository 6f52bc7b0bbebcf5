"""The formats of the layers of a tuned model, by the types of the weights that it stores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.ops.activations import Relu
from onnx_passes.ops.elementwise import Add, Cast, Clip, Identity, Mul
from onnx_passes.ops.quantization import (
    ConvInteger,
    DequantizeLinear,
    MatMulInteger,
    QuantizeLinear,
)
from onnx_passes.passes.precision.quantize_weights import BY_INT8
from onnx_passes.tuning.groups import FLOAT32, Format, FormatGroup, weight_of
from onnx_passes.verify.node_equality import constant_tensor

PACKED = "MatMulNBits"
"""A product of ONNX Runtime with packed integers."""
_HALVES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
_PASSED = frozenset(
    kind.op_type
    for kind in (Add, Cast, Clip, DequantizeLinear, Identity, Mul, QuantizeLinear, Relu)
)
"""What stands between a product and the value that is named as its result was."""
_STEPS = 12
"""Nodes that are looked at between a result and its product."""


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
) -> list[AuditFinding]:
    """Compare a model with the formats that were chosen for the groups of the original.

    `original` is as :func:`onnx_passes.tuning.groups.prepare` returns it. What the numbers in
    these formats lose is measured by runs.
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
        layer = find_layer(values.get(str(node.outputs[0].name)), node)
        found += [
            AuditFinding(str(node.name), group, problem)
            for problem in _problems(layer, weight, item)
        ]
    return found


def find_layer(place: ir.Value | None, node: ir.Node) -> ir.Node | None:
    """Return the node that computes a layer's product, backwards from its named result."""
    kinds = (node.op_type, MatMulInteger.op_type, ConvInteger.op_type, PACKED)
    pending = [place.producer() if place is not None else None]
    for _ in range(_STEPS):
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


def read_stored_type(layer: ir.Node, index: int) -> ir.DataType | None:
    """Return the type that a layer's weight is stored in; None if it is not a known way."""
    if layer.op_type == PACKED:
        bits = layer.attributes.get_int("bits", 4)
        return ir.DataType.UINT4 if bits == 4 else ir.DataType.UINT8
    value = layer.inputs[1 if layer.op_type == MatMulInteger.op_type else index]
    producer = value.producer() if value is not None else None
    if producer is not None and producer.op_type == DequantizeLinear.op_type:
        value = producer.inputs[0]
    tensor = constant_tensor(value) if value is not None else None
    return None if tensor is None else tensor.dtype


def _problems(layer: ir.Node | None, weight: int, item: Format) -> Iterator[str]:
    if layer is None:
        yield "its result is not in the model any more"
        return
    dtype = read_stored_type(layer, weight)
    if dtype is None:
        yield f"its weight is not stored in a way that is known, in {layer.op_type}"
        return
    if not _has_format(dtype, item):
        wanted = "stay in" if item.name == FLOAT32 else "be"
        yield f"it is to {wanted} {item.name}, and its weight is {dtype.name.lower()}"
    elif item.pass_name == "quantize-static":
        data = layer.inputs[0].producer() if layer.inputs[0] is not None else None
        if data is None or data.op_type != DequantizeLinear.op_type:
            yield f"it is to be {item.name}, and reads values that are not rounded"
    elif item.pass_name == "quantize-dynamic" and layer.op_type != MatMulInteger.op_type:
        yield f"it is to be {item.name}, and computes in floats"
    elif layer.op_type == PACKED:
        integers = layer.attributes.get_int("accuracy_level", 0) == BY_INT8
        if integers != (item.options.get("compute") == "int8"):
            how = "integers" if integers else "floats"
            yield f"it is to be {item.name}, and computes in {how}"


def _has_format(dtype: ir.DataType, item: Format) -> bool:
    """Whether a weight is stored in the type of a format."""
    if item.name == FLOAT32:
        return dtype is ir.DataType.FLOAT
    if item.rank == 1:
        rounded = item.pass_name == "convert-bfloat16" and dtype is ir.DataType.FLOAT
        return rounded or dtype in _HALVES
    return bool(dtype.is_integer()) and dtype.bitwidth == item.weight_bits
