"""A case on which two models differ, and smaller forms of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import LiftConstantsToInitializersPass

from onnx_passes.arrays import Array
from onnx_passes.runtime.engine_base import Data

_LARGEST_WEIGHT = 64 << 20  # bytes; slicing larger ones costs more than it helps
_SHAPE_LENGTH = 8  # an integer vector no longer than this may be a shape


@dataclass(frozen=True)
class Case:
    """Two models of one interface, and a sample on which they differ.

    Attributes:
        before: The model that is right.
        after: The model that is not.
        feeds: The sample.
        what: What the models are, in a few words.
        part: Whether they are parts of models, whose values are inner ones.
        steps: The passes between them; empty for those of the failure.
    """

    before: ir.Model
    after: ir.Model
    feeds: dict[str, Data]
    what: str
    part: bool = False
    steps: tuple[str, ...] = ()


def arrays_of(case: Case) -> dict[str, Array]:
    """Return the inputs that are tensors, by name."""
    return {k: v for k, v in case.feeds.items() if isinstance(v, np.ndarray)}


def _shapes(case: Case) -> Iterator[tuple[int, ...]]:
    """Yield the shapes of all inputs, and of the weights that are not too large to slice."""
    for array in arrays_of(case).values():
        yield array.shape
    for model in (case.before, case.after):
        for value in model.graph.initializers.values():
            tensor = value.const_value
            if tensor is not None and tensor.nbytes <= _LARGEST_WEIGHT:
                yield tuple(tensor.shape.numpy())


def resizings_of(case: Case) -> Iterator[tuple[int, int]]:
    """Yield dimensions, the largest first, and what each may become."""
    for size in sorted({d for shape in _shapes(case) for d in shape}, reverse=True):
        for target in sorted({1, 2, 3, size // 2} & set(range(1, size))):
            yield size, target


def elements_of(case: Case) -> int:
    """Return the number of elements of all inputs."""
    return sum(array.size for array in arrays_of(case).values())


def places_of_nonzero(array: Array) -> Array:
    """Return the places of the elements that are not 0."""
    zero = "" if array.dtype.kind in "OSU" else np.zeros(1, array.dtype)
    return np.flatnonzero(array.reshape(-1) != zero)


def with_input(case: Case, name: str, array: Array) -> Case:
    """Return a case with another value of an input.

    Args:
        case: The case.
        name: Name of the input.
        array: Its value, of any shape and dtype.
    """
    return replace(case, feeds=case.feeds | {name: array})


def simpler_values(array: Array) -> Iterator[Array]:
    """Yield simpler values of the same type: zeros, ones, signs, rounded numbers.

    Args:
        array: The value, of any shape and dtype.
    """
    if array.dtype.kind in "OSU" or not array.size:
        return
    yield np.zeros_like(array)
    yield np.ones_like(array)
    if array.dtype.kind not in "fcV":
        return
    with np.errstate(all="ignore"):
        wide = array.astype(np.float64)
        for simple in (np.sign(wide), np.rint(wide), np.rint(wide * 8) / 8):
            if np.isfinite(simple).all() and not np.array_equal(simple, wide):
                yield simple.astype(array.dtype)


def without_shapes(case: Case) -> Case:
    """Copy both models, constants as initializers, with nothing said of inner shapes."""
    before, after = case.before.clone(), case.after.clone()
    for model in (before, after):
        LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
        rank = [v for v in model.graph.inputs if v.shape is not None]
        for value in rank:
            assert value.shape is not None
            value.shape = ir.Shape([None] * len(value.shape))
        for node in model.graph:
            for value in node.outputs:
                value.shape = None
    return replace(case, before=before, after=after)


def declare_shapes(model: ir.Model, values: Mapping[str, Data], *, inner: bool) -> None:
    """Declare the shapes and types of values.

    Args:
        model: Changed in place.
        values: Values by name.
        inner: Whether inner values are declared as well as inputs.
    """
    made = [v for node in model.graph for v in node.outputs] if inner else []
    for value in (*model.graph.inputs, *made):
        array = values.get(str(value.name))
        if isinstance(array, np.ndarray):
            value.shape = ir.Shape(array.shape)
            value.type = ir.TensorType(ir.DataType.from_numpy(array.dtype))


def resized_cases(
    case: Case, size: int, target: int, worst: tuple[int, ...]
) -> Iterator[Case]:
    """Yield the case with a dimension made smaller, in inputs, then in weights as well.

    Args:
        case: The case.
        size: The dimension, wherever it is.
        target: What it becomes.
        worst: Index of the worst element, which is kept first.
    """
    starts = dict.fromkeys([0, *(min(w, size - target) for w in worst if w < size)])
    for start in starts:
        window = slice(start, start + target)
        feeds: dict[str, Data] = {
            name: _sliced(data, size, window) if isinstance(data, np.ndarray) else data
            for name, data in case.feeds.items()
        }
        if any(size in array.shape for array in arrays_of(case).values()):
            before, after = case.before.clone(), case.after.clone()
            yield replace(case, before=before, after=after, feeds=feeds)
        for shapes in (False, True):
            before, after = case.before.clone(), case.after.clone()
            changed = [_resize(m, size, window, shapes) for m in (before, after)]
            if any(changed):
                yield replace(case, before=before, after=after, feeds=feeds)


def _sliced(array: Array, size: int, window: slice) -> Array:
    where = tuple(window if dim == size else slice(None) for dim in array.shape)
    return np.ascontiguousarray(array[where]).reshape(array[where].shape)


def _resize(model: ir.Model, size: int, window: slice, shapes: bool) -> bool:
    changed = False
    target = window.stop - window.start
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if tensor is None or tensor.dtype is ir.DataType.STRING:
            continue
        if tensor.nbytes > _LARGEST_WEIGHT:
            continue
        array = tensor.numpy()
        shape_like = (
            array.dtype.kind in "iu" and array.ndim == 1 and array.size <= _SHAPE_LENGTH
        )
        if shape_like and shapes and (array == size).any():
            array = np.where(array == size, np.array(target, array.dtype), array)
        elif size in array.shape and not (shape_like and shapes):
            array = _sliced(array, size, window)
        else:
            continue
        value.const_value = ir.tensor(array, dtype=tensor.dtype, name=name)
        value.shape = ir.Shape(array.shape)
        changed = True
    return changed
