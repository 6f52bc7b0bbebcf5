"""Which values are integers, and between which bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import gcd
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.bodies.domains import CUSTOM, QONNX_ALIASES
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
        "GatherElements",
        "GatherND",
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
        step: What the distance of every element to ``low`` is a multiple of.
        least: The least sum that is possible on the way to an element, in any order.
        most: The greatest.
    """

    low: float
    high: float
    step: int = 1
    least: float = 0.0
    most: float = 0.0

    @property
    def name(self) -> str:
        """The smallest datatype of QONNX that holds it, and every sum on the way."""
        low, high = min(self.low, self.least), max(self.high, self.most)
        if (low, high) == (-1, 1):
            return "BIPOLAR" if self.step == 2 else "TERNARY"
        if low >= 0:
            bits = max(int(high).bit_length(), 1)
            return "BINARY" if bits == 1 else f"UINT{bits}"
        bits = max(int(-low - 1).bit_length(), int(high).bit_length()) + 1
        return f"INT{bits}"

    @property
    def exact(self) -> bool:
        """Whether float32 computes it without rounding, in any order of additions."""
        return max(map(abs, (self.low, self.high, self.least, self.most))) <= _EXACT


_Lookup: TypeAlias = Callable[[ir.Value | None], Range | None]


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
    low, high = float(array.min()), float(array.max())
    return Range(low, high, 2 if (np.abs(array) == 1).all() else 1)


def _of_node(node: ir.Node, of: _Lookup) -> Range | None:
    if (node.domain, node.op_type) == (CUSTOM, "MultiThreshold"):
        return _of_thresholds(node)
    if node.domain in QONNX_ALIASES and node.op_type == "XnorPopcountMatMul":
        depth = _size(node.inputs[1], -2)
        return None if depth is None else Range(0.0, float(depth))
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
    return None if found is None else replace(found, least=0.0, most=0.0)


def _of_arithmetic(kind: str, ranges: list[Range]) -> Range | None:
    first, second = ranges[0], ranges[-1]
    match kind:
        case "Add":
            step = _shared(first, second)
            return Range(first.low + second.low, first.high + second.high, step)
        case "Sub":
            step = _shared(first, second)
            return Range(first.low - second.high, first.high - second.low, step)
        case "Mul":
            ends = [a * b for a in (first.low, first.high) for b in (second.low, second.high)]
            return Range(min(ends), max(ends))
        case "Relu":
            return Range(max(first.low, 0.0), max(first.high, 0.0))
        case "Neg":
            return Range(-first.high, -first.low, first.step)
    return None


def _shared(first: Range, second: Range) -> int:
    """Return the step of a sum; a single number has any step."""
    steps = [r.step for r in (first, second) if r.low != r.high]
    return gcd(*steps) if steps else 1


def _of_thresholds(node: ir.Node) -> Range | None:
    weights = node.inputs[2]
    found = None
    if node.inputs[1] is not None and weights is not None:
        found = table_of(node.inputs[1], weights)
    if found is None or not np.array_equal(found[1], np.rint(found[1])):
        return None
    # Thresholds are reached from the lowest on, so that only sums from there occur.
    order = np.argsort(found[0], axis=-1, kind="stable")
    steps = np.take_along_axis(found[1], order, -1).astype(np.float64)
    sums = np.cumsum(steps, -1)
    step = int(np.gcd.reduce(np.abs(steps).astype(np.int64), axis=None)) or 1
    return Range(float(sums.min(initial=0)), float(sums.max(initial=0)), step)


def _of_product(node: ir.Node, ranges: list[Range | None]) -> Range | None:
    """Bound sums of products, and what is summed up on the way in any order."""
    data, other = ranges[0], ranges[1]
    if data is None or other is None or any(r is None for r in ranges[2:]):
        return None
    weights = constant_of(node.inputs[1])
    if weights is None:
        return _of_computed(node, data, other) if node.op_type == "MatMul" else None
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
    least, most = (
        np.minimum(matrix * low, matrix * high),
        np.maximum(matrix * low, matrix * high),
    )
    found = _summed(least.sum(axes), most.sum(axes))
    partial = _summed(np.minimum(least, 0).sum(axes), np.maximum(most, 0).sum(axes))
    bias = ranges[2] if len(ranges) > 2 else None
    start = (0.0, 0.0) if bias is None else (bias.low, bias.high)
    return Range(
        found.low + start[0],
        found.high + start[1],
        least=partial.low + min(start[0], 0),
        most=partial.high + max(start[1], 0),
    )


def _of_computed(node: ir.Node, data: Range, other: Range) -> Range | None:
    """Bound a product of two computed matrices by how many products are summed up."""
    sizes = (_size(node.inputs[0], -1), _size(node.inputs[1], -2))
    depth = next((size for size in sizes if size is not None), None)
    if depth is None:
        return None
    ends = [a * b for a in (data.low, data.high) for b in (other.low, other.high)]
    low, high = depth * min(ends), depth * max(ends)
    return Range(low, high, least=min(low, 0.0), most=max(high, 0.0))


def _size(value: ir.Value | None, axis: int) -> int | None:
    shape = None if value is None else value.shape
    if shape is None or len(shape) < -axis:
        return None
    size = shape[axis]
    return size if isinstance(size, int) else None


def _summed(low: Array, high: Array) -> Range:
    return Range(float(low.min()), float(high.max()))


__all__ = ["Range", "integer_ranges"]
