"""Lengths cut at a table's end: positions 0 to n - 1 of a table of 512."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes._support.knowledge import Knowledge

Caps = dict[str, str]
"""The name of a dimension that is the smaller of a number and another: the other's name."""

BROADCASTING = frozenset(
    ("Add", "Sub", "Mul", "Div", "And", "Or", "Xor", "Where", "Equal", "Less", "Greater")
) | {"LessOrEqual", "GreaterOrEqual", "Min", "Max", "Sum", "Mean", "Pow"}


def caps_of(node: ir.Node, facts: Knowledge) -> Caps:
    """Return the caps that a Slice of axes of fixed sizes makes, from 0 to a dimension."""
    data, result = node.inputs[0], node.outputs[0]
    if node.attributes or data is None or data.shape is None or result.shape is None:
        return {}
    rank = len(data.shape)
    given = [facts.of(value) for value in node.inputs[1:]]
    starts, ends, axes, steps = (given + [None] * 4)[:4]
    if starts is None or ends is None or len(result.shape) != rank:
        return {}
    plain = len(node.inputs) < 5 or (steps is not None and set(steps.numbers or [0]) == {1})
    numbers = list(range(rank)) if len(node.inputs) < 4 else None
    if axes is not None:
        numbers = axes.numbers
    if not plain or numbers is None:
        return {}
    found = {}
    for start, end, axis in zip(starts.elements, ends.elements, numbers, strict=False):
        dim = result.shape[axis]
        cut = dim.value if isinstance(dim, ir.SymbolicDim) else None
        if start != 0 or cut is None or not isinstance(data.shape[axis], int):
            continue
        if isinstance(end, tuple) and end[0] == "name" and end[1] != cut:
            found[cut] = str(end[1])
    return found


def widened(node: ir.Node, caps: Caps) -> list[int | str | None] | None:
    """Return the dimensions of a broadcast of which one operand's is the other's, cut.

    The two fit only where nothing is cut, or either is 1: the result has the dimension itself.
    None where there is none of that.
    """
    shapes = [value.shape for value in node.inputs if value is not None]
    if node.op_type not in BROADCASTING or not caps or None in shapes:
        return None
    rank = max(len(shape or ()) for shape in shapes)
    dims: list[int | str | None] = [None] * rank
    for axis in range(-rank, 0):
        sizes = {
            dim if isinstance(dim, int) else dim.value
            for shape in shapes
            if shape is not None and len(shape) >= -axis
            for dim in (shape[axis],)
        } - {1}
        for size in sizes:
            whole = caps.get(size) if isinstance(size, str) else None
            if whole is not None and sizes == {size, whole}:
                dims[axis] = whole
    return None if all(dim is None for dim in dims) else dims
