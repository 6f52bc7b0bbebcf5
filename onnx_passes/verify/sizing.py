"""How large values will be, found before a run from the shapes that are noted."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.runtime.engine_base import Feeds
from onnx_passes.runtime.inputs.dimensions import size_of


def too_much(
    model: ir.Model,
    samples: Sequence[Feeds],
    needed: Collection[str],
    limit: int,
    seen: Mapping[str, int] | None = None,
) -> set[str]:
    """Choose what not to record, so that the rest of all samples fits a limit.

    Small values are worth more: at the same price in memory there are more of them, and the
    next pass may need any. Sizes are as far as shapes are noted: an unknown dimension counts
    as one, a value of unknown rank as nothing.

    Args:
        model: The model to be run.
        samples: Its inputs.
        needed: Names that have to be recorded.
        limit: Bytes of all values together.
        seen: Bytes that values had in one sample of an earlier run, by name.

    Returns:
        Names of values, the largest ones.
    """
    sizes: dict[str, int] = {}
    values = [v for node in model.graph for v in node.outputs if v.name]
    for feeds in samples:
        known = _sizes(model.graph.inputs, feeds)
        for value in values:
            name = str(value.name)
            size = seen[name] if seen and name in seen else _bytes(value, known)
            sizes[name] = sizes.get(name, 0) + size
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


def _bytes(value: ir.Value, sizes: dict[str, int]) -> int:
    if value.shape is None or value.dtype is None or value.dtype is ir.DataType.STRING:
        return 0
    elements = 1
    for dim in value.shape:
        elements *= dim if isinstance(dim, int) else _known(str(dim.value), sizes)
    return math.ceil(elements * value.dtype.bitwidth / 8)


def _known(dim: str, sizes: dict[str, int]) -> int:
    if dim not in sizes:  # parsing takes longer than all the rest
        size = size_of(dim, sizes)
        sizes[dim] = 1 if size is None else size
    return sizes[dim]
