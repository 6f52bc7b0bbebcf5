"""Operators that pick elements by index, or write them: slice, gather, scatter, pad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_passes.ops.base import operator
from onnx_passes.ops.call import Call, Tensor, normalize_axis
from onnx_passes.ops.semantics import Unsupported


@operator("Slice")
def _(call: Call) -> Tensor:
    x = call.required(0)
    starts, ends = call.ints_of(1, "starts") or [], call.ints_of(2, "ends") or []
    axes, steps = call.ints_of(3, "axes"), call.ints_of(4, "steps")
    index = slices(x.shape, starts, ends, axes, steps)
    return Tensor(x.data[index], x.dtype)


def slices(
    shape: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None,
    steps: Sequence[int] | None,
) -> tuple[slice, ...]:
    """Return the Python slices of an ONNX Slice.

    Raises:
        Unsupported: A step is 0, or an axis does not exist.
    """
    index = [slice(None)] * len(shape)
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        axis = normalize_axis(axis, len(shape))
        size = shape[axis]
        if step == 0:
            raise Unsupported("Slice with step 0")
        start, end = (b + size if b < 0 else b for b in (start, end))
        if step > 0:
            index[axis] = slice(min(max(start, 0), size), min(max(end, 0), size), step)
        else:
            first, last = min(max(start, 0), size - 1), min(max(end, -1), size - 1)
            index[axis] = slice(first, None if last < 0 else last, step)
    return tuple(index)


@operator("Gather")
def _(call: Call) -> Tensor:
    x, indices = call.required(0), call.static(1).astype(np.int64)
    axis = normalize_axis(call.integer("axis", 0), len(x.shape))
    wrapped = _wrapped(indices, x.shape[axis])
    # Flat and back again: numpy makes a bare element of what has rank 0.
    taken = np.take(x.data, wrapped.reshape(-1), axis)
    shape = (*x.shape[:axis], *wrapped.shape, *x.shape[axis + 1 :])
    return Tensor(taken.reshape(shape), x.dtype)


@operator("GatherElements")
def _(call: Call) -> Tensor:
    x, indices = call.required(0), call.static(1).astype(np.int64)
    axis = normalize_axis(call.integer("axis", 0), len(x.shape))
    wrapped = _wrapped(indices, x.shape[axis])
    grid: list[npt.NDArray[Any]] = list(np.indices(indices.shape))
    grid[axis] = wrapped
    return Tensor(x.data[tuple(grid)], x.dtype)


@operator("GatherND")
def _(call: Call) -> Tensor:
    x, indices = call.required(0), call.static(1).astype(np.int64)
    if call.integer("batch_dims", 0):
        raise Unsupported("GatherND with batch_dims")
    columns = [_wrapped(indices[..., k], x.shape[k]) for k in range(indices.shape[-1])]
    gathered = np.asarray(x.data[tuple(columns)], dtype=np.object_)
    return Tensor(gathered, x.dtype)


def _wrapped(indices: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    if ((indices < -size) | (indices >= size)).any():
        raise Unsupported("an index outside its axis")
    return np.where(indices < 0, indices + size, indices)


@operator("ScatterND")
def _(call: Call) -> Tensor:
    x, indices, updates = call.required(0), call.static(1).astype(np.int64), call.required(2)
    if call.text("reduction", "none") != "none":
        raise Unsupported("ScatterND that combines what it writes")
    columns = [_wrapped(indices[..., k], x.shape[k]) for k in range(indices.shape[-1])]
    data = x.data.copy()
    data[tuple(columns)] = updates.data
    return Tensor(data, x.dtype)


@operator("ScatterElements", "Scatter")
def _(call: Call) -> Tensor:
    x, indices, updates = call.required(0), call.static(1).astype(np.int64), call.required(2)
    if call.text("reduction", "none") != "none":
        raise Unsupported(f"{call.node.op_type} that combines what it writes")
    axis = normalize_axis(call.integer("axis", 0), len(x.shape))
    places: list[npt.NDArray[Any]] = list(np.indices(indices.shape))
    places[axis] = _wrapped(indices, x.shape[axis])
    if len(set(zip(*(p.flat for p in places), strict=True))) < indices.size:
        raise Unsupported(f"{call.node.op_type} that writes to a place twice")
    data = x.data.copy()
    data[tuple(places)] = updates.data
    return Tensor(data, x.dtype)


@operator("Pad")
def _(call: Call) -> Tensor:
    x = call.required(0)
    rank = len(x.shape)
    pads = call.ints_of(1, "pads") or []
    axes = call.static_ints(3) if call.given(3) is not None else list(range(rank))
    width = [(0, 0)] * rank
    for k, axis in enumerate(axes):
        width[normalize_axis(axis, rank)] = (pads[k], pads[k + len(axes)])
    # A negative pad removes elements, before anything is added.
    keep = tuple(
        slice(max(-before, 0), size - max(-after, 0))
        for (before, after), size in zip(width, x.shape, strict=True)
    )
    grow = [(max(before, 0), max(after, 0)) for before, after in width]
    positions = np.arange(x.data.size).reshape(x.shape)[keep]
    mode = call.text("mode", "constant")
    modes = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}
    if mode == "constant":
        padded = np.pad(positions, grow, constant_values=-1)
    elif mode in modes:
        padded = np.pad(positions, grow, mode=modes[mode])  # type: ignore[call-overload]
    else:
        raise Unsupported(f"Pad with mode {mode}")
    value = call.given(2)
    fill = call.literal(0, x.dtype) if value is None else value.data.reshape(-1)[0]
    if call.opset < 11:
        fill = call.literal(call.number("value", 0.0), x.dtype)
    flat = np.append(x.data.reshape(-1), np.empty(1, np.object_))
    flat[-1] = fill
    return Tensor(flat[padded], x.dtype)
