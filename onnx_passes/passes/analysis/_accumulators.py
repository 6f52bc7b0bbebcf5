"""Whether accumulators of some width hold all sums of integers, and data for which not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.analysis._sized import label_of
from onnx_passes.passes.streamline._integers import integer_ranges
from onnx_passes.passes.streamline._products import PRODUCTS, IntegerRange, may_skip, sums_of

_SHOWN = 8
"""Numbers of a witness that are printed."""

_NAMED = 3
"""Products that a sentence names."""


@dataclass(frozen=True)
class Overflow:
    """A product whose sums do not fit.

    Attributes:
        node: The product.
        reached: A sum on the way to an element, of products in some order.
        row: Which row of the weights makes it; None if both factors are computed.
        data: What that row reads, in the order of its weights; empty if there is no row.
    """

    node: ir.Node
    reached: float
    row: int | None = None
    data: tuple[float, ...] = ()

    @property
    def text(self) -> str:
        """What happens where, and for what data."""
        told = f"{label_of(self.node)} reaches {self.reached:,.0f}"
        if self.row is None:
            return f"{told} at most, as far as is known"
        shown = ", ".join(f"{number:g}" for number in self.data[:_SHOWN])
        more = len(self.data) - _SHOWN
        rest = f" and {more:,} more" if more > 0 else ""
        return f"{told} in row {self.row} of its weights if that reads {shown}{rest}"


def accumulators(graph: ir.Graph, bits: int) -> tuple[bool, str]:
    """Return whether signed integers of some width hold all sums, and a sentence about it.

    Args:
        graph: The graph.
        bits: The width of the integers.
    """
    found = [overflow.text for overflow in overflows(graph, bits)]
    if not found:
        return True, f"sums of integers fit into INT{bits}"
    text = "; ".join(found[:_NAMED]) + ("; ..." if len(found) > _NAMED else "")
    return False, f"sums of integers do not fit into INT{bits}: {text}"


def overflows(graph: ir.Graph, bits: int) -> Iterator[Overflow]:
    """Yield products of integers whose sums do not fit into signed integers.

    Args:
        graph: The graph, in topological order.
        bits: Width of the integers.
    """
    ranges = integer_ranges(graph, declared=True)
    low, high = -(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1
    for node in graph:
        found = ranges.get(node.outputs[0]) if node.op_type in PRODUCTS else None
        if node.domain != "" or found is None:
            continue
        for sign, end in ((1, max(found.high, found.most)), (-1, min(found.low, found.least))):
            if low <= end <= high:
                continue
            data = ranges.get(node.inputs[0]) if node.inputs[0] is not None else None
            yield _witness(node, data, sign, end)


def _witness(node: ir.Node, data: IntegerRange | None, sign: int, end: float) -> Overflow:
    weights = constant_of(node.inputs[1])
    sums = None if weights is None else sums_of(node, weights.numpy().astype(np.float64))
    if data is None or sums is None:
        return Overflow(node, end)
    low, high = data.low, data.high
    if may_skip(node):
        low, high = min(low, 0.0), max(high, 0.0)
    bias = constant_of(node.inputs[2]) if len(node.inputs) > 2 else None
    start = 0.0 if bias is None else np.maximum(sign * bias.numpy().astype(np.float64), 0)
    best = Overflow(node, end)
    most = -np.inf
    for factors in sums:
        rows = factors.reshape(-1, factors.shape[-1])
        values = np.where(sign * rows >= 0, high, low)
        reached = np.maximum(sign * rows * values, 0).sum(-1) + start
        row = int(reached.argmax())
        if reached[row] > most:
            most = float(reached[row])
            best = Overflow(node, sign * most, row, tuple(values[row].tolist()))
    return best


__all__ = ["Overflow", "accumulators", "overflows"]
