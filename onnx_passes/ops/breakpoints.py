"""Where the pieces of operators meet: values on both sides of it show a wrong piece."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops.bodies.domains import CUSTOM, QONNX_ALIASES, is_quantiser
from onnx_passes.ops.operator_class import operator_of
from onnx_passes.ops.quantization import QuantizeLinear
from onnx_passes.ops.use import Use

_ARRAYS = 3
"""How many arrays hold the values around breakpoints, at most, where one is too small."""

_MOST_BITS = 64
"""Bits of the widest quantiser whose ends are sought."""


def breakpoints_of(nodes: Iterable[ir.Node]) -> dict[str, list[float]]:
    """Return the finite breakpoints of what nodes read, by the names of the values.

    Args:
        nodes: The nodes; constants among their operands are breakpoints of the others.
    """
    rng, found = np.random.default_rng(0), defaultdict[str, list[float]](list)
    for node in nodes:
        operator = operator_of(node)
        for array in (_thresholds(node), _ends(node)):
            if array is not None:
                found[_name(node)] += array[np.isfinite(array)].tolist()
        if operator is None or any(_is_text(value) for value in node.inputs):
            continue
        for index, value in enumerate(node.inputs):
            if value is not None and value.name:
                numbers = operator.breakpoints(Use(node, index, rng))
                found[value.name] += [n for n in numbers if np.isfinite(n)]
    return {name: numbers for name, numbers in found.items() if name and numbers}


def ties_of(nodes: Iterable[ir.Node]) -> dict[str, Array]:
    """Return values half way between two levels that nodes round to, by their names.

    Other scales than powers of two are left out: half way is not a float, and right formulas
    differ there.

    Args:
        nodes: The nodes.

    Returns:
        float64 of shape [16], for values that are quantised by one constant scale.
    """
    found: dict[str, Array] = {}
    for node in nodes:
        scale = _scale(node)
        if scale is not None and scale.size == 1 and math.frexp(scale.item())[0] == 0.5:
            found[_name(node)] = (np.arange(-8, 8) + 0.5) * scale.item()
    return found


def _ends(node: ir.Node) -> Array | None:
    """Return numbers at, or next to, which a quantised value saturates; None for others."""
    scale = _scale(node)
    if scale is None:
        return None
    bits = _constant(node, 3) if node.domain else None
    if not node.domain and node.outputs[0].dtype is not None:
        bits = np.asarray(node.outputs[0].dtype.bitwidth)
    if bits is None or bits.size != 1 or not 0 < bits.item() <= _MOST_BITS:
        return None
    half: float = 2.0 ** (bits.item() - 1)
    return np.outer([-half, half, 2 * half], np.unique(scale)).reshape(-1)


def _thresholds(node: ir.Node) -> Array | None:
    """Return the constants that a value is compared with; None for other nodes."""
    if node.op_type != "MultiThreshold" or node.domain not in (CUSTOM, *QONNX_ALIASES):
        return None
    held = _constant(node, 1)
    return None if held is None else np.unique(held)


def _scale(node: ir.Node) -> Array | None:
    """Return the constant scale of a quantiser, in float64; None for other nodes."""
    rounds = (node.domain, node.op_type) == ("", QuantizeLinear.op_type)
    return _constant(node, 1) if rounds or is_quantiser(node.domain, node.op_type) else None


def _constant(node: ir.Node, index: int) -> Array | None:
    value = node.inputs[index] if index < len(node.inputs) else None
    tensor = None if value is None else ir.convenience.get_const_tensor(value)
    if tensor is None or _is_text(value):
        return None
    return np.asarray(tensor.numpy(), np.float64)


def _name(node: ir.Node) -> str:
    value = node.inputs[0]
    return "" if value is None else value.name or ""


def _is_text(value: ir.Value | None) -> bool:
    if value is None:
        return False
    tensor = ir.convenience.get_const_tensor(value)
    return ir.DataType.STRING in (value.dtype, None if tensor is None else tensor.dtype)


def around(breakpoints: Iterable[float], like: Array) -> list[Array]:
    """Return values on both sides of breakpoints and of 0, and these, the outermost first.

    Args:
        breakpoints: The breakpoints.
        like: An array of the shape and dtype that are asked for, of floats or integers.

    Returns:
        Arrays that hold all of them; of small arrays a few, with what lies outermost.
    """
    each = np.unique([*breakpoints, 0.0])
    apart = _apart(each)
    if like.dtype.kind in "iu":
        info = np.iinfo(like.dtype)
        # A double holds no end of 64 bits exactly.
        each, apart = each[(each > info.min) & (each < info.max)], np.ones(())
    with np.errstate(over="ignore", invalid="ignore"):
        sides = np.concatenate([each + apart, each - apart])
        sides, each = (n[np.argsort(-np.abs(n), kind="stable")] for n in (sides, each))
        # A number has but three rows: what it ties with is one of them.
        found = np.concatenate([sides[:2], each, sides[2:]]).astype(like.dtype)
    found = found[np.isfinite(found.astype(np.float64))]
    count = min(_ARRAYS, math.ceil(found.size / like.size) or 1) if like.size else 1
    return [np.resize(np.roll(found, -k * like.size), like.shape) for k in range(count)]


def beyond(breakpoints: Iterable[float], like: Array) -> tuple[Array, Array]:
    """Return values that all lie over every breakpoint and 0, and such that all lie under.

    Of a maximum, say, one element on the other side hides what became of all others.

    Args:
        breakpoints: The breakpoints.
        like: An array of the shape and float dtype that are asked for.
    """
    each = (*breakpoints, 0.0)
    steps = np.linspace(1.0, 2.0, like.size).reshape(like.shape)
    ends = max(each), min(each)
    most = float(np.finfo(like.dtype).max) if like.dtype.kind == "f" else np.inf
    with np.errstate(over="ignore"):
        over, under = (
            np.clip(end + side * _apart(end) * steps, -most, most)
            for end, side in zip(ends, (1, -1), strict=True)
        )
    return over.astype(like.dtype), under.astype(like.dtype)


def _apart(numbers: npt.ArrayLike) -> Array:
    """Return how far from a breakpoint, or from each of an array, values are drawn."""
    return np.abs(np.asarray(numbers, np.float64)) / 8 + 0.125
