"""Integers of a model that sizes meet: where a Slice ends, what a Min of a Shape holds.

A rewrite may be right up to such a size and wrong beyond it. One of the samples has sizes
beyond; where none has, the report names the integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import onnx_ir as ir

from onnx_passes.model.walk import all_nodes
from onnx_passes.ops.input_hints import constant_of
from onnx_passes.runtime.engine_base import Feeds

_COMPARED = frozenset(
    ("Clip", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "Mod")
)
_ORIGINS = frozenset(("NonZero", "Range", "Shape", "Size"))
"""Operators whose results follow sizes."""
_NARROW = {ir.DataType.UINT8: 255, ir.DataType.INT8: 127}
_FARTHEST = 1 << 20
"""An end beyond this does not mean a size."""
_STEPS = 24
"""Nodes that a number is followed back through."""


def size_limits(model: ir.Model, *, sure: bool = False) -> dict[int, str]:
    """Return integers above 1 that sizes of the model meet, each with what holds it.

    Sizes that are fixed meet nothing. A shape that is not known may be dynamic, but for
    ``sure``.
    """
    found: dict[int, str] = {}
    for node in all_nodes(model):
        for number, what in _limits(node, sure):
            if 1 < number < _FARTHEST:
                found.setdefault(number, f"{node.op_type} {what} {number}")
    return found


def not_crossed(limits: Mapping[int, str], samples: Iterable[Feeds]) -> list[str]:
    """Return what holds integers that no size in samples is beyond, and the largest size."""
    arrays = [data for feeds in samples for data in feeds.values()]
    sizes = [size for data in arrays if isinstance(data, np.ndarray) for size in data.shape]
    most = max(sizes, default=0)
    return [
        f"sizes up to {most} were tried; {what}"
        for number, what in sorted(limits.items())
        if number >= most
    ]


def _limits(node: ir.Node, sure: bool) -> Iterator[tuple[int, str]]:
    if node.domain:
        return
    if node.op_type == "Slice":
        yield from ((end, "ends at") for end in _ends(node, sure))
    elif node.op_type == "TopK" and len(node.inputs) > 1:
        if _is_dynamic(node.inputs[0], node.attributes.get_int("axis", -1), sure):
            yield from ((number, "takes") for number in _integers(node.inputs[1]))
    elif node.op_type in _COMPARED:
        known = [[*_integers(value)] for value in node.inputs]
        if any(
            not one and value is not None and _follows_sizes(value, _STEPS)
            for one, value in zip(known, node.inputs, strict=True)
        ):
            yield from ((number, "holds") for one in known for number in one)
    elif node.op_type == "Cast":
        to = ir.DataType(node.attributes.get_int("to", 0))
        value = node.inputs[0]
        if to in _NARROW and value is not None and _follows_sizes(value, _STEPS):
            yield _NARROW[to], "holds at most"


def _ends(node: ir.Node, sure: bool) -> Iterator[int]:
    if len(node.inputs) < 3:
        numbers = [[*node.attributes.get_ints(name, ())] for name in ("starts", "ends")]
        axes = [*node.attributes.get_ints("axes", ())]
    else:
        numbers = [[*_integers(value)] for value in node.inputs[1:3]]
        axes = [*_integers(node.inputs[3])] if len(node.inputs) > 3 else []
    for side in numbers:
        for axis, number in zip(axes or range(len(side)), side, strict=False):
            if _is_dynamic(node.inputs[0], axis, sure):
                yield number


def _integers(value: ir.Value | None) -> Iterator[int]:
    array = None if value is None else constant_of(value)
    if array is not None and array.dtype.kind in "iu" and array.size <= 8:
        yield from map(int, array.ravel())


def _is_dynamic(value: ir.Value | None, axis: int, sure: bool) -> bool:
    if value is None or value.shape is None:
        return not sure
    dims = value.shape.dims
    return -len(dims) <= axis < len(dims) and not isinstance(dims[axis], int)


def _follows_sizes(value: ir.Value, steps: int) -> bool:
    """Whether an integer is computed from sizes, by a few nodes."""
    left, seen = [value], set[ir.Value]()
    while left and len(seen) < steps:
        one = left.pop()
        node = one.producer()
        if one in seen or node is None:
            continue
        seen.add(one)
        if node.domain == "" and node.op_type in _ORIGINS:
            return True
        left += [each for each in node.inputs if each is not None]
    return False
