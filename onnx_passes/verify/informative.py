"""Whether comparing a value shows anything: it is not empty, not constant, and finite."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.contracts.scores import kind_of, widen
from onnx_passes.model.walk import captured_values
from onnx_passes.verify.node_equality import never_iterates

_OF_SHAPES = frozenset(("ConstantOfShape", "Shape", "Size"))
_FIRST_ALONE = frozenset(("CastLike", "Expand", "Reshape", "Tile"))
"""Operators whose other operands decide the type or shape, and no element."""


def is_informative(arrays: Sequence[Array], varies: Callable[[], bool]) -> bool:
    """Whether a value that was compared on some samples can show a fault.

    A value that follows from shapes and constants alone is what it is for all data, so that
    one comparison is enough, even if it has no element. One that depends on data must have an
    element that is finite, and two that differ.

    Args:
        arrays: The value on each sample, of any shape and type.
        varies: Whether it depends on data; asked for only where that matters.
    """
    return any(_varies(array) for array in arrays) or _differ(arrays) or not varies()


def _varies(array: Array) -> bool:
    flat = array.reshape(-1)
    if flat.size < 2:
        return False
    if kind_of(flat.dtype) not in ("float", "complex"):
        return bool((flat != flat[0]).any())
    head = widen(flat[:1024])
    finite = head[np.isfinite(head)]
    if finite.size > 1 and (finite != finite[0]).any():
        return True
    wide = widen(flat)
    finite = wide[np.isfinite(wide)]
    return bool(finite.size > 1 and (finite != finite[0]).any())


def _differ(arrays: Sequence[Array]) -> bool:
    """Whether the value differs on another sample, and is finite on both."""
    firsts = set()
    for array in arrays:
        if array.size and kind_of(array.dtype) in ("float", "complex"):
            wide = widen(array.reshape(-1)[:1])
            if np.isfinite(wide).all():
                firsts.add(wide.item())
        elif array.size:
            firsts.add(array.reshape(-1)[0])
    return len(firsts) > 1


@dataclass(frozen=True)
class ValueSource:
    """What values are drawn from.

    Attributes:
        positive: Whether floats are, which roots and logarithms are finite for.
        integers: Whether integers are drawn: those that may be sizes or indices grow by 0 or
            1, with ``special`` any small ones.
        special: Whether every second float is NaN, infinite, zero or large.
        negated: Whether floats are those that there were, negated.
    """

    positive: bool = False
    integers: bool = True
    special: bool = False
    negated: bool = False


DRAWS = (
    ValueSource(),
    ValueSource(integers=False),
    ValueSource(positive=True),
    ValueSource(positive=True, integers=False),
)
DRAWS_OF_OTHERS = (
    ValueSource(integers=False),
    ValueSource(integers=False, positive=True),
    ValueSource(integers=False, negated=True),
)
"""For values that recorded ones may lack: sizes, shapes and indices are never drawn."""
DRAWS_OF_SPECIALS = (ValueSource(special=True, integers=False), ValueSource(special=True))
_SPECIALS = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30)


def draw_like(array: Array, seed: str, draw: ValueSource = DRAWS[0]) -> Array:
    """Return drawn values of the type and shape of others.

    Args:
        array: The values, of any shape and type.
        seed: Text that decides the draw.
        draw: What they are drawn from.
    """
    kind = kind_of(array.dtype)
    rng = np.random.default_rng(zlib.crc32(seed.encode()))
    if kind == "bool" and array.size == 1:  # drawn by chance, it may be the same each time
        return np.asarray(np.logical_not(array) if draw.integers or draw.negated else array)
    if kind == "bool":
        return np.asarray(rng.random(array.shape) < 0.5)
    if kind == "int" and draw.integers and array.dtype.kind in "iu":
        if draw.special:
            lowest = -8 if array.dtype.kind == "i" else 0
            return np.asarray(rng.integers(lowest, 8, array.shape).astype(array.dtype))
        more = rng.integers(0, 2, array.shape).astype(array.dtype)
        return np.where((array > 0) & (array < 1 << 6), array + more, array)
    if kind != "float":
        return array
    if draw.negated:
        return np.negative(array)
    drawn = np.asarray(rng.standard_normal(array.shape))
    if draw.special:
        drawn.reshape(-1)[::2] = np.resize(_SPECIALS, (drawn.size + 1) // 2)
    with np.errstate(over="ignore", invalid="ignore"):
        return (np.abs(drawn) if draw.positive else drawn).astype(array.dtype)


def tied(draw: Mapping[str, Array], names: Collection[str]) -> dict[str, Array]:
    """Return drawn floats with equal elements, as far as their shapes allow.

    What is drawn for each by itself shows no ties of a comparison.

    Args:
        draw: Values by name, of any shape and type.
        names: Those that may be others.
    """
    floats = [name for name in sorted(names) if kind_of(draw[name].dtype) == "float"]
    if len(floats) < 2:
        return {}
    least = min((draw[name] for name in floats), key=lambda one: (one.ndim, one.size))
    found = {}
    for name in floats:
        with suppress(ValueError):  # shapes that do not broadcast
            like = draw[name]
            found[name] = np.broadcast_to(least, like.shape).astype(like.dtype)
    return found


def dependent_on_data(model: ir.Model) -> set[str]:
    """Return the names of the values that depend on more than shapes and constants."""
    found = {str(value.name) for value in model.graph.inputs}
    for node in model.graph:
        for value in node.outputs:
            if any(v is not None and v.name in found for v in _deciding(node, value)):
                found.add(str(value.name))
    return found


def _deciding(node: ir.Node, value: ir.Value) -> Sequence[ir.Value | None]:
    """Return the operands that decide the elements of a result."""
    if node.domain == "" and node.op_type in _OF_SHAPES:
        return ()
    if node.domain == "" and node.op_type in _FIRST_ALONE:
        return node.inputs[:1]
    if node.domain == "" and node.op_type == "Loop" and never_iterates(node):
        return node.inputs[2:][value.index() :][:1]  # what it started with, or nothing
    return (*node.inputs, *captured_values(node))
