"""Lengths cut at a table's end: positions 0 to n - 1 of a table of 512."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.ops.operator_class import operator_of
from onnx_passes.passes._support.knowledge import Knowledge
from onnx_passes.passes.annotated import INVENTED, is_invented

Dims = list[int | str | None]

Caps = dict[str, str]
"""The name of a dimension that is the smaller of a number and another: the other's name."""


def caps_of(node: ir.Node, facts: Knowledge) -> Caps:
    """Return the caps that a Slice of axes of fixed sizes makes, from 0 to a dimension.

    Args:
        node: The Slice.
        facts: Values that are known.
    """
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


def widened(node: ir.Node, caps: Caps) -> Dims | None:
    """Return what is known of a broadcast beyond what inference finds in one run.

    A dimension that an operand has in full and another cut. The two fit only if nothing is
    cut, or either is 1, so that the result has the dimension itself. And one that all have, as
    rules have found meanwhile. None where there is none of that.

    Args:
        node: An operator that broadcasts.
        caps: Caps of dimensions that are known.
    """
    result = node.outputs[0].shape
    if result is None or not any(map(is_invented, result.dims)):
        return None  # as of nearly all nodes
    if node.attributes:  # before opset 7 they say how to broadcast
        return None
    known: list[Dims] = []
    for value in node.inputs:
        if value is not None and value.shape is None:
            return None
        if value is not None and value.shape is not None:
            known.append(_dims(value.shape))
    rank, ends = len(result), Dims()
    if node.op_type == "MatMul":
        if min(map(len, known)) < 2:
            return None
        ends = [known[0][-2], known[1][-1]]
        known = [dims[:-2] for dims in known]
    elif (operator := operator_of(node)) is None or not operator.elementwise:
        return None
    if max(map(len, known)) + len(ends) != rank:
        return None
    dims = [_common(known, axis, caps) for axis in range(len(ends) - rank, 0)]
    dims = [d if is_invented(o) else None for d, o in zip(dims + ends, result, strict=True)]
    dims = [None if str(dim).startswith(INVENTED) else dim for dim in dims]
    return None if all(dim is None for dim in dims) else dims


def _common(known: list[Dims], axis: int, caps: Caps) -> int | str | None:
    """Return what operands have in common at an axis, counted from the last."""
    sizes = {dims[axis] for dims in known if len(dims) >= -axis} - {1}
    if len(sizes) == 1:
        return next(iter(sizes))
    for size in sizes:
        whole = caps.get(size) if isinstance(size, str) else None
        if whole is not None and sizes == {size, whole}:
            return whole
    return None


def _dims(shape: ir.Shape) -> Dims:
    return [d if isinstance(d, int) else d.value for d in shape]
