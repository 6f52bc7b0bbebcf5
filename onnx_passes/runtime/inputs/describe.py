"""Feeds in words, for a report."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.runtime.engine_base import Array, Data, Feeds


def describe_feeds(feeds: Feeds) -> dict[str, str]:
    """Return element type, shape and range of every feed.

    Returns:
        By name, for example "float32[1,3,224,224] in [-3.1, 2.9]".
    """
    return {name: describe(data) for name, data in feeds.items()}


def describe(data: Data) -> str:
    """Return element type, shape and range of one value."""
    if data is None:
        return "empty optional"
    if isinstance(data, list):
        items = sorted({describe_type(item) for item in data})
        return f"sequence of {len(data)}" + (f": {', '.join(items)}" if items else "")
    text = describe_type(data)
    finite = _finite(data)
    if finite is None or not finite.size:
        return text
    return f"{text} in [{finite.min():.3g}, {finite.max():.3g}]"


def describe_type(data: Data) -> str:
    """Return element type and shape, without looking at the elements."""
    if not isinstance(data, np.ndarray):
        return describe(data)
    kind = "string" if data.dtype.kind in "OSUT" else str(data.dtype)
    return f"{kind}[{','.join(map(str, data.shape))}]"


def _finite(array: Array) -> Array | None:
    if array.dtype.kind in "OSUTc":
        return None
    dtype = ir.DataType.from_numpy(array.dtype)
    wide: Array = (
        array.astype(np.float64) if dtype.is_floating_point() else array.astype(object)
    )
    return wide[np.isfinite(wide)] if dtype.is_floating_point() else wide
