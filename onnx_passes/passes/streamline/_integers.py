"""Which values are integers, and between which bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.bodies.domains import CUSTOM
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.quantised._tables import table_of

Array = np.ndarray[Any, np.dtype[Any]]

_EXACT = 2.0**24
"""Up to here float32 holds every integer."""

_KEPT = frozenset(
    {
        "DepthToSpace",
        "Expand",
        "Flatten",
        "Gather",
        "GlobalMaxPool",
        "Identity",
        "MaxPool",
        "Reshape",
        "Slice",
        "SpaceToDepth",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
    }
)
"""Operators whose elements are some of their first operand's."""


@dataclass(frozen=True)
class Range:
    """Bounds of a value whose elements are integers.

    Attributes:
        low: The least element that is possible.
        high: The greatest.
        partial: The largest size of a sum on the way to it, 0 for what is no sum.
    """

    low: float
    high: float
    partial: float = 0.0

    @property
    def name(self) -> str:
        """The smallest datatype of QONNX that holds it."""
        if (self.low, self.high) == (-1, 1) and self.partial == 0:
            return "TERNARY"
        if self.low >= 0:
            bits = max(int(self.high).bit_length(), 1)
            return "BINARY" if bits == 1 else f"UINT{bits}"
        bits = max(int(-self.low - 1).bit_length(), int(self.high).bit_length()) + 1
        return f"INT{bits}"

    @property
    def exact(self) -> bool:
        """Whether float32 computes it without rounding, in any order of additions."""
        return max(abs(self.low), abs(self.high), self.partial) <= _EXACT


def integer_ranges(graph: ir.Graph) -> dict[ir.Value, Range]:
    """Bound the values of a graph that are integers whatever the inputs are.

    Args:
        graph: The graph, in topological order.

    Returns:
        Values with their bounds. A value that float32 may round is not among them.
    """
    found: dict[ir.Value, Range] = {}

    def of(value: ir.Value | None) -> Range | None:
        if value is None:
            return None
        if value not in found:
            made = _of_constant(value)
            if made is not None:
                found[value] = made
        return found.get(value)

    for node in graph:
        made = _of_node(node, of)
        if made is not None and made.exact and node.outputs:
            found[node.outputs[0]] = made
    return found


def _of_constant(value: ir.Value) -> Range | None:
    tensor = constant_of(value)
    if tensor is None or tensor.size == 0 or tensor.dtype != ir.DataType.FLOAT:
        return None
    array = tensor.numpy()
    if not np.isfinite(array).all() or not np.array_equal(array, np.rint(array)):
        return None
    return Range(float(array.min()), float(array.max()))


def _of_node(node: ir.Node, of: Any) -> Range | None:
    if (node.domain, node.op_type) == (CUSTOM, "MultiThreshold"):
        return _of_thresholds(node)
    if node.domain == CUSTOM and node.op_type in ("Im2Col", "LayoutConverter"):
        return _moved(of(node.inputs[0]))
    if node.domain != "":
        return None
    if node.op_type in _KEPT:
        return _moved(of(node.inputs[0]))
    ranges = [of(value) for value in node.inputs]
    if node.op_type == "Concat":
        known = [r for r in ranges if r is not None]
        if len(known) < len(ranges):
            return None
        return Range(min(r.low for r in known), max(r.high for r in known))
    if node.op_type in ("MatMul", "Conv"):
        return _of_product(node, ranges)
    if len(ranges) < 1 or any(r is None for r in ranges):
        return None
    return _of_arithmetic(node.op_type, [r for r in ranges if r is not None])


def _moved(found: Range | None) -> Range | None:
    return None if found is None else Range(found.low, found.high)


def _of_arithmetic(kind: str, ranges: list[Range]) -> Range | None:
    first, second = ranges[0], ranges[-1]
    match kind:
        case "Add":
            return Range(first.low + second.low, first.high + second.high)
        case "Sub":
            return Range(first.low - second.high, first.high - second.low)
        case "Mul":
            ends = [a * b for a in (first.low, first.high) for b in (second.low, second.high)]
            return Range(min(ends), max(ends))
        case "Relu":
            return Range(max(first.low, 0.0), max(first.high, 0.0))
        case "Neg":
            return Range(-first.high, -first.low)
    return None


def _of_thresholds(node: ir.Node) -> Range | None:
    weights = node.inputs[2]
    found = None
    if node.inputs[1] is not None and weights is not None:
        found = table_of(node.inputs[1], weights)
    if found is None or not np.array_equal(found[1], np.rint(found[1])):
        return None
    # Thresholds are reached from the lowest on, so that only sums from there occur.
    order = np.argsort(found[0], axis=-1, kind="stable")
    sums = np.cumsum(np.take_along_axis(found[1], order, -1).astype(np.float64), -1)
    return Range(float(sums.min(initial=0)), float(sums.max(initial=0)))


def _of_product(node: ir.Node, ranges: list[Range | None]) -> Range | None:
    """Bound dot products by their weights, row by row; padding adds zeros."""
    data, weights = ranges[0], constant_of(node.inputs[1])
    if data is None or ranges[1] is None or weights is None or len(node.inputs) > 2:
        return None
    matrix = weights.numpy().astype(np.float64)
    if node.op_type == "MatMul":
        if matrix.ndim < 2:
            return None
        axes: Any = -2
        low, high = data.low, data.high
    else:
        axes = tuple(range(1, matrix.ndim))
        padded = any(node.attributes.get_ints("pads") or ()) or (
            node.attributes.get_string("auto_pad", "NOTSET") not in ("NOTSET", "VALID")
        )
        low = min(data.low, 0.0) if padded else data.low
        high = max(data.high, 0.0) if padded else data.high
    above, below = np.maximum(matrix, 0).sum(axes), np.minimum(matrix, 0).sum(axes)
    most = above * high + below * low
    least = above * low + below * high
    partial = (above - below).max() * max(abs(low), abs(high))
    return Range(float(least.min()), float(most.max()), float(partial))


__all__ = ["Range", "integer_ranges"]
