"""Types and shapes that a pass noted at values, held against the values that were seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from onnx_passes.runtime.base import Array


def find_wrong_annotations(
    before: ir.Model, after: ir.Model, samples: Sequence[Mapping[str, Array]]
) -> list[str]:
    """Return what is wrong with types and shapes that only ``after`` has.

    Args:
        before: The model before the pass.
        after: The model after it, with the same nodes.
        samples: Values of the main graph by name, one mapping for each sample.
    """
    old = {str(v.name): (v.type, v.shape) for v in _values(before)}
    noted = [v for v in _values(after) if old.get(str(v.name)) != (v.type, v.shape)]
    found: list[str] = []
    for values in samples:
        sizes = _sizes(after.graph.inputs, values)
        for value in noted:
            array = values.get(str(value.name))
            wrong = None if array is None else _wrong(value, array, sizes)
            if wrong is not None and wrong not in found:
                found.append(wrong)
    return found


def _values(model: ir.Model) -> list[ir.Value]:
    return [v for node in model.graph for v in node.outputs if v.name]


def _sizes(inputs: Sequence[ir.Value], values: Mapping[str, Array]) -> dict[str, int]:
    """Return the sizes of the dimensions that inputs name."""
    found: dict[str, int] = {}
    for value in inputs:
        array = values.get(str(value.name))
        if array is not None and value.shape is not None and len(value.shape) == array.ndim:
            for dim, size in zip(value.shape, array.shape, strict=True):
                if isinstance(dim, ir.SymbolicDim) and dim.value is not None:
                    found.setdefault(str(dim.value), size)
    return found


def _wrong(value: ir.Value, array: Array, sizes: dict[str, int]) -> str | None:
    dtype, shape = value.dtype, value.shape
    if dtype is not None and dtype is not ir.DataType.STRING:
        seen = ir.DataType.from_numpy(array.dtype)
        if seen != dtype and seen.bitwidth == dtype.bitwidth:
            return f"{value.name} is noted to be {dtype.name}, and is {seen.name}"
    if shape is None:
        return None
    told = f"[{', '.join(str(d) if isinstance(d, int) else str(d.value) for d in shape)}]"
    was = f"[{', '.join(map(str, array.shape))}]"
    if len(shape) != array.ndim:
        return f"{value.name} is noted to have shape {told}, and has {was}"
    for dim, size in zip(shape, array.shape, strict=True):
        known = dim if isinstance(dim, int) else sizes.get(str(dim.value))
        if known is not None and known != size:
            return f"{value.name} is noted to have shape {told}, and has {was}"
    return None
