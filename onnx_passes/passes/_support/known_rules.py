"""How operators carry along what is known of integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import onnx_ir as ir

from onnx_passes.passes._support.known import (
    INTEGERS,
    MAX_ELEMENTS,
    Element,
    Known,
    dimension,
)
from onnx_passes.passes._support.sizes import (
    add,
    divide,
    is_dimension,
    is_never_negative,
    multiply,
    subtract,
)


class Facts(Protocol):
    """What is known of values."""

    def of(self, value: ir.Value | None) -> Known | None:
        """Return what is known of a value."""
        ...

    def numbers(self, value: ir.Value | None) -> list[int] | None:
        """Return the elements of a value, if all are known."""
        ...

    def axes(self, node: ir.Node) -> list[int] | None:
        """Return the axes of Squeeze or Unsqueeze."""
        ...


Rule = Callable[[Facts, ir.Node], Known | None]
INT32_MAX = 2**31 - 1


def _input(node: ir.Node, index: int) -> ir.Value | None:
    return node.inputs[index] if index < len(node.inputs) else None


def _shape(facts: Facts, node: ir.Node) -> Known | None:
    value = node.inputs[0]
    if value is None or value.shape is None:
        return None
    # Both count from the end if negative, and are clamped, as Python's slices are.
    start = node.attributes.get_int("start", 0)
    end = node.attributes.get_int("end", len(value.shape))
    axes = range(len(value.shape))[slice(start, end)]
    elements = tuple(dimension(value, axis) for axis in axes)
    return Known(elements, 1, ir.DataType.INT64)


def _size(facts: Facts, node: ir.Node) -> Known | None:
    value = node.inputs[0]
    known = facts.of(value)
    if known is not None:
        return Known((len(known.elements),), 0, ir.DataType.INT64)
    if value is None or value.shape is None:
        return None
    total: Element = 1
    for axis in range(len(value.shape)):
        total = multiply(total, dimension(value, axis))
    return Known((total,), 0, ir.DataType.INT64)


def _gather(facts: Facts, node: ir.Node) -> Known | None:
    data, indices = facts.of(node.inputs[0]), facts.of(_input(node, 1))
    if data is None or data.rank != 1 or indices is None:
        return None
    if node.attributes.get_int("axis", 0) not in (0, -1):
        return None
    count = len(data.elements)
    positions = [i for i in indices.elements if isinstance(i, int) and -count <= i < count]
    if len(positions) != len(indices.elements):
        return None
    return Known(tuple(data.elements[i] for i in positions), indices.rank, data.dtype)


def _slice(facts: Facts, node: ir.Node) -> Known | None:
    data = facts.of(node.inputs[0])
    if data is None or data.rank != 1:
        return None
    starts: list[int] | None
    ends: list[int] | None
    if node.attributes:  # before opset 10
        starts = list(node.attributes.get_ints("starts") or ())
        ends = list(node.attributes.get_ints("ends") or ())
        steps = [1]
    else:
        starts, ends = facts.numbers(_input(node, 1)), facts.numbers(_input(node, 2))
        steps = [1] if _input(node, 4) is None else facts.numbers(_input(node, 4)) or []
    if not (starts and ends and steps) or len(starts) != 1 or steps[0] == 0:
        return None
    indices = _taken(starts[0], ends[0], steps[0], len(data.elements))
    if indices is None:
        return None
    return Known(tuple(data.elements[i] for i in indices), 1, data.dtype)


def _taken(start: int, end: int, step: int, count: int) -> range | None:
    """Return what a Slice takes of so many elements; None where engines differ.

    Unlike Python's slices, a start before the first element is moved to it backwards as well.
    """
    if step < 0 and end >= INT32_MAX:
        return None  # "to the end": nothing by the standard, all the rest by ONNX Runtime
    least, most = (0, count) if step > 0 else (-1, count - 1)
    start = min(max(start + count if start < 0 else start, 0), most)
    end = min(max(end + count if end < 0 else end, least), most)
    return range(start, end, step) if count else range(0)


def _concat(facts: Facts, node: ir.Node) -> Known | None:
    parts = [facts.of(value) for value in node.inputs]
    elements: list[Element] = []
    for part, value in zip(parts, node.inputs, strict=True):
        if part is not None and part.rank == 1:
            elements.extend(part.elements)
        elif value is not None and value.shape is not None and value.shape.rank() == 1:
            count = value.shape[0]
            if not isinstance(count, int) or value.dtype not in INTEGERS:
                return None
            elements.extend([None] * count)
        else:
            return None
    dtype = next((part.dtype for part in parts if part is not None), None)
    return None if dtype is None else Known(tuple(elements), 1, dtype)


def _same(facts: Facts, node: ir.Node) -> Known | None:
    return facts.of(node.inputs[0])


def _squeeze(facts: Facts, node: ir.Node) -> Known | None:
    data = facts.of(node.inputs[0])
    if data is None or data.rank != 1 or len(data.elements) != 1:
        return None
    return Known(data.elements, 0, data.dtype)


def _unsqueeze(facts: Facts, node: ir.Node) -> Known | None:
    data, axes = facts.of(node.inputs[0]), facts.axes(node)
    if data is None or data.rank != 0 or axes is None or len(axes) != 1:
        return None
    return Known(data.elements, 1, data.dtype)


def _reshape(facts: Facts, node: ir.Node) -> Known | None:
    data, target = facts.of(node.inputs[0]), facts.numbers(_input(node, 1))
    if data is None or target is None or len(target) > 1:
        return None
    if target and target[0] not in (-1, len(data.elements)):
        return None
    if not target and len(data.elements) != 1:
        return None
    return Known(data.elements, len(target), data.dtype)


def _cast(facts: Facts, node: ir.Node) -> Known | None:
    data, to = facts.of(node.inputs[0]), ir.DataType(node.attributes["to"].as_int())
    if data is None or to not in INTEGERS:
        return None
    # A dimension of 2^31 or more would wrap around; no tensor that fits a machine has one.
    # What is computed of several may.
    same = to is data.dtype
    kept = (
        e if same or isinstance(e, int) or is_dimension(e) else None for e in data.elements
    )
    return Known(tuple(kept), data.rank, to)


def _binary(
    combine: Callable[[Element, Element], Element], result: ir.DataType | None = None
) -> Rule:
    def rule(facts: Facts, node: ir.Node) -> Known | None:
        left, right = facts.of(node.inputs[0]), facts.of(_input(node, 1))
        if left is None or right is None:
            return None
        count = _broadcast(left, right)
        if count is None:
            return None
        pairs = zip(_repeat(left, count), _repeat(right, count), strict=True)
        elements = tuple(combine(a, b) for a, b in pairs)
        return Known(elements, max(left.rank, right.rank), result or left.dtype)

    return rule


def _broadcast(*parts: Known) -> int | None:
    counts = {len(part.elements) for part in parts} - {1}
    return None if len(counts) > 1 else counts.pop() if counts else 1


def _repeat(known: Known, count: int) -> tuple[Element, ...]:
    return known.elements * count if len(known.elements) == 1 else known.elements


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


def _many(choose: Callable[[int, int], int]) -> Rule:
    def combine(a: Element, b: Element) -> Element:
        if isinstance(a, int) and isinstance(b, int):
            return choose(a, b)
        return a if a == b else None

    def rule(facts: Facts, node: ir.Node) -> Known | None:
        return _binary(combine)(facts, node) if len(node.inputs) == 2 else None

    return rule


def _negative(facts: Facts, node: ir.Node) -> Known | None:
    data = facts.of(node.inputs[0])
    if data is None or data.dtype not in INTEGERS:
        return None
    return Known(tuple(subtract(0, e) for e in data.elements), data.rank, data.dtype)


def _product(facts: Facts, node: ir.Node) -> Known | None:
    """The product of all elements of a vector; which axes are meant does not matter then."""
    data = facts.of(node.inputs[0])
    if data is None or data.rank != 1 or not data.elements:
        return None
    if node.attributes.get_int("noop_with_empty_axes", 0):
        return None
    total: Element = 1
    for element in data.elements:
        total = multiply(total, element)
    keeps = node.attributes.get_int("keepdims")
    return Known((total,), 0 if keeps == 0 else 1, data.dtype)


def _where(facts: Facts, node: ir.Node) -> Known | None:
    condition, left, right = (facts.of(_input(node, i)) for i in range(3))
    if condition is None or left is None or right is None:
        return None
    count = _broadcast(condition, left, right)
    if count is None:
        return None
    triples = zip(*(_repeat(p, count) for p in (condition, left, right)), strict=True)
    # A condition that is not known leaves what both sides agree on.
    elements = tuple(
        (a if c else b) if isinstance(c, int) else a if a == b else None for c, a, b in triples
    )
    return Known(elements, max(condition.rank, left.rank, right.rank), left.dtype)


def _constant_of_shape(facts: Facts, node: ir.Node) -> Known | None:
    shape = facts.numbers(node.inputs[0])
    if shape is None or len(shape) > 1 or math.prod(shape) > MAX_ELEMENTS:
        return None
    fill = node.attributes.get_tensor("value")
    if fill is None or fill.dtype not in INTEGERS:
        return None
    number = int(fill.numpy().reshape(-1)[0])
    return Known((number,) * math.prod(shape), len(shape), fill.dtype)


RULES: dict[str, Rule] = {
    "Add": _binary(add),
    "Cast": _cast,
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "Div": _binary(divide),
    "Equal": _binary(_equal, ir.DataType.BOOL),
    "Gather": _gather,
    "Identity": _same,
    "Max": _many(max),
    "Min": _many(min),
    "Mul": _binary(multiply),
    "Neg": _negative,
    "ReduceProd": _product,
    "Reshape": _reshape,
    "Shape": _shape,
    "Size": _size,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Sub": _binary(subtract),
    "Unsqueeze": _unsqueeze,
    "Where": _where,
}
