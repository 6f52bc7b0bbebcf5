"""Where the pieces of operators meet: values on both sides of it show a wrong piece."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.base import operator_of
from onnx_passes.ops.hints import Array
from onnx_passes.ops.use import Use


def breakpoints_of(nodes: Iterable[ir.Node]) -> dict[str, list[float]]:
    """Return the finite breakpoints of what nodes read, by the names of the values.

    Args:
        nodes: The nodes; constants among their operands are breakpoints of the others.
    """
    rng, found = np.random.default_rng(0), defaultdict[str, list[float]](list)
    for node in nodes:
        operator = operator_of(node)
        if operator is None or any(_is_text(value) for value in node.inputs):
            continue
        for index, value in enumerate(node.inputs):
            if value is not None and value.name:
                numbers = operator.breakpoints(Use(node, index, rng))
                found[value.name] += [n for n in numbers if np.isfinite(n)]
    return {name: numbers for name, numbers in found.items() if numbers}


def _is_text(value: ir.Value | None) -> bool:
    if value is None:
        return False
    tensor = ir.convenience.get_const_tensor(value)
    return ir.DataType.STRING in (value.dtype, None if tensor is None else tensor.dtype)


def around(breakpoints: Iterable[float], like: Array) -> Array:
    """Return breakpoints, 0 and values on both sides of them, in turns.

    Args:
        breakpoints: The breakpoints.
        like: An array of the shape and float dtype that are asked for.
    """
    each = np.unique([*breakpoints, 0.0])
    with np.errstate(over="ignore", invalid="ignore"):
        sides = [each, each + np.abs(each) / 8 + 0.125, each - np.abs(each) / 8]
        found = np.concatenate(sides).astype(like.dtype)
    return np.resize(found[np.isfinite(found.astype(np.float64))], like.shape)
