"""The rule of each operator by which the range of its results is found."""

from __future__ import annotations

import math
from collections.abc import Mapping

import onnx_ir as ir

from onnx_passes.passes.analysis import _ranges_of_elements as elements
from onnx_passes.passes.analysis import _ranges_of_sums as sums
from onnx_passes.passes.analysis._intervals import Interval, Known, fitted, of_type

MOVES = (
    *("DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity"),
    *("MaxPool", "Reshape", "ReverseSequence", "Slice", "SpaceToDepth", "Split", "Squeeze"),
    *("Tile", "Transpose", "Unsqueeze", "Compress"),
)

EXACT = frozenset(
    (
        *MOVES,
        *("ArgMax", "ArgMin", "Clip", "Concat", "Dropout", "GlobalMaxPool", "Max", "Min"),
        *("Pad", "ReduceMax", "ReduceMin", "Relu", "ScatterElements", "ScatterND", "Shape"),
        *("Size", "Where"),
    )
)
"""Operators that choose among elements, and cannot overflow."""

RULES: Mapping[str, elements.Rule] = {
    **dict.fromkeys(MOVES, elements.moved),
    "Abs": elements.absolute,
    "Add": elements.add,
    "ArgMax": elements.arg,
    "ArgMin": elements.arg,
    "Atan": elements.monotone(math.atan, size=2.0),
    "AveragePool": sums.average_pool,
    "BatchNormalization": sums.batch_normalization,
    "Cast": elements.cast,
    "Ceil": elements.monotone(lambda x: x if math.isinf(x) else math.ceil(x), exact=True),
    "Clip": elements.clip,
    "Concat": elements.joined(),
    "Conv": sums.conv,
    "Cos": elements.bounded(-1, 1),
    "Div": elements.div,
    "Dropout": elements.dropout,
    "Erf": elements.monotone(math.erf, size=1.0),
    "Exp": elements.monotone(math.exp, least=0.0),
    "Floor": elements.monotone(lambda x: x if math.isinf(x) else math.floor(x), exact=True),
    "Gemm": sums.gemm,
    "GlobalAveragePool": sums.mean,
    "GlobalMaxPool": sums.largest_of,
    "LeakyRelu": elements.leaky,
    "Log": elements.monotone(elements.log),
    "MatMul": sums.matmul,
    "Max": elements.selected(max),
    "Min": elements.selected(min),
    "Mul": elements.mul,
    "Neg": elements.neg,
    "Pad": elements.pad,
    "Pow": elements.pow,
    "ReduceMax": sums.largest_of,
    "ReduceMean": sums.mean,
    "ReduceMin": sums.largest_of,
    "Relu": elements.monotone(lambda x: max(x, 0.0), exact=True),
    "Round": elements.monotone(lambda x: x if math.isinf(x) else float(round(x)), exact=True),
    "ScatterElements": elements.scatter,
    "ScatterND": elements.scatter,
    "Shape": lambda known, node: (0.0, float(2**63 - 1)),
    "Sigmoid": elements.monotone(elements.sigmoid, size=1.0),
    "Sin": elements.bounded(-1, 1),
    "Size": lambda known, node: (0.0, float(2**63 - 1)),
    "Softmax": elements.bounded(0, 1),
    "Sqrt": elements.monotone(lambda x: math.sqrt(x) if x > 0 else 0.0, least=0.0),
    "Sub": elements.sub,
    "Sum": elements.add,
    "Tanh": elements.monotone(math.tanh, size=1.0),
    "Where": elements.joined(1),
}


def range_of(known: Known, node: ir.Node) -> Interval:
    """Return the interval of the outputs of a node.

    Args:
        known: What is known of its operands.
        node: A node of any operator; what has no rule lies in what its type can hold.
    """
    dtype = node.outputs[0].dtype
    rule = RULES.get(node.op_type) if not node.domain else None
    if rule is None or dtype is None:
        return of_type(dtype)
    low, high = rule(known, node)
    if math.isnan(low) or math.isnan(high):
        return of_type(dtype)
    return fitted((low, high), dtype, computed=node.op_type not in EXACT)
