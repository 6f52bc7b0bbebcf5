"""Which values are integers, and between which bounds."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from math import gcd
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.bodies.operator_bodies import CHANNELS_LAST, CUSTOM, QONNX_ALIASES
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.quantised._square_windows import range_of_sums
from onnx_passes.passes.quantised._tables import table_of
from onnx_passes.passes.streamline._movement import only_moves, padding_of
from onnx_passes.passes.streamline._products import PRODUCTS, IntegerRange, of_product, size_of

NOTED, KEY = "quant_parameter_tensor_names", "finn_datatype"
"""Where onnx-ir keeps the quantization_annotation of a value, and QONNX's datatype in it."""

_KEPT = frozenset({"GlobalMaxPool", "MaxPool", "Split"})
"""Operators whose elements are some of their first operand's, beside those that only move."""

_Lookup: TypeAlias = Callable[[ir.Value | None], IntegerRange | None]


def integer_ranges(graph: ir.Graph, *, declared: bool = False) -> dict[ir.Value, IntegerRange]:
    """Bound the values of a graph that are integers whatever the inputs are.

    Args:
        graph: The graph, in topological order.
        declared: Whether inputs are what the datatypes noted at them say.

    Returns:
        Values with their bounds. A value that float32 may round is not among them.
    """
    found: dict[ir.Value, IntegerRange] = {}
    for value in graph.inputs if declared else ():
        noted = None if value.is_initializer() else range_of_datatype(datatype_of(value))
        if noted is not None:
            found[value] = noted

    def of(value: ir.Value | None) -> IntegerRange | None:
        if value is None:
            return None
        if value not in found:
            made = _of_constant(value)
            if made is not None:
                found[value] = made
        return found.get(value)

    for node in graph:
        made = _of_node(node, of)
        if made is not None and made.exact and node.outputs:
            for output in node.outputs if node.op_type == "Split" else node.outputs[:1]:
                found[output] = made
    return found


def datatype_of(value: ir.Value) -> str | None:
    """Return the datatype of QONNX that is noted at a value."""
    noted = (value.meta.get(NOTED) or {}).get(KEY)
    return None if noted is None else str(noted)


def range_of_datatype(name: str | None) -> IntegerRange | None:
    """Return the numbers of a datatype of QONNX; None if they are not integers."""
    if name in _NAMED:
        return _NAMED[name]
    match = re.fullmatch(r"(U?)INT(\d+)", name or "")
    if match is None:
        return None
    bits = int(match[2])
    return (
        IntegerRange(0, 2.0**bits - 1)
        if match[1]
        else IntegerRange(-(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1)
    )


_NAMED = {
    "BINARY": IntegerRange(0, 1),
    "BIPOLAR": IntegerRange(-1, 1, 2),
    "TERNARY": IntegerRange(-1, 1),
}


def _of_constant(value: ir.Value) -> IntegerRange | None:
    tensor = constant_of(value)
    if tensor is None or tensor.size == 0 or tensor.dtype != ir.DataType.FLOAT:
        return None
    array = tensor.numpy()
    if not np.isfinite(array).all() or not np.array_equal(array, np.rint(array)):
        return None
    low, high = float(array.min()), float(array.max())
    return IntegerRange(low, high, 2 if (np.abs(array) == 1).all() else 1)


def _of_node(node: ir.Node, of: _Lookup) -> IntegerRange | None:
    if (node.domain, node.op_type) == (CUSTOM, "MultiThreshold"):
        return _of_thresholds(node)
    if node.domain in QONNX_ALIASES and node.op_type == "MultiThreshold":
        return _of_rows(node)
    if node.domain in QONNX_ALIASES and node.op_type == "XnorPopcountMatMul":
        depth = size_of(node.inputs[1], -2)
        return None if depth is None else IntegerRange(0.0, float(depth))
    if node.domain in QONNX_ALIASES and node.op_type == "QuantAvgPool2d":
        return range_of_sums(node, of(node.inputs[0]))
    if node.domain == CUSTOM and node.op_type in ("Im2Col", "LayoutConverter"):
        return _at_zero(of(node.inputs[0]))
    if node.domain not in ("", CHANNELS_LAST):
        return None
    if node.op_type in _KEPT or only_moves(node):
        return _at_zero(of(node.inputs[0]))
    ranges = [of(value) for value in node.inputs]
    if node.op_type == "Concat":
        known = [r for r in ranges if r is not None]
        if len(known) < len(ranges):
            return None
        return IntegerRange(min(r.low for r in known), max(r.high for r in known))
    if node.op_type == "Pad":
        return _pad(of(node.inputs[0]), padding_of(node))
    if node.op_type in PRODUCTS:
        return of_product(node, ranges)
    if len(ranges) < 1 or any(r is None for r in ranges):
        return None
    return _of_arithmetic(node.op_type, [r for r in ranges if r is not None])


def _at_zero(found: IntegerRange | None) -> IntegerRange | None:
    return None if found is None else replace(found, least=0.0, most=0.0)


def _pad(found: IntegerRange | None, number: float | None) -> IntegerRange | None:
    if found is None or number is None or not number.is_integer():
        return None
    return IntegerRange(min(found.low, number), max(found.high, number))


def _of_arithmetic(kind: str, ranges: list[IntegerRange]) -> IntegerRange | None:
    first, second = ranges[0], ranges[-1]
    match kind:
        case "Add":
            step = _common_step(first, second)
            return IntegerRange(first.low + second.low, first.high + second.high, step)
        case "Sub":
            step = _common_step(first, second)
            return IntegerRange(first.low - second.high, first.high - second.low, step)
        case "Mul":
            ends = [a * b for a in (first.low, first.high) for b in (second.low, second.high)]
            return IntegerRange(min(ends), max(ends))
        case "Relu":
            return IntegerRange(max(first.low, 0.0), max(first.high, 0.0))
        case "Neg":
            return IntegerRange(-first.high, -first.low, first.step)
    return None


def _common_step(first: IntegerRange, second: IntegerRange) -> int:
    """Return the step of a sum; a single number has any step."""
    steps = [r.step for r in (first, second) if r.low != r.high]
    return gcd(*steps) if steps else 1


def _of_thresholds(node: ir.Node) -> IntegerRange | None:
    weights = node.inputs[2]
    found = None
    if node.inputs[1] is not None and weights is not None:
        found = table_of(node.inputs[1], weights)
    if found is None or not np.array_equal(found[1], np.rint(found[1])):
        return None
    # Thresholds are reached from the lowest on, so that only sums from there occur.
    order = np.argsort(found[0], axis=-1, kind="stable")
    steps = np.take_along_axis(found[1], order, -1).astype(np.float64)
    sums = np.cumsum(steps, -1)
    step = int(np.gcd.reduce(np.abs(steps).astype(np.int64), axis=None)) or 1
    return IntegerRange(float(sums.min(initial=0)), float(sums.max(initial=0)), step)


def _of_rows(node: ir.Node) -> IntegerRange | None:
    """Bound QONNX's thresholds: a number of them, times a scale, plus a bias."""
    steps = size_of(node.inputs[1], -1)
    parts = (("out_scale", 1.0), ("out_bias", 0.0))
    scale, bias = (node.attributes.get_float(*part) or 0.0 for part in parts)
    if steps is None or not (scale.is_integer() and bias.is_integer()):
        return None
    ends = bias, bias + steps * scale
    return IntegerRange(min(ends), max(ends), max(int(abs(scale)), 1))


__all__ = ["KEY", "NOTED", "datatype_of", "integer_ranges", "range_of_datatype"]
