"""Integers; some are dynamic dimensions, or computed from such, or not known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.domains.known import INTEGERS, Element, dimension
from onnx_passes.ops.domains.polynomials import (
    add,
    divide,
    is_dimension,
    is_never_negative,
    multiply,
    subtract,
)
from onnx_passes.ops.semantics import Elements, Scalar, Semantics, Unsupported, scalars


class SizeSemantics(Semantics):
    """Elements of shapes: numbers, polynomials over dimensions, or None for the unknown."""

    def literal(self, value: bool | float, dtype: ir.DataType) -> Scalar:
        return int(value) if dtype.is_integer() or dtype is ir.DataType.BOOL else None

    def variable(self, name: str, dtype: ir.DataType) -> Scalar:
        return None

    def number(self, scalar: Scalar, dtype: ir.DataType) -> bool | int | float | None:
        return scalar if isinstance(scalar, int) else None

    def sizes(self, data: Elements, node: ir.Node, index: int) -> Elements:
        value = node.inputs[index]
        if value is None or value.shape is None:
            raise Unsupported("the sizes of a value of unknown rank")
        found = [dimension(value, axis) for axis in range(len(value.shape))]
        return scalars(found, (len(found),))

    def apply(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        match name, *args:
            case "add", a, b:
                return add(a, b)
            case "sub", a, b:
                return subtract(a, b)
            case "mul", a, b:
                return multiply(a, b)
            case "div", a, b:
                return divide(a, b)
            case "neg", a:
                return subtract(0, a)
            case "equal", a, b:
                return _equal(a, b)
            case ("max" | "min") as which, a, b:
                if isinstance(a, int) and isinstance(b, int):
                    return max(a, b) if which == "max" else min(a, b)
                return a if a == b else None
            case "select", condition, a, b:
                # A condition that is not known leaves what both sides agree on.
                if isinstance(condition, int):
                    return a if condition else b
                return a if a == b else None
        return None

    def cast(self, scalar: Scalar, source: ir.DataType, target: ir.DataType) -> Scalar:
        if target not in INTEGERS:
            raise Unsupported(f"sizes of type {target.name}")
        # A dimension of 2^31 or more would wrap around; no tensor that fits a machine has one.
        # What is computed of several may.
        kept = source is target or isinstance(scalar, int) or is_dimension(scalar)
        return scalar if kept else None

    def total(self, terms: Sequence[Scalar] | Elements, dtype: ir.DataType) -> Scalar:
        if not len(terms):
            raise Unsupported("a sum of nothing, of whose shape engines differ")
        return super().total(terms, dtype)

    def function(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        return None


def unknown(size: int) -> Elements:
    """Return a vector of so many unknown elements."""
    return scalars([None] * size, (size,))


def _equal(a: Element, b: Element) -> Element:
    if isinstance(a, int) and isinstance(b, int):
        return int(a == b)
    if a is not None and a == b:
        return 1
    below = [isinstance(e, int) and e < 0 for e in (a, b)]
    others = [
        is_never_negative(e) for e, is_below in zip((a, b), below, strict=True) if not is_below
    ]
    return 0 if below.count(True) == 1 and all(others) else None


EMPTY = np.zeros((), np.object_)
"""Replaces an operand whose sizes alone are read."""
