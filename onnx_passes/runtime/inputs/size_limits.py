"""Integers of a model that sizes meet: where a Slice ends, what a Min of a Shape holds.

A rewrite may be right up to such a size and wrong beyond it. Samples have sizes beyond; where
none has, the report names the integers that a pass removed or brought along.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.model.inference import infer
from onnx_passes.model.walk import all_nodes
from onnx_passes.ops.input_hints import constant_of
from onnx_passes.ops.node_queries import (
    ADDS_UP_SIZES,
    ARITHMETIC,
    EXTREMES,
    MAKES_SIZES,
    MEETS_SIZES,
    PASSED_ON,
    SUPPRESSES,
    UNDONE,
)
from onnx_passes.runtime.engine_base import Feeds
from onnx_passes.runtime.inputs.concrete_shapes import skeleton
from onnx_passes.runtime.inputs.dimensions import symbols_of_model

_INTEGERS = (ir.DataType.INT32, ir.DataType.INT64)
BEYOND = 2
"""How much larger a size is than the integer: an index of it is larger by 1."""
_EXACT = {
    ir.DataType.INT8: 127,
    ir.DataType.UINT8: 255,
    ir.DataType.INT16: 32767,
    ir.DataType.UINT16: 65535,
    ir.DataType.BFLOAT16: 256,
    ir.DataType.FLOAT16: 2048,
}
"""The largest integer up to which a type holds each."""
_LEAST = 4
"""Ordinary samples have sizes beyond smaller ones."""
_FARTHEST = 1 << 20
"""An end beyond this does not mean a size."""
_MOST = 8
"""Elements of a constant that may hold sizes."""
_MASKED = 2
"""How many times more elements a mask has than it lets through."""
_SUPPRESSED = 4
"""How many times more boxes there are than are left of them."""
_STEPS = 24
"""Nodes that a number is followed back through."""

Shapes = Mapping[str, Sequence[int | str | None]]


@dataclass(frozen=True, order=True)
class SizeLimit:
    """An integer that a size meets; the dimension is empty if its name is not known.

    If the shape is not ``known``, the size may be a fixed one.
    """

    number: int
    what: str
    dim: str = ""
    known: bool = True


def size_limits(model: ir.Model, shapes: Shapes | None = None) -> list[SizeLimit]:
    """Return the integers above 3 that dynamic sizes of a model meet, one for each use.

    ``shapes`` are those of values without one in the model.
    """
    found = []
    counters = {body.inputs[0] for _, body in _loops(model)}
    for node in all_nodes(model):
        for number, what, dim, known in _limits(node, shapes or {}, counters):
            if _LEAST <= abs(number) < _FARTHEST:
                found.append(SizeLimit(abs(number), f"{node.op_type} {what}", dim, known))
    return found


def trip_inputs(model: ir.Model) -> set[str]:
    """Return the names of inputs of one integer that a number of iterations follows."""
    return {
        str(value.name)
        for loop, _ in _loops(model)
        for value in _origins(loop.inputs[0])
        if value.is_graph_input()
        and value.graph is model.graph
        and value.dtype in (ir.DataType.INT32, ir.DataType.INT64)
        and value.shape is not None
        and all(dim == 1 for dim in value.shape)
    }


def _loops(model: ir.Model) -> Iterator[tuple[ir.Node, ir.Graph]]:
    for node in all_nodes(model):
        body = node.attributes.get("body")
        if node.op_type == "Loop" and not node.domain and body and not body.is_ref():
            yield node, body.as_graph()


def not_crossed(original: ir.Model, result: ir.Model, samples: Iterable[Feeds]) -> list[str]:
    """Return the integers that only one of two models has, and no sample is beyond.

    Dimensions that are fixed in the result have no other size.
    """
    changed = _changed(size_limits(original), size_limits(result))
    if not all(limit.known for limit in changed):
        sides = (size_limits(model, _inferred(model)) for model in (original, result))
        changed = {limit for limit in _changed(*sides) if limit.known}
    if not changed:
        return []
    kinds, shapes = symbols_of_model(result).kinds, symbols_of_model(original).shapes
    trips = trip_inputs(original)
    most = dict.fromkeys((name for name, kind in kinds.items() if kind != "spatial"), 0)
    most |= dict.fromkeys(trips, 0)
    for feeds in samples:
        for name, data in feeds.items():
            if isinstance(data, np.ndarray):
                if name in trips and data.size:
                    most[name] = max(most[name], int(data.max()))
                for dim, size in zip(shapes.get(name, ()), data.shape, strict=False):
                    if dim in most:
                        most[str(dim)] = max(most[str(dim)], size)
    told = []
    for limit in sorted(changed):
        near = {limit.dim: most[limit.dim]} if limit.dim in most else most
        name = min(near, key=near.__getitem__, default="")
        if name and near[name] < limit.number + BEYOND:
            told.append(f"sizes of {name} up to {near[name]} were tried; {limit.what}")
    return list(dict.fromkeys(told))


def _changed(one: Sequence[SizeLimit], other: Sequence[SizeLimit]) -> set[SizeLimit]:
    before, after = Counter(one), Counter(other)
    return {*(before - after), *(after - before)}


def _inferred(model: ir.Model) -> Shapes:
    try:
        graph = infer(skeleton(model)).graph
    except onnx.shape_inference.InferenceError:
        return {}
    return {
        info.name: [
            dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None
            for dim in info.type.tensor_type.shape.dim
        ]
        for info in graph.value_info
        if info.type.tensor_type.HasField("shape")
    }


def _limits(
    node: ir.Node, shapes: Shapes, counters: Collection[ir.Value]
) -> Iterator[tuple[int, str, str, bool]]:
    if node.domain:
        return
    if _is_slice(node):
        for axis, number in _ends(node):
            yield from _met(node.inputs[0], axis, number, f"ends at {number}", shapes)
    elif node.op_type == "TopK" and len(node.inputs) > 1:
        for number in _integers(node.inputs[1]):
            axis = node.attributes.get_int("axis", -1)
            yield from _met(node.inputs[0], axis, number, f"takes {number}", shapes)
    elif node.op_type == SUPPRESSES and len(node.inputs) > 2:
        for number in _integers(node.inputs[2]):
            told = f"takes {number}"
            yield from _met(node.inputs[0], 1, _SUPPRESSED * number, told, shapes)
    elif node.op_type in MEETS_SIZES or node.op_type in EXTREMES:
        read = list(node.inputs)
        if node.op_type in EXTREMES and read[0] is not None and (of := read[0].producer()):
            read = list(of.inputs) if of.op_type == "Concat" else read
        known = [[*_integers(value)] for value in read]
        sizes = [
            value
            for one, value in zip(known, read, strict=True)
            if not one and value is not None and _follows_sizes(value, counters)
        ]
        for number in (number for one in known for number in one) if sizes else ():
            yield max(_size_for(value, number) for value in sizes), f"holds {number}", "", True
    elif node.op_type == "Cast" and _follows_sizes(node.inputs[0], counters):
        number = _EXACT.get(ir.DataType(node.attributes.get_int("to", 0)), 0)
        yield number, f"holds at most {number}", "", True


def _ends(node: ir.Node) -> Iterator[tuple[int, int]]:
    """Yield axes of a Slice with where it starts and ends; from the end if negative."""
    if len(node.inputs) < 3:
        numbers = [[*node.attributes.get_ints(name, ())] for name in ("starts", "ends")]
        axes = [*node.attributes.get_ints("axes", ())]
    else:
        numbers = [[*_integers(value)] for value in node.inputs[1:3]]
        axes = [*_integers(node.inputs[3])] if len(node.inputs) > 3 else []
    for side in numbers:
        yield from zip(axes or range(len(side)), side, strict=False)


def _integers(value: ir.Value | None) -> Iterator[int]:
    if value is None or (value.const_value is not None and value.const_value.size > _MOST):
        return  # a weight, whose data need not be read
    array = _computed(value)
    if array is not None and array.dtype.kind in "iuf" and array.size <= _MOST:
        yield from (int(number) for number in array.ravel() if float(number).is_integer())


def _computed(value: ir.Value | None, steps: int = 4) -> Array | None:
    """Return the numbers of a constant, or of what few nodes compute of constants alone."""
    array = constant_of(value)
    node = None if value is None else value.producer()
    if array is not None or node is None or node.domain or not steps:
        return array
    if node.op_type in PASSED_ON:
        return _computed(node.inputs[0], steps - 1)
    known = [_computed(read, steps - 1) for read in node.inputs]
    given = [array for array in known if array is not None and array.size == 1]
    if node.op_type not in ARITHMETIC or len(given) < len(known) or len(known) != 2:
        return None
    with np.errstate(all="ignore"):
        return np.asarray(ARITHMETIC[node.op_type](*(one.reshape(()) for one in given)))


def _size_for(value: ir.Value, number: int) -> int:
    """Return the size from which an integer that follows it is a number."""
    wanted = float(number)
    for _ in range(_STEPS):
        node = value.producer()
        if node is None or node.domain or _is_size(value):
            break
        known = [_computed(read) for read in node.inputs]
        free = [v for v, array in zip(node.inputs, known, strict=True) if array is None]
        given = [float(a.ravel()[0]) for a in known if a is not None and a.size == 1]
        if node.op_type in UNDONE and len(free) == len(given) == 1 and free[0] is not None:
            if node.inputs[0] is not free[0] and node.op_type in ("Div", "Sub"):
                break
            with np.errstate(all="ignore"):
                wanted = UNDONE[node.op_type](wanted, given[0])
        elif node.op_type not in PASSED_ON or node.inputs[0] is None:
            break
        value = free[0] if free and free[0] is not None else value
    if (node := value.producer()) is not None and node.op_type in ADDS_UP_SIZES:
        wanted *= _MASKED
    return math.ceil(wanted) if math.isfinite(wanted) else number


def _met(
    value: ir.Value | None, axis: int, number: int, what: str, shapes: Shapes
) -> Iterator[tuple[int, str, str, bool]]:
    """Yield the integer if the size of an axis is dynamic, or may be.

    What a Slice leaves has no name of its own: it is that of what it was cut from.
    """
    while value is not None and (node := value.producer()) and _is_slice(node):
        value = node.inputs[0]
    dims: Sequence[object] | None = None
    if value is not None and value.shape is not None:
        dims = value.shape.dims
    elif value is not None:
        dims = shapes.get(str(value.name))
    if dims is None:
        yield number, what, "", False
    elif -len(dims) <= axis < len(dims) and not isinstance(dims[axis], int):
        dim = dims[axis]
        yield number, what, str(getattr(dim, "value", dim) or ""), True


def _is_slice(node: ir.Node) -> bool:
    return (node.domain, node.op_type) == ("", "Slice")


def _follows_sizes(value: ir.Value | None, counters: Collection[ir.Value]) -> bool:
    """Whether an integer is computed from sizes, or numbers of iterations, by a few nodes."""
    return any(one in counters or _is_size(one) for one in _origins(value))


def _is_size(value: ir.Value) -> bool:
    node = value.producer()
    if node is None or node.domain:
        return False
    if node.op_type in ADDS_UP_SIZES:
        return any(v is not None and v.dtype in _INTEGERS for v in (value, node.inputs[0]))
    return node.op_type in MAKES_SIZES


def _origins(value: ir.Value | None) -> Iterator[ir.Value]:
    """Yield what an integer is computed from, by a few nodes, up to sizes."""
    left, seen = [value], set[ir.Value]()
    while left and len(seen) < _STEPS:
        one = left.pop()
        if one is None or one in seen:
            continue
        seen.add(one)
        yield one
        node = one.producer()
        if node is not None and not _is_size(one):
            left += node.inputs
