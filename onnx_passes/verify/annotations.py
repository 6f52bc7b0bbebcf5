"""Types and shapes that a pass noted at values, held against the values that were seen."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from functools import cache

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.model.walk import captured_values, shape_fields, subgraphs_of
from onnx_passes.runtime.engine_base import Data
from onnx_passes.verify.region import leading_to

Evaluate = Callable[[ir.Node, Mapping[str, Array]], Mapping[str, Data] | None]
"""Gives what the standard makes of a node's operands; None where that is not known."""

_MOST_NODES = 64
"""Nodes that are evaluated for the values that contradict what is noted, the nearest ones."""


def find_wrong_annotations(
    before: ir.Model,
    after: ir.Model,
    samples: Sequence[Mapping[str, Array]],
    evaluate: Evaluate | None = None,
) -> list[str]:
    """Return what is wrong with types and shapes that only ``after`` has.

    An engine may give another shape than the standard: ONNX Runtime does not reduce an empty
    tensor along an axis that is counted from the end. What the standard gives is right then,
    and what follows from such a value says nothing. Nor does what follows from a shape that
    the model before has wrong, also in a body, or from a loop that is not entered.

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
        sizes = named_sizes(after.graph.inputs, values)
        wrong: dict[str, str] = {}
        right: set[Hashable] = set()  # most values have one of a few types and shapes
        for value, name, note in named:
            array = values.get(name)
            if array is None or (seen := (*note, array.dtype, array.shape)) in right:
                continue
            text = _told(value, array, sizes)
            if text is None:
                right.add(seen)
            else:
                wrong[name] = text
        if wrong and evaluate is not None:
            noted_wrong = {
                str(value.name)
                for value in _values(before)
                if (array := values.get(str(value.name))) is not None
                and _told(value, array, sizes) is not None
            }
            noted_wrong.update(_of_false_bodies(before, values, sizes))
            odd = _odd_values(after.graph, wrong, values, sizes, evaluate, noted_wrong)
            wrong = {name: text for name, text in wrong.items() if name not in odd}
        found += [text for text in wrong.values() if text not in found]
    return found


def _odd_values(
    graph: ir.Graph,
    ends: Collection[str],
    values: Mapping[str, Array],
    sizes: dict[str, int],
    evaluate: Evaluate,
    known: Collection[str],
) -> set[str]:
    """Return what leads to some values and has a shape of the engine's, not the standard's.

    What is computed from such a value is among them. So is what is computed from values that
    are known to be odd.
    """
    odd = set(known)
    for node in leading_to(ends, graph, lambda _: False)[-_MOST_NODES:]:
        made = {str(value.name): value for value in node.outputs if value.name}
        if any(
            v is not None and v.name in odd for v in (*node.inputs, *captured_values(node))
        ):
            odd |= made.keys()
            continue
        if node.op_type in ("Loop", "Scan") and node.domain == "":
            # What is stacked in no iteration has no element whose sizes are known.
            odd |= {
                n for n in made if (a := values.get(n)) is not None and a.shape[:1] == (0,)
            }
            continue
        for name, array in (evaluate(node, values) or {}).items():
            seen = values.get(name)
            if seen is None or name not in made or not isinstance(array, np.ndarray):
                continue
            if (seen.shape, seen.dtype) != (array.shape, array.dtype):
                odd |= {name} if _told(made[name], array, sizes) is None else set()
    return odd


def _values(model: ir.Model) -> list[ir.Value]:
    return [v for node in model.graph for v in node.outputs if v.name]


def _of_false_bodies(
    model: ir.Model, values: Mapping[str, Array], sizes: dict[str, int]
) -> Iterator[str]:
    """Yield results of bodies that declare of what goes in or out what it is not."""
    for node in model.graph:
        for body in subgraphs_of(node):
            pairs = zip(reversed(body.inputs), reversed(node.inputs), strict=False)
            ends = zip(reversed(body.outputs), reversed(node.outputs), strict=False)
            for inner, outer in (*pairs, *ends):
                array = None if outer is None else values.get(str(outer.name))
                if array is not None and inner.shape is not None:
                    stacked = array.ndim > len(inner.shape) and len(array)
                    if _told(inner, array[0] if stacked else array, sizes) is not None:
                        yield from (str(value.name) for value in node.outputs)


def _note(value: ir.Value) -> tuple[Hashable, ...]:
    """Return the type and the dimensions that are noted of a value."""
    shape = value.shape
    return value.dtype, None if shape is None else tuple(shape_fields(shape)[0])


def named_sizes(inputs: Sequence[ir.Value], values: Mapping[str, Data]) -> dict[str, int]:
    """Return the sizes of the dimensions that inputs name.

    Args:
        inputs: The inputs.
        values: Their values in one sample, by name; only arrays have sizes.
    """
    found: dict[str, int] = {}
    for value in inputs:
        shape, array = value.shape, values.get(str(value.name))
        if isinstance(array, np.ndarray) and shape is not None and len(shape) == array.ndim:
            for dim, size in zip(shape, array.shape, strict=True):
                if isinstance(dim, ir.SymbolicDim) and dim.value:
                    found.setdefault(str(dim.value), size)
    return found


_type_of = cache(ir.DataType.from_numpy)
"""It looks through several tables, and there are a handful of types."""


def _told(value: ir.Value, array: Array, sizes: dict[str, int]) -> str | None:
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
