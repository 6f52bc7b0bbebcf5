"""Ranges of operators that work element by element, or choose among elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import onnx_ir as ir

from onnx_passes.passes._support.shapes import sizes_of
from onnx_passes.passes.analysis._intervals import (
    EPSILON,
    UNBOUNDED,
    Interval,
    Known,
    hull,
    multiplied,
    of_type,
    product,
    square,
    widened,
)

Rule: TypeAlias = Callable[[Known, ir.Node], Interval]


def moved(known: Known, node: ir.Node) -> Interval:
    return known.of(node.inputs[0])


def joined(first: int = 0) -> Callable[[Known, ir.Node], Interval]:
    return lambda known, node: hull(*(known.of(v) for v in node.inputs[first:]))


def add(known: Known, node: ir.Node) -> Interval:
    ends = [known.of(value) for value in node.inputs]
    found = (sum(low for low, _ in ends), sum(high for _, high in ends))
    return widened(node, found, sum(max(abs(low), abs(high)) for low, high in ends))


def sub(known: Known, node: ir.Node) -> Interval:
    (a, b), (c, d) = (known.of(value) for value in node.inputs)
    return widened(node, (a - d, b - c), max(abs(a), abs(b)) + max(abs(c), abs(d)))


def mul(known: Known, node: ir.Node) -> Interval:
    a, b = (known.of(value) for value in node.inputs)
    if node.inputs[0] is node.inputs[1]:
        return widened(node, square(a))
    return widened(node, multiplied(a, b))


def div(known: Known, node: ir.Node) -> Interval:
    (a, b), (c, d) = (known.of(value) for value in node.inputs)
    if c <= 0 <= d or not all(map(math.isfinite, (a, b, c, d))):
        return UNBOUNDED
    ends = [x / y for x in (a, b) for y in (c, d)]
    if node.outputs[0].dtype not in EPSILON:
        return math.floor(min(ends)), math.ceil(max(ends))
    return widened(node, (min(ends), max(ends)))


def pow(known: Known, node: ir.Node) -> Interval:
    exponent = known.of(node.inputs[1])
    low, high = known.of(node.inputs[0])
    if exponent == (2.0, 2.0):
        return widened(node, square((low, high)))
    if low >= 0 and exponent == (0.5, 0.5):
        return widened(node, (math.sqrt(low), math.sqrt(high)))
    return UNBOUNDED


def neg(known: Known, node: ir.Node) -> Interval:
    low, high = known.of(node.inputs[0])
    return -high, -low


def absolute(known: Known, node: ir.Node) -> Interval:
    low, high = known.of(node.inputs[0])
    return (0.0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))


def selected(choose: Callable[[list[float]], float]) -> Callable[[Known, ir.Node], Interval]:
    def rule(known: Known, node: ir.Node) -> Interval:
        ends = [known.of(value) for value in node.inputs]
        return choose([low for low, _ in ends]), choose([high for _, high in ends])

    return rule


def clip(known: Known, node: ir.Node) -> Interval:
    low, high = known.of(node.inputs[0])
    if "min" in node.attributes or "max" in node.attributes:  # before opset 11
        least = node.attributes.get_float("min", -math.inf)
        most = node.attributes.get_float("max", math.inf)
        bounds = ((least, least), (most, most))
    else:
        given = [node.inputs[i] if i < len(node.inputs) else None for i in (1, 2)]
        bounds = (
            (-math.inf, -math.inf) if given[0] is None else known.of(given[0]),
            (math.inf, math.inf) if given[1] is None else known.of(given[1]),
        )
    raised = max(low, bounds[0][0]), max(high, bounds[0][1])
    return min(raised[0], bounds[1][0]), min(raised[1], bounds[1][1])


def monotone(
    function: Callable[[float], float],
    *,
    least: float = -math.inf,
    exact: bool = False,
    size: float | None = None,
) -> Callable[[Known, ir.Node], Interval]:
    """Return the rule of a function that never falls.

    Args:
        function: The function.
        least: What it is never below, as engines compute it too.
        exact: Whether engines do not round.
        size: What the error of engines is relative to; its value if it is not given.
    """

    def rule(known: Known, node: ir.Node) -> Interval:
        low, high = (_safe(function, end) for end in known.of(node.inputs[0]))
        found = (low, high) if exact else widened(node, (low, high), size)
        return max(found[0], least), max(found[1], least)

    return rule


def _safe(function: Callable[[float], float], end: float) -> float:
    try:
        return function(end)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan


def log(end: float) -> float:
    return -math.inf if end <= 0 else math.log(end)


def sigmoid(end: float) -> float:
    return 1 / (1 + math.exp(-end)) if end > -700 else 0.0


def bounded(low: float, high: float) -> Callable[[Known, ir.Node], Interval]:
    return lambda known, node: widened(node, (low, high))


def cast(known: Known, node: ir.Node) -> Interval:
    source, to = node.inputs[0], node.outputs[0].dtype
    low, high = known.of(source)
    if source is None or to is None or source.dtype is None:
        return UNBOUNDED
    if to in EPSILON and EPSILON.get(source.dtype, 0.0) >= EPSILON[to]:
        return low, high
    if to in EPSILON:
        return widened(node, (low, high))
    if to is ir.DataType.BOOL or not math.isfinite(low) or not math.isfinite(high):
        return of_type(to)
    return float(math.trunc(low)), float(math.trunc(high))


def pad(known: Known, node: ir.Node) -> Interval:
    if node.attributes.get_string("mode", "constant") != "constant":
        return known.of(node.inputs[0])
    filled = node.inputs[2] if len(node.inputs) > 2 else None
    value = node.attributes.get_float("value", 0.0)
    return hull(
        known.of(node.inputs[0]), (value, value) if filled is None else known.of(filled)
    )


def leaky(known: Known, node: ir.Node) -> Interval:
    alpha = node.attributes.get_float("alpha", 0.01)
    low, high = known.of(node.inputs[0])
    if alpha < 0:
        return UNBOUNDED
    ends = [end if end >= 0 else product(alpha, end) for end in (low, high)]
    return widened(node, (ends[0], ends[1]))


def arg(known: Known, node: ir.Node) -> Interval:
    shape = sizes_of(node.inputs[0])
    axis = node.attributes.get_int("axis", 0)
    last = shape[axis] - 1 if shape else 2**63 - 1
    return 0.0, float(max(0, last))


def dropout(known: Known, node: ir.Node) -> Interval:
    training = node.inputs[2] if len(node.inputs) > 2 else None
    off = training is None or known.of(training) == (0.0, 0.0)
    return known.of(node.inputs[0]) if off else UNBOUNDED


def scatter(known: Known, node: ir.Node) -> Interval:
    if node.attributes.get_string("reduction", "none") != "none":
        return UNBOUNDED
    return hull(known.of(node.inputs[0]), known.of(node.inputs[2]))
