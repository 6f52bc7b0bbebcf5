"""Conv in double precision, which ONNX Runtime has no kernel for."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import onnx
from numpy.lib.stride_tricks import sliding_window_view

from onnx_passes.arrays import Array
from onnx_passes.errors import EngineError
from onnx_passes.plain import PlainMapping
from onnx_passes.runtime.engine_base import Data

_AT_ONCE = 1 << 19
"""Elements of windows that are copied at once, if there are several groups."""


def convolve(node: onnx.NodeProto, fed: Mapping[str, Data]) -> Array:
    """Compute a Conv of any number of dimensions, as a product over windows.

    Args:
        node: The Conv.
        fed: Its inputs by name: x [n, c, ...], w [m, c / group, ...], and b [m] or none.

    Raises:
        EngineError: A window is larger than the padded input. Some engines make an element
            of that, and the definition does not say which.
    """
    given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    x, w = np.asarray(fed[node.input[0]]), np.asarray(fed[node.input[1]])
    kernel, rank = w.shape[2:], w.ndim - 2
    strides = list(given.get("strides", [1] * rank))
    dilations = list(given.get("dilations", [1] * rank))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = _pads(given, x.shape[2:], reach, strides)
    padded = np.pad(x, [(0, 0), (0, 0), *pads])
    axes = tuple(range(2, 2 + rank))
    if any(size < window for size, window in zip(padded.shape[2:], reach, strict=True)):
        raise EngineError(f"a window of Conv, {reach}, is larger than what it slides over")
    windows = sliding_window_view(padded, reach, axis=axes)
    steps = tuple(slice(None, None, s) for s in strides)
    holes = tuple(slice(None, None, d) for d in dilations)
    windows = windows[(slice(None), slice(None), *steps, *holes)]
    group = int(given.get("group", 1))
    width, made = x.shape[1] // group, w.shape[0] // group
    batch, sizes = x.shape[0], windows.shape[2 : 2 + rank]
    places, depth = batch * math.prod(sizes), width * math.prod(kernel)
    some = max(1, _AT_ONCE // max(1, places * depth))
    order = (1, 2, *range(3 + rank, 3 + 2 * rank), 0, *range(3, 3 + rank))
    parts = []
    for g in range(0, group, some):
        rows = windows[:, g * width : (g + some) * width]
        count = rows.shape[1] // max(width, 1)
        rows = rows.reshape(batch, count, width, *sizes, *kernel).transpose(order)
        columns = w[g * made : (g + some) * made].reshape(count, made, depth)
        parts.append(columns @ rows.reshape(count, depth, places))
    found = np.concatenate(parts).reshape(group * made, batch, *sizes)
    result = np.moveaxis(found, 0, 1)
    if len(node.input) > 2 and node.input[2]:
        result = result + np.asarray(fed[node.input[2]]).reshape(1, -1, *[1] * rank)
    return result


def _pads(
    given: PlainMapping, sizes: tuple[int, ...], reach: list[int], strides: list[int]
) -> list[tuple[int, int]]:
    mode = given.get("auto_pad", b"NOTSET").decode()
    rank = len(sizes)
    if mode == "NOTSET":
        pads = list(given.get("pads", [0] * 2 * rank))
        return list(zip(pads[:rank], pads[rank:], strict=True))
    if mode == "VALID":
        return [(0, 0)] * rank
    found = []
    for size, window, stride in zip(sizes, reach, strides, strict=True):
        total = max((-(-size // stride) - 1) * stride + window - size, 0)
        less = total // 2
        found.append((less, total - less) if mode == "SAME_UPPER" else (total - less, less))
    return found
