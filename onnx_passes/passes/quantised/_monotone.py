"""Operators that are monotone in one operand, the others being constants."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.ops.operator_class import operator_of
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.quantised._attributes import quantiser_of

COMPARES = frozenset({"GreaterOrEqual", "Greater"})
"""Comparisons whose result for NaN is that left of all thresholds."""
CONVERSES = frozenset({"LessOrEqual", "Less"})
"""The other comparisons that are steps."""
_GRIDS = frozenset({"QuantizeLinear", "DequantizeLinear"})
_BY_SIGN = frozenset({"Mul", "Div"})
_NEGATIVE = ("alpha", "beta", "gamma")
_RISING = frozenset({"Celu", "Elu", "HardSigmoid", "LeakyRelu", "Selu"})
"""Operators that rise if their attributes are not negative."""
CORRECTLY_ROUNDED = frozenset(
    {
        *("Abs", "Add", "BatchNormalization", "Ceil", "Clip", "Div", "Floor", "Identity"),
        *(
            "LeakyRelu",
            "PRelu",
            "Max",
            "Min",
            "Mul",
            "Neg",
            "Relu",
            "Round",
            "Sign",
            "Sqrt",
            "Sub",
        ),
        *("Where", *COMPARES, *_GRIDS),
    }
)
"""Operators whose kernels are IEEE operations, or a few of them in a row."""


def data_operand(node: ir.Node) -> int:
    """Return the place of the operand that is not a constant."""
    if node.op_type == "Div":
        return 0
    unknown = [
        i for i, v in enumerate(node.inputs) if v is not None and constant_of(v) is None
    ]
    return unknown[0] if unknown else 0


def is_monotone(node: ir.Node, operand: int, opset: int) -> bool:
    """Whether a node rises or falls in an operand, the others being constants.

    Args:
        node: The node.
        operand: Number of the operand.
        opset: Version of the main domain.
    """
    if node.domain != "":
        return quantiser_of(node) is not None
    if node.op_type in _BY_SIGN:
        factor = constant_of(node.inputs[1 - operand])
        return operand == 0 or (node.op_type == "Mul" and factor is not None)
    if node.op_type == "BatchNormalization":
        return len(node.outputs) == 1 and not node.attributes.get_int("training_mode", 0)
    if node.op_type == "PRelu":
        slopes = constant_of(node.inputs[1])
        return operand == 0 and slopes is not None and bool((slopes.numpy() >= 0).all())
    if node.op_type == "Identity" or node.op_type in COMPARES:
        return True
    operator = operator_of(node, opset)
    if operator is None or not operator.elementwise:
        return False
    rises = operand in operator.algebra.monotone or node.op_type in _RISING
    parts = (node.attributes.get_float(name, 0.0) or 0.0 for name in _NEGATIVE)
    return rises and all(part >= 0 for part in parts)


def is_correctly_rounded(node: ir.Node) -> bool:
    """Whether the kernel of a node is an IEEE operation, or a few of them in a row."""
    return node.domain != "" or node.op_type in CORRECTLY_ROUNDED


def has_channels(node: ir.Node) -> bool:
    """Whether a node has constants along one axis, whose place it looks at."""
    if node.domain == "" and node.op_type in _GRIDS:
        tensor = constant_of(node.inputs[1])
        return tensor is not None and tensor.size > 1
    return (node.domain, node.op_type) == ("", "BatchNormalization")


def varying(node: ir.Node, rank: int) -> list[tuple[int, int]]:
    """Return the axes along which a node's constants differ, with their sizes.

    Args:
        node: The node.
        rank: Rank of its operand.
    """
    if has_channels(node):
        tensor = constant_of(node.inputs[1])
        axis = 1
        if node.op_type in _GRIDS:
            axis = (node.attributes.get_int("axis", 1) or 0) % rank
        return [] if tensor is None else [(axis, int(tensor.shape.numpy()[0]))]
    found = []
    for value in node.inputs:
        tensor = constant_of(value)
        if tensor is None or node.op_type in _GRIDS:
            continue
        shape = tensor.shape.numpy()
        if node.op_type == "MultiThreshold":
            shape = shape[:-1]
        found += [(rank - len(shape) + i, int(n)) for i, n in enumerate(shape) if n != 1]
    return found


def keeps_shape(node: ir.Node, value: ir.Value) -> bool:
    """Whether the constants of a node do not make its operand bigger.

    Args:
        node: The node.
        value: Its operand, with a known shape.
    """
    if has_channels(node) or node.op_type in _GRIDS:
        return True
    shape = value.shape
    assert shape is not None, "the caller looks"
    for other in node.inputs:
        tensor = constant_of(other)
        if tensor is None:
            continue
        dims = tensor.shape.numpy()
        if node.op_type == "MultiThreshold":
            dims = dims[:-1]
        if len(dims) > len(shape):
            return False
        pairs = zip(reversed(dims), reversed(list(shape)), strict=False)
        if any(n not in (1, d) for n, d in pairs):
            return False
    return True
