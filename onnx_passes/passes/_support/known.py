"""What is known of shape arithmetic while some dimensions are dynamic.

``Shape`` of ``[N, 3]`` is known in half: its first element is whatever ``N`` is, its second
is 3. The operators of shape arithmetic carry that along.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.passes._support.tensors import constant_of

MAX_ELEMENTS = 256

Size = tuple[str, object]
"""A dynamic dimension, at least 0: its name, or the value and axis it belongs to."""

Element = int | Size | None
"""An element of a shape: its value, the dimension it is, or unknown."""

_INTEGERS = (ir.DataType.INT64, ir.DataType.INT32)

_RANGES = {
    ir.DataType.INT64: (-(1 << 63), (1 << 63) - 1),
    ir.DataType.INT32: (-(1 << 31), (1 << 31) - 1),
    ir.DataType.BOOL: (0, 1),
}


@dataclass(frozen=True)
class Known:
    """What is known of an integer or boolean tensor of rank 0 or 1.

    Attributes:
        elements: Its elements; one for rank 0.
        rank: 0 or 1.
        dtype: Its element type.
    """

    elements: tuple[Element, ...]
    rank: int
    dtype: ir.DataType

    @property
    def numbers(self) -> list[int] | None:
        """The elements, if every one is a number."""
        found = [e for e in self.elements if isinstance(e, int)]
        return found if len(found) == len(self.elements) else None

    def tensor(self) -> ir.TensorProtocol | None:
        """Return the tensor, if every element is a number."""
        numbers = self.numbers
        if numbers is None:
            return None
        array = np.array(numbers, dtype=self.dtype.numpy())
        return ir.Tensor(array.reshape(()) if self.rank == 0 else array)


def dimension(value: ir.Value, axis: int) -> Element:
    """Return one dimension of a value whose rank is known."""
    assert value.shape is not None, "the rank is known"
    dim = value.shape[axis]
    if isinstance(dim, int):
        return dim
    return ("name", dim.value) if dim.value is not None else ("axis", (value, axis))


class Knowledge:
    """What is known of the values of a model, filled node by node in topological order."""

    def __init__(self, imports: Mapping[str, int]) -> None:
        """Know nothing yet.

        Args:
            imports: The opset imports around the nodes.
        """
        self._opset = imports.get("", 1)
        self._found: dict[ir.Value, Known] = {}

    def of(self, value: ir.Value | None) -> Known | None:
        """Return what is known of a value; a constant is known in full."""
        if value is None:
            return None
        if value in self._found:
            return self._found[value]
        tensor = constant_of(value)
        if tensor is None or tensor.dtype not in (*_INTEGERS, ir.DataType.BOOL):
            return None
        rank = len(tensor.shape)
        if rank > 1 or tensor.size > MAX_ELEMENTS:
            return None
        elements = tuple(int(e) for e in tensor.numpy().reshape(-1))
        self._found[value] = known = Known(elements, rank, tensor.dtype)
        return known

    def visit(self, node: ir.Node) -> Known | None:
        """Find out what is known of a node's only output."""
        rule = _RULES.get(node.op_type) if node.domain == "" else None
        if rule is None or len(node.outputs) != 1:
            return None
        if any(attribute.is_ref() for attribute in node.attributes.values()):
            return None
        known = rule(self, node)
        if known is None or len(known.elements) > MAX_ELEMENTS:
            return None
        low, high = _RANGES[known.dtype]
        # What overflows wraps around: none of the rules may go on from it.
        elements = tuple(
            None if isinstance(e, int) and not low <= e <= high else e for e in known.elements
        )
        self._found[node.outputs[0]] = known = Known(elements, known.rank, known.dtype)
        return known

    def numbers(self, value: ir.Value | None) -> list[int] | None:
        """Return the elements of a value, if all are known."""
        known = self.of(value)
        return None if known is None else known.numbers

    def axes(self, node: ir.Node) -> list[int] | None:
        """Return the axes of Squeeze or Unsqueeze; an input since opset 13."""
        if self._opset < 13:
            attribute = node.attributes.get("axes")
            return list(attribute.as_ints()) if attribute is not None else None
        return self.numbers(_input(node, 1))


def _input(node: ir.Node, index: int) -> ir.Value | None:
    return node.inputs[index] if index < len(node.inputs) else None


def _shape(facts: Knowledge, node: ir.Node) -> Known | None:
    value = node.inputs[0]
    if value is None or value.shape is None:
        return None
    # Both count from the end if negative, and are clamped, as Python's slices are.
    start = node.attributes.get_int("start", 0)
    end = node.attributes.get_int("end", len(value.shape))
    axes = range(len(value.shape))[slice(start, end)]
    elements = tuple(dimension(value, axis) for axis in axes)
    return Known(elements, 1, ir.DataType.INT64)


def _size(facts: Knowledge, node: ir.Node) -> Known | None:
    value = node.inputs[0]
    known = facts.of(value)
    if known is not None:
        return Known((len(known.elements),), 0, ir.DataType.INT64)
    if value is None or value.shape is None:
        return None
    sizes = [d for d in value.shape if isinstance(d, int)]
    if len(sizes) != len(value.shape):
        return None
    return Known((math.prod(sizes),), 0, ir.DataType.INT64)


def _gather(facts: Knowledge, node: ir.Node) -> Known | None:
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


def _slice(facts: Knowledge, node: ir.Node) -> Known | None:
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
    start, end, step = starts[0], ends[0], steps[0]
    count = len(data.elements)
    if step < 0 and end < -count:
        # ONNX means before the first element, which Python's slices have no number for.
        return Known(data.elements[slice(start, None, step)], 1, data.dtype)
    return Known(data.elements[slice(start, end, step)], 1, data.dtype)


def _concat(facts: Knowledge, node: ir.Node) -> Known | None:
    parts = [facts.of(value) for value in node.inputs]
    elements: list[Element] = []
    for part, value in zip(parts, node.inputs, strict=True):
        if part is not None and part.rank == 1:
            elements.extend(part.elements)
        elif value is not None and value.shape is not None and value.shape.rank() == 1:
            count = value.shape[0]
            if not isinstance(count, int) or value.dtype not in _INTEGERS:
                return None
            elements.extend([None] * count)
        else:
            return None
    dtype = next((part.dtype for part in parts if part is not None), None)
    return None if dtype is None else Known(tuple(elements), 1, dtype)


def _same(facts: Knowledge, node: ir.Node) -> Known | None:
    return facts.of(node.inputs[0])


def _squeeze(facts: Knowledge, node: ir.Node) -> Known | None:
    data = facts.of(node.inputs[0])
    if data is None or data.rank != 1 or len(data.elements) != 1:
        return None
    return Known(data.elements, 0, data.dtype)


def _unsqueeze(facts: Knowledge, node: ir.Node) -> Known | None:
    data, axes = facts.of(node.inputs[0]), facts.axes(node)
    if data is None or data.rank != 0 or axes is None or len(axes) != 1:
        return None
    return Known(data.elements, 1, data.dtype)


def _reshape(facts: Knowledge, node: ir.Node) -> Known | None:
    data, target = facts.of(node.inputs[0]), facts.numbers(_input(node, 1))
    if data is None or target is None or len(target) > 1:
        return None
    if target and target[0] not in (-1, len(data.elements)):
        return None
    if not target and len(data.elements) != 1:
        return None
    return Known(data.elements, len(target), data.dtype)


def _cast(facts: Knowledge, node: ir.Node) -> Known | None:
    data, to = facts.of(node.inputs[0]), ir.DataType(node.attributes["to"].as_int())
    # A dimension of 2^31 or more would wrap around; no tensor that fits a machine has one.
    if data is None or to not in _INTEGERS:
        return None
    return Known(data.elements, data.rank, to)


def _binary(
    combine: Callable[[Element, Element], Element], result: ir.DataType | None = None
) -> Callable[[Knowledge, ir.Node], Known | None]:
    def rule(facts: Knowledge, node: ir.Node) -> Known | None:
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


def _add(a: Element, b: Element) -> Element:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    return b if a == 0 else a if b == 0 else None


def _sub(a: Element, b: Element) -> Element:
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    if a is not None and a == b:
        return 0
    return a if b == 0 else None


def _mul(a: Element, b: Element) -> Element:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if a == 0 or b == 0:
        return 0
    return b if a == 1 else a if b == 1 else None


def _div(a: Element, b: Element) -> Element:
    if isinstance(a, int) and isinstance(b, int) and a >= 0 and b > 0:
        return a // b
    return a if b == 1 else None


def _equal(a: Element, b: Element) -> Element:
    if isinstance(a, int) and isinstance(b, int):
        return int(a == b)
    if a is not None and a == b:
        return 1
    # A dimension is never negative.
    negative = any(isinstance(e, int) and e < 0 for e in (a, b))
    return 0 if negative and a is not None and b is not None else None


def _where(facts: Knowledge, node: ir.Node) -> Known | None:
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


def _constant_of_shape(facts: Knowledge, node: ir.Node) -> Known | None:
    shape = facts.numbers(node.inputs[0])
    if shape is None or len(shape) > 1 or math.prod(shape) > MAX_ELEMENTS:
        return None
    fill = node.attributes.get_tensor("value")
    if fill is None or fill.dtype not in _INTEGERS:
        return None
    number = int(fill.numpy().reshape(-1)[0])
    return Known((number,) * math.prod(shape), len(shape), fill.dtype)


_RULES: dict[str, Callable[[Knowledge, ir.Node], Known | None]] = {
    "Add": _binary(_add),
    "Cast": _cast,
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "Div": _binary(_div),
    "Equal": _binary(_equal, ir.DataType.BOOL),
    "Gather": _gather,
    "Identity": _same,
    "Mul": _binary(_mul),
    "Reshape": _reshape,
    "Shape": _shape,
    "Size": _size,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Sub": _binary(_sub),
    "Unsqueeze": _unsqueeze,
    "Where": _where,
}
