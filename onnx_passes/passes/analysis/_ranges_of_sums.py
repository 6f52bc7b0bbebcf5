"""Ranges of operators that sum, whose order engines choose."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from onnx_passes.passes._support.shapes import sizes_of
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.analysis._intervals import (
    ULPS,
    UNBOUNDED,
    Array,
    Interval,
    Known,
    hull,
    multiplied,
    widened,
)


def _weighted(
    node: ir.Node, data: Interval, positive: Array, negative: Array, bias: Array
) -> Interval:
    """Bound sums of weighted elements, whose weights' parts are summed by output."""
    low, high = data
    if not math.isfinite(low) or not math.isfinite(high):
        return UNBOUNDED
    highest = positive * high + negative * low + bias
    lowest = positive * low + negative * high + bias
    largest = max(abs(low), abs(high))
    size = float(((positive - negative) * largest + np.abs(bias)).max())
    return widened(node, (float(lowest.min()), float(highest.max())), size)


def _parts(weights: Array, axes: tuple[int, ...]) -> tuple[Array, Array, int]:
    wide = weights.astype(np.float64)
    terms = math.prod(weights.shape[axis] for axis in axes)
    return np.maximum(wide, 0).sum(axes), np.minimum(wide, 0).sum(axes), terms


def _array(value: ir.Value | None) -> Array | None:
    tensor = constant_of(value)
    return None if tensor is None else tensor.numpy()


def _more(found: Interval, node: ir.Node, terms: int) -> Interval:
    """Widen once more for each term of a sum, whose order engines choose."""
    size = max(abs(found[0]), abs(found[1]))
    low, high = widened(node, found, size * max(1, terms) / ULPS)
    return low, high


def matmul(known: Known, node: ir.Node) -> Interval:
    right = _array(node.inputs[1])
    if right is not None and right.ndim >= 2 and right.size:
        positive, negative, terms = _parts(right, (-2,))
        zero = np.zeros(1)
        found = _weighted(node, known.of(node.inputs[0]), positive, negative, zero)
        return _sum_error(node, known.of(node.inputs[0]), positive, negative, terms, found)
    shape = sizes_of(node.inputs[0])
    if not shape:
        return UNBOUNDED
    terms = shape[-1]
    low, high = multiplied(known.of(node.inputs[0]), known.of(node.inputs[1]))
    if not math.isfinite(low) or not math.isfinite(high):
        return UNBOUNDED
    return _more((terms * low, terms * high), node, terms)


def _sum_error(
    node: ir.Node,
    data: Interval,
    positive: Array,
    negative: Array,
    terms: int,
    found: Interval,
) -> Interval:
    """Widen by the rounding of sums of that many terms."""
    if not all(map(math.isfinite, found)):
        return found
    largest = float((positive - negative).max()) * max(abs(data[0]), abs(data[1]))
    return widened(node, found, largest * max(1, terms) / ULPS)


def gemm(known: Known, node: ir.Node) -> Interval:
    right = _array(node.inputs[1])
    plain = all(node.attributes.get_float(n, 1.0) == 1.0 for n in ("alpha", "beta"))
    if right is None or not plain or not right.size:
        return UNBOUNDED
    axis = 1 if node.attributes.get_int("transB", 0) else 0
    positive, negative, terms = _parts(right, (axis,))
    added = node.inputs[2] if len(node.inputs) > 2 else None
    bias = np.zeros(1)
    if added is not None:
        given = _array(added)
        if given is None or given.ndim > 1:
            return UNBOUNDED
        bias = given.astype(np.float64)
    data = known.of(node.inputs[0])
    found = _weighted(node, data, positive, negative, bias)
    return _sum_error(node, data, positive, negative, terms, found)


def conv(known: Known, node: ir.Node) -> Interval:
    weights = _array(node.inputs[1])
    added = node.inputs[2] if len(node.inputs) > 2 else None
    bias = np.zeros(1) if added is None else _array(added)
    if weights is None or bias is None or not weights.size:
        return UNBOUNDED
    # What is padded, or may be, is 0.
    data = hull(known.of(node.inputs[0]), (0.0, 0.0))
    positive, negative, terms = _parts(weights, tuple(range(1, weights.ndim)))
    found = _weighted(node, data, positive, negative, bias.astype(np.float64))
    return _sum_error(node, data, positive, negative, terms, found)


def batch_normalization(known: Known, node: ir.Node) -> Interval:
    arrays = [_array(value) for value in node.inputs[1:5]]
    low, high = known.of(node.inputs[0])
    if any(a is None for a in arrays) or node.attributes.get_int("training_mode", 0) == 1:
        return UNBOUNDED
    scale, shift, mean, variance = (a.astype(np.float64) for a in arrays if a is not None)
    if not (math.isfinite(low) and math.isfinite(high)) or len(node.outputs) > 1:
        return UNBOUNDED
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + node.attributes.get_float("epsilon", 1e-5))
        ends = np.stack([(end - mean) * factor + shift for end in (low, high)])
        largest = np.abs(factor) * (max(abs(low), abs(high)) + np.abs(mean)) + np.abs(shift)
    return widened(node, (float(ends.min()), float(ends.max())), float(largest.max()))


def mean(known: Known, node: ir.Node) -> Interval:
    found = known.of(node.inputs[0])
    shape = sizes_of(node.inputs[0])
    if shape is None or 0 in shape:
        return UNBOUNDED
    return _more(found, node, math.prod(shape))


def largest_of(known: Known, node: ir.Node) -> Interval:
    sizes = node.inputs[0].shape if node.inputs[0] is not None else None
    return UNBOUNDED if sizes is None or 0 in list(sizes) else known.of(node.inputs[0])


def average_pool(known: Known, node: ir.Node) -> Interval:
    found = hull(known.of(node.inputs[0]), (0.0, 0.0))
    return _more(found, node, math.prod(node.attributes.get_ints("kernel_shape", (1,))))
