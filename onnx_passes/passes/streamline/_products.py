"""Bounds of integers, and of sums of their products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from types import EllipsisType

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.passes._support.tensors import constant_of

SPREADS = "ConvTranspose"
"""The operator that spreads each element of its data."""

CONVOLUTIONS = ("Conv", SPREADS)
PRODUCTS = frozenset({"MatMul", *CONVOLUTIONS})
"""Operators whose results are sums of products."""

_EXACT = 2.0**24
"""Up to here float32 holds every integer."""


@dataclass(frozen=True)
class IntegerRange:
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


def of_product(node: ir.Node, ranges: list[IntegerRange | None]) -> IntegerRange | None:
    """Bound sums of products, and what is summed up on the way in any order.

    Args:
        node: The product.
        ranges: Bounds of each operand; None if they are not known.
    """
    data, other = ranges[0], ranges[1]
    if data is None or other is None or any(r is None for r in ranges[2:]):
        return None
    weights = constant_of(node.inputs[1])
    if weights is None:
        return _of_computed(node, data, other) if node.op_type == "MatMul" else None
    sums = sums_of(node, weights.numpy().astype(np.float64))
    if sums is None:
        return None
    low, high = data.low, data.high
    if may_skip(node):
        low, high = min(low, 0.0), max(high, 0.0)
    found, partial = [], []
    for factors in sums:
        least = np.minimum(factors * low, factors * high)
        most = np.maximum(factors * low, factors * high)
        found.append((least.sum(-1).min(), most.sum(-1).max()))
        partial.append((np.minimum(least, 0).sum(-1).min(), np.maximum(most, 0).sum(-1).max()))
    bias = ranges[2] if len(ranges) > 2 else None
    start = (0.0, 0.0) if bias is None else (bias.low, bias.high)
    return IntegerRange(
        float(min(low for low, _ in found)) + start[0],
        float(max(high for _, high in found)) + start[1],
        least=float(min(low for low, _ in partial)) + min(start[0], 0),
        most=float(max(high for _, high in partial)) + max(start[1], 0),
    )


def may_skip(node: ir.Node) -> bool:
    """Whether some products are missing in sums at the borders."""
    if node.op_type == SPREADS:
        return True
    return any(node.attributes.get_ints("pads") or ()) or (
        node.attributes.get_string("auto_pad", "NOTSET") not in ("NOTSET", "VALID")
    )


def sums_of(node: ir.Node, weights: Array) -> list[Array] | None:
    """Return the factors of each sum, ``[..., products]``, by kinds of sums.

    Args:
        node: The product.
        weights: Its weights, float64 in the layout of the operator.
    """
    if weights.ndim < 2:
        return None
    if node.op_type == "MatMul":
        return [np.swapaxes(weights, -1, -2)]
    if node.op_type == "Conv":
        return [weights.reshape(len(weights), -1)]
    groups = node.attributes.get_int("group", 1) or 1
    inputs, outputs, *kernel = weights.shape
    taps = weights.reshape(groups, inputs // groups, outputs, *kernel).swapaxes(1, 2)
    # Elements of the result see every `stride`-th tap only, which ones depends on their place.
    strides = node.attributes.get_ints("strides") or [1] * len(kernel)
    if any(size != 1 for size in node.attributes.get_ints("dilations") or ()):
        strides = [1] * len(kernel)
    places = product(*map(range, strides))
    return [taps[_every(place, strides)].reshape(groups * outputs, -1) for place in places]


def _every(place: Sequence[int], strides: Sequence[int]) -> tuple[EllipsisType | slice, ...]:
    """Return an index of every `stride`-th tap from a place on."""
    steps = (slice(at, None, by) for at, by in zip(place, strides, strict=True))
    return (..., *steps)


def _of_computed(
    node: ir.Node, data: IntegerRange, other: IntegerRange
) -> IntegerRange | None:
    """Bound a product of two computed matrices by how many products are summed up."""
    sizes = (size_of(node.inputs[0], -1), size_of(node.inputs[1], -2))
    depth = next((size for size in sizes if size is not None), None)
    if depth is None:
        return None
    ends = [a * b for a in (data.low, data.high) for b in (other.low, other.high)]
    low, high = depth * min(ends), depth * max(ends)
    return IntegerRange(low, high, least=min(low, 0.0), most=max(high, 0.0))


def size_of(value: ir.Value | None, axis: int) -> int | None:
    """Return the size of an axis, counted from the end; None if it is not known.

    Args:
        value: The value; None for an input that is left out.
        axis: The axis, negative, from the end.
    """
    shape = None if value is None else value.shape
    if shape is None or len(shape) < -axis:
        return None
    size = shape[axis]
    return size if isinstance(size, int) else None


__all__ = [
    "CONVOLUTIONS",
    "PRODUCTS",
    "SPREADS",
    "IntegerRange",
    "may_skip",
    "of_product",
    "size_of",
    "sums_of",
]
