"""Which operators make steps of their operands, or decide by them."""

_OF_QONNX = ("BipolarQuant", "FloatQuant", "IntQuant", "MultiThreshold", "Quant", "Trunc")
ROUNDING_TO_STEPS = frozenset(("DynamicQuantizeLinear", "QuantizeLinear", "Round", *_OF_QONNX))
"""Operators whose results jump where an operand moves by one unit in the last place.

Those of QONNX, and of our own domain, are told by their names alone.
"""

SUMS_OF_NOTHING = frozenset(
    ("ReduceL1", "ReduceL2", "ReduceProd", "ReduceSum", "ReduceSumSquare")
)
"""Reductions of which the standard says what they are of no element."""

DECIDING = frozenset(
    (
        *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
        *("ArgMax", "ArgMin", "Ceil", "Floor", "Mod", "Sign", "TopK"),
    )
)
"""Operators whose results jump where operands are equal, or next to an integer."""

INDEXING = {"Gather": 1, "GatherElements": 1, "OneHot": 0, "ScatterElements": 1}
"""Which operand of an operator holds indices that may count from the end."""
