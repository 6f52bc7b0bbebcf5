"""How large values will be, told before a run from the shapes that are noted."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.runtime.base import Feeds
from onnx_passes.runtime.inputs.dims import size_of


def too_much(
    model: ir.Model, samples: Sequence[Feeds], needed: Collection[str], limit: int
) -> set[str]:
    """Choose what not to record, so that the rest of all samples fits a limit.

    Small values are worth more: at the same price in memory there are more of them, and the
    next pass may need any. Sizes are as far as shapes are noted; the unknown count nothing.

    Args:
        model: The model to be run.
        samples: Its inputs.
        needed: Names that have to be recorded.
        limit: Bytes of all values together.

    Returns:
        Names of values, the largest ones.
    """
    sizes: dict[str, int] = {}
    values = [v for node in model.graph for v in node.outputs if v.name]
    for feeds in samples:
        known = _sizes(model.graph.inputs, feeds)
        for value in values:
            sizes[str(value.name)] = sizes.get(str(value.name), 0) + _bytes(value, known)
    left = limit - sum(sizes.get(name, 0) for name in needed)
    hidden: set[str] = set()
    for name, size in sorted(sizes.items(), key=lambda item: item[1]):
        if name not in needed:
            left -= size
            if left < 0 and size:
                hidden.add(name)
    return hidden


def _sizes(inputs: Sequence[ir.Value], feeds: Feeds) -> dict[str, int]:
    """Return the sizes of the dimensions that inputs name."""
    found: dict[str, int] = {}
    for value in inputs:
        array = feeds.get(str(value.name))
        if value.shape is not None and isinstance(array, np.ndarray):
            dims = zip(value.shape, array.shape, strict=False)
            found |= {str(dim.value): n for dim, n in dims if isinstance(dim, ir.SymbolicDim)}
    return found


def _bytes(value: ir.Value, sizes: Mapping[str, int]) -> int:
    if value.shape is None or value.dtype is None or value.dtype is ir.DataType.STRING:
        return 0
    dims = [dim if isinstance(dim, int) else str(dim.value) for dim in value.shape]
    elements = math.prod(size_of(dim, sizes) or 0 for dim in dims)
    return math.ceil(elements * value.dtype.bitwidth / 8)
