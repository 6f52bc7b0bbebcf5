"""Bounds of the elements of a value, and the bounds that a Clip gives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.domains.intervals import of_type
from onnx_passes.passes.base import Op
from onnx_passes.passes.common.matches import float_info
from onnx_passes.passes.constants import constant_of

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
    ``or_minus_infinity`` passes over elements that are minus infinity; ``depth`` is in nodes.
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


@dataclass(frozen=True)
class ClipBounds:
    """What a Clip does, ``min(max(x, low), high)``, with its numbers in their own type.

    ``low`` is the lowest finite number of the type for no bound; ``high`` also holds where
    ``low`` is above it.
    """

    low: Any
    high: Any
    dtype: ir.DataType

    @classmethod
    def all_of(cls, dtype: ir.DataType) -> ClipBounds:
        """Return the bounds of a Clip without bounds: infinities become finite."""
        info = _range(dtype)
        kind = dtype.numpy().type
        return cls(kind(info.min), kind(info.max), dtype)

    def clip(self, number: object) -> Any:
        """Return what a number becomes; on a tie it stays, which matters for -0."""
        raised = self.low if number < self.low else number
        return self.high if raised > self.high else raised

    def then(self, after: ClipBounds) -> ClipBounds:
        """Return the bounds of both Clip in a row.

        Each keeps order, and is constant outside of its bounds: so is the chain, and its
        bounds are what the second makes of the first's.
        """
        return ClipBounds(
            after.clip(self.clip(self.low)), after.clip(self.clip(self.high)), self.dtype
        )

    def build(self, op: Op, x: ir.Value, *, attributes: bool) -> ir.Value:
        """Return the Clip of ``x``; bounds that are those of the type are left out.

        Bounds are ``attributes`` before opset 11, and inputs later.
        """
        whole = ClipBounds.all_of(self.dtype)
        bounds = [
            None if number == limit else number
            for number, limit in ((self.low, whole.low), (self.high, whole.high))
        ]
        made: ir.Value
        if attributes:
            named = zip(("min", "max"), bounds, strict=True)
            made = op.Clip(x, **{name: float(b) for name, b in named if b is not None})
            return made
        while bounds and bounds[-1] is None:
            bounds.pop()
        arrays = [None if b is None else np.array(b, self.dtype.numpy()) for b in bounds]
        inputs = [None if a is None else op.Constant(value=ir.tensor(a)) for a in arrays]
        made = op.Clip(x, *inputs)
        return made


def clip_bounds_of(node: ir.Node, dtype: ir.DataType | None) -> ClipBounds | None:
    """Return the bounds of a Clip or Relu on a tensor of type ``dtype``.

    None if they are computed, may be overridden, or are not numbers, or if the type is not
    known.
    """
    tensors = [constant_of(value) for value in node.inputs[1:3]]
    if any(v is not None for v in node.inputs[1:]):
        present = [t for t in tensors if t is not None]
        if len(present) != sum(v is not None for v in node.inputs[1:3]):
            return None
        dtype = present[0].dtype
    if dtype is None or not (dtype.is_floating_point() or dtype.is_integer()):
        return None
    if dtype.bitwidth < 8 or "FLOAT8" in dtype.name:
        return None
    whole, kind = ClipBounds.all_of(dtype), dtype.numpy().type
    if node.op_type == "Relu":
        # A Relu leaves infinity as it is.
        high = kind(np.inf) if dtype.is_floating_point() else whole.high
        return ClipBounds(kind(0), high, dtype)
    numbers: list[Any] = [whole.low, whole.high]
    for index, tensor in enumerate(tensors):
        if tensor is not None:
            if tensor.size != 1:
                return None
            numbers[index] = tensor.numpy().reshape(-1)[0]
    for index, name in enumerate(("min", "max")):
        given = node.attributes.get_float(name)
        if given is not None:
            with np.errstate(over="ignore"):
                numbers[index] = kind(given)
    if any(number != number for number in numbers):
        return None
    return ClipBounds(numbers[0], numbers[1], dtype)


def gives_attributes(*nodes: ir.Node) -> bool | None:
    """Whether Clip has attributes for bounds here (before opset 11); None if unknown."""
    if any(name in node.attributes for node in nodes for name in ("min", "max")):
        return True
    return False if any(len(node.inputs) > 1 for node in nodes) else None


def _range(dtype: ir.DataType) -> Any:
    if dtype.is_floating_point():
        return float_info(dtype)
    return np.iinfo(dtype.numpy())
