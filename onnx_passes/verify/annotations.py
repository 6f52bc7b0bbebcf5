"""Types and shapes that a pass noted at values, held against the values that were seen."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache

import numpy as np
import onnx_ir as ir

from onnx_passes.model.fields import shape_fields
from onnx_passes.model.walk import captured_values
from onnx_passes.runtime.engine_base import Array, Data

Evaluate = Callable[[ir.Node, Mapping[str, Array]], Mapping[str, Data] | None]
"""Gives what the standard makes of a node's operands; None where that is not known."""


def find_wrong_annotations(
    before: ir.Model,
    after: ir.Model,
    samples: Sequence[Mapping[str, Array]],
    evaluate: Evaluate | None = None,
) -> list[str]:
    """Return what is wrong with types and shapes that only ``after`` has.

    An engine may give another shape than the standard: ONNX Runtime does not reduce an empty
    tensor along an axis that is counted from the end. What the standard gives is right then,
    and what follows from such a value says nothing.

    Args:
        before: The model before the pass.
        after: The model after it, with the same nodes.
        samples: Values of the main graph by name, one mapping for each sample, of any shape
            and type.
        evaluate: What is asked where values contradict; without it these are believed.
    """
    old = {str(v.name): (v.type, v.shape) for v in _values(before)}
    noted = [v for v in _values(after) if old.get(str(v.name)) != (v.type, v.shape)]
    named = [(value, str(value.name), _note(value)) for value in noted]
    found: list[str] = []
    for values in samples:
        sizes = _sizes(after.graph.inputs, values)
        odd: set[str] = set()
        right: set[Hashable] = set()  # most values have one of a few types and shapes
        for value, name, note in named:
            array = values.get(name)
            if array is None or (seen := (*note, array.dtype, array.shape)) in right:
                continue
            wrong = _wrong(value, array, sizes)
            if wrong is None:
                right.add(seen)
            if wrong is None or wrong in found:
                continue
            if evaluate is not None and _is_odd(value, values, sizes, odd, evaluate):
                odd.add(str(value.name))
            else:
                found.append(wrong)
    return found


def _is_odd(
    value: ir.Value,
    values: Mapping[str, Array],
    sizes: dict[str, int],
    odd: set[str],
    evaluate: Evaluate,
) -> bool:
    """Whether it is the engine that gives another shape than the standard."""
    node = value.producer()
    assert node is not None, "results of nodes are asked for"
    if any(v is not None and v.name in odd for v in (*node.inputs, *captured_values(node))):
        return True
    array = (evaluate(node, values) or {}).get(str(value.name))
    return isinstance(array, np.ndarray) and _wrong(value, array, sizes) is None


def _values(model: ir.Model) -> list[ir.Value]:
    return [v for node in model.graph for v in node.outputs if v.name]


def _note(value: ir.Value) -> tuple[Hashable, ...]:
    """Return the type and the dimensions that are noted of a value."""
    shape = value.shape
    return value.dtype, None if shape is None else tuple(shape_fields(shape)[0])


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


_type_of = cache(ir.DataType.from_numpy)
"""It looks through several tables, and there are a handful of types."""


def _wrong(value: ir.Value, array: Array, sizes: dict[str, int]) -> str | None:
    dtype, shape = value.dtype, value.shape
    if dtype is not None and dtype is not ir.DataType.STRING:
        seen = _type_of(array.dtype)
        if seen != dtype and seen.bitwidth == dtype.bitwidth:
            return f"{value.name} is noted to be {dtype.name}, and is {seen.name}"
    if shape is None:
        return None
    dims, _ = shape_fields(shape)
    fits = len(dims) == array.ndim and all(
        dim == size or (not isinstance(dim, int) and sizes.get(str(dim.value), size) == size)
        for dim, size in zip(dims, array.shape, strict=True)
    )
    if fits:  # text is made of what is wrong alone: there are thousands of values
        return None
    told = f"[{', '.join(str(d) if isinstance(d, int) else str(d.value) for d in shape)}]"
    was = f"[{', '.join(map(str, array.shape))}]"
    return f"{value.name} is noted to have shape {told}, and has {was}"
