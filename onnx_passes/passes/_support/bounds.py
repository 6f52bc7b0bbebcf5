"""Between which numbers the elements of a value lie."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.domains.intervals import of_type
from onnx_passes.passes._support.tensors import constant_of

Bounds = tuple[float, float]

UNBOUNDED = (-np.inf, np.inf)
DEPTH = 20
LIMIT = float(np.finfo(np.float32).max) / 2
MOVES = frozenset(
    ("Identity", "Unsqueeze", "Squeeze", "Reshape", "Expand", "Transpose", "Slice", "Gather")
)
"""Operators whose output holds nothing but elements of their first input."""


def bounds_of(
    value: ir.Value | None, *, or_minus_infinity: bool = False, depth: int = DEPTH
) -> Bounds:
    """Return the least and the greatest number that an element of a value can be.

    Infinite where nothing better is known, and then an element may be NaN as well. Looks
    through what moves elements about, selects among them, and through sums and products.

    Args:
        value: The value.
        or_minus_infinity: Pass over elements that are minus infinity.
        depth: How many nodes deep to look.
    """
    if value is None:
        return UNBOUNDED
    tensor = constant_of(value)
    if tensor is not None and tensor.dtype.is_floating_point() and tensor.size:
        array = tensor.numpy().astype(np.float64)
        if or_minus_infinity:
            array = np.where(np.isneginf(array), 0, array)
        low, high = float(array.min()), float(array.max())
        return (low, high) if np.isfinite([low, high]).all() else UNBOUNDED
    node = value.producer()
    known = of_type(value.dtype)
    if node is None or node.domain or not depth or known != UNBOUNDED:
        return known
    if node.op_type == "ConstantOfShape":
        return _filled(node)
    return _computed(node, or_minus_infinity, depth - 1)


def _computed(node: ir.Node, or_minus_infinity: bool, depth: int) -> Bounds:
    inputs = list(node.inputs)
    if node.op_type in MOVES or node.op_type == "Cast":
        inputs = inputs[:1]
    elif node.op_type == "Where":
        inputs = inputs[1:]
    elif node.op_type not in ("Concat", "Neg", "Add", "Sub", "Mul"):
        return UNBOUNDED
    # Of minus infinity, a product may make plus infinity or NaN.
    passed_over = or_minus_infinity and node.op_type not in ("Neg", "Sub", "Mul")
    found = [bounds_of(v, or_minus_infinity=passed_over, depth=depth) for v in inputs]
    low, high = min(a for a, _ in found), max(b for _, b in found)
    if UNBOUNDED in found:
        return UNBOUNDED
    match node.op_type:
        case "Neg":
            return -high, -low
        case "Add":
            return _finite(sum(a for a, _ in found), sum(b for _, b in found))
        case "Sub":
            (a, b), (c, d) = found
            return _finite(a - d, b - c)
        case "Mul":
            products = [a * b for a in found[0] for b in found[1]]
            return _finite(min(products), max(products))
    return low, high


def _filled(node: ir.Node) -> Bounds:
    attribute = node.attributes.get("value")
    if attribute is not None and attribute.is_ref():
        return UNBOUNDED
    number = float(attribute.as_tensor().numpy().item()) if attribute is not None else 0.0
    return (number, number) if np.isfinite(number) else UNBOUNDED


def _finite(low: float, high: float) -> Bounds:
    """Return bounds that surely do not overflow in single precision, or none."""
    return (low, high) if -LIMIT < low <= high < LIMIT else UNBOUNDED
