"""Conv as a MatMul over windows of channels-last data, gathered by an operator of our own."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from onnx_passes.ops.bodies.operator_bodies import CUSTOM
from onnx_passes.passes.base import Value
from onnx_passes.passes.lowering._base import Site
from onnx_passes.passes.lowering._primitives import Primitives
from onnx_passes.passes.lowering._windows import Window, padded


def channels_last(
    to: Primitives, site: Site, weights: Sequence[int], windows: Sequence[Window]
) -> Value:
    """Make ``Transpose(MatMul(Im2Col(Transpose(Pad(x))), w) + b)``.

    Args:
        to: Makes the nodes.
        site: The Conv.
        weights: Shape of its weights, ``[M, C / group, ...]``.
        windows: Its windows along each spatial axis.
    """
    axes, group = len(windows), site.integer("group", 1)
    x = padded(to, site.given(0), windows, 0.0)
    x = to.node("Transpose", x, perm=[0, *range(2, axes + 2), 1])
    filters = to.node("Transpose", site.given(1), perm=[*range(2, axes + 2), 1, 0])
    filters = to.reshape(filters, [math.prod(weights[1:]), weights[0]])
    indices = to.tensor(_indices(windows, weights[1]))
    parts = [
        to.node("MatMul", _windows(to, part, indices), matrix)
        for part, matrix in zip(
            _split(to, x, group, weights[1], -1),
            _split(to, filters, group, weights[0] // group, 1),
            strict=True,
        )
    ]
    result = parts[0] if group == 1 else to.node("Concat", *parts, axis=-1)
    if site.input(2) is not None:
        result = to.node("Add", result, site.given(2))
    return to.node("Transpose", result, perm=[0, axes + 1, *range(1, axes + 1)])


def _windows(to: Primitives, x: Value, indices: Value) -> Value:
    made: Value = to.op.Im2Col(x, indices, _domain=CUSTOM)
    return made


def _split(to: Primitives, x: Value, group: int, size: int, axis: int) -> list[Value]:
    """Cut a value into equal parts along an axis."""
    if group == 1:
        return [x]
    sizes = [size] * group
    if to.opset < 13:
        made = to.op.Split(x, axis=axis, split=sizes, _outputs=group)
    else:
        made = to.op.Split(x, to.ints(sizes), axis=axis, _outputs=group)
    return list(made)


def _indices(
    windows: Sequence[Window], channels: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return where the elements of windows lie in a flat image, as ``[..., kernel * C]``."""
    sizes = [w.begin + w.size + w.needed for w in windows]
    count = len(windows)
    place = np.zeros((1,) * (2 * count + 1), np.int64)
    for axis, window in enumerate(windows):
        shape = [1] * (2 * count + 1)
        shape[axis], shape[count + axis] = window.count, window.kernel
        stride = math.prod(sizes[axis + 1 :]) * channels
        place = place + (window.places.T * stride).reshape(shape)
    place = place + np.arange(channels, dtype=np.int64)
    return place.reshape(*(w.count for w in windows), -1)
