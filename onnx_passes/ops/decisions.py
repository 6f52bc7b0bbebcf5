"""Which operators make steps of their operands, decide by them, or need elements in them."""

import onnx_ir as ir

from onnx_passes.model.fields import named_type

_OF_QONNX = ("BipolarQuant", "FloatQuant", "IntQuant", "MultiThreshold", "Quant", "Trunc")
ROUNDING_TO_STEPS = frozenset(("DynamicQuantizeLinear", "QuantizeLinear", "Round", *_OF_QONNX))
"""Operators whose results jump where an operand moves by one unit in the last place.

Those of QONNX, and of our own domain, are described by their names alone.
"""

RESIZING = frozenset(("Resize", "Upsample"))
"""Operators whose floats beside the first operand decide sizes."""

SUMS_OF_NOTHING = frozenset(
    ("ReduceL1", "ReduceL2", "ReduceProd", "ReduceSum", "ReduceSumSquare")
)
"""Reductions whose value over no element is given by the standard."""

RISKY_IF_EMPTY = frozenset(
    (
        *("Div", "Mod", "Loop", "Scan", "LSTM", "GRU", "RNN", "Resize", "Upsample", "TopK"),
        *("Conv", "ConvTranspose", "DeformConv", "MaxPool", "AveragePool", "LpPool"),
        *("ArgMax", "ArgMin", "GlobalAveragePool", "GlobalMaxPool"),
        *("Attention", "LogSoftmax", "Softmax"),
        "MeanVarianceNormalization",
    )
)
"""Operators whose kernels may end the process, or mean nothing, if an operand is empty."""

DECIDING = frozenset(
    (
        *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
        *("ArgMax", "ArgMin", "Ceil", "Floor", "Mod", "Sign", "TopK"),
    )
)
"""Operators whose results jump where operands are equal, or next to an integer."""

_WITHOUT_FLOATS = frozenset(
    (
        *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "IsInf", "IsNaN"),
        *("ArgMax", "ArgMin", "NonMaxSuppression", "NonZero", "Range", "Shape", "Size"),
    )
)
"""Operators that make sizes, indices and decisions of floats."""

INDEXING = {"Gather": 1, "GatherElements": 1, "OneHot": 0, "ScatterElements": 1}
"""Which operand of an operator holds indices that may count from the end."""


def makes_steps(node: ir.Node) -> bool:
    """Whether results jump where an operand moves by rounding."""
    if node.op_type in ("Cast", "CastLike"):
        to = named_type(node.attributes.get("to")) or node.outputs[0].dtype
        return to is None or not to.is_floating_point()
    return node.op_type in ROUNDING_TO_STEPS | DECIDING


def gives_no_floats(node: ir.Node) -> bool:
    """Whether a node makes sizes, indices or decisions of floats, or casts them to others."""
    cast = node.op_type in ("Cast", "CastLike") and makes_steps(node)
    return cast or node.op_type in _WITHOUT_FLOATS
