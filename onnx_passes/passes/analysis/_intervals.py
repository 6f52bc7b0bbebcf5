"""Interval arithmetic through the operators of ONNX.

An interval holds every element of a value that is not NaN. Ends are computed in double
precision and moved outwards by what the value's type may round, so that the interval holds of
what engines compute.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

from onnx_passes.passes._support.shapes import sizes_of
from onnx_passes.passes._support.tensors import constant_of

Interval: TypeAlias = tuple[float, float]
Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
UNBOUNDED: Interval = (-math.inf, math.inf)

_EPSILON = {
    ir.DataType.DOUBLE: 2.0**-52,
    ir.DataType.FLOAT: 2.0**-23,
    ir.DataType.FLOAT16: 2.0**-10,
    ir.DataType.BFLOAT16: 2.0**-7,
}
_GREATEST_EXACT = 2.0**53
_ULPS = 8
"""By how many units in the last place functions of engines may be wrong."""


def of_type(dtype: ir.DataType | None) -> Interval:
    """Return what every value of a type lies in."""
    if dtype is ir.DataType.BOOL:
        return 0.0, 1.0
    if dtype is not None and dtype.is_integer():
        return float(dtype.min), float(dtype.max)
    return UNBOUNDED


def of_array(array: Array) -> Interval:
    """Return the hull of the elements that are not NaN."""
    if array.dtype.kind not in "biufV" or not array.size:
        return UNBOUNDED
    numbers = array.astype(np.float64)
    numbers = numbers[~np.isnan(numbers)]
    if not numbers.size:
        return UNBOUNDED
    low, high = float(numbers.min()), float(numbers.max())
    if array.dtype.kind in "iu" and max(abs(low), abs(high)) > _GREATEST_EXACT:
        return math.nextafter(low, -math.inf), math.nextafter(high, math.inf)
    return low, high


def hull(*intervals: Interval) -> Interval:
    """Return the least interval that holds all of these."""
    return min(low for low, _ in intervals), max(high for _, high in intervals)


def _product(a: float, b: float) -> float:
    return 0.0 if 0.0 in (a, b) else a * b


def _multiplied(a: Interval, b: Interval) -> Interval:
    ends = [_product(x, y) for x in a for y in b]
    # An infinite element times 0 is NaN; a finite one of an unbounded interval is 0.
    return min(ends), max(ends)


class Rules:
    """The rules, with what is known of the values so far."""

    def __init__(self, known: Mapping[ir.Value, Interval]) -> None:
        """Look up operands in ``known``, which grows while rules are applied."""
        self.known = known

    def of(self, value: ir.Value | None) -> Interval:
        """Return what is known of a value."""
        if value is None:
            return UNBOUNDED
        if value in self.known:
            return self.known[value]
        tensor = constant_of(value)
        if tensor is None or tensor.dtype is ir.DataType.STRING:
            return of_type(value.dtype)
        return of_array(tensor.numpy())

    def output(self, node: ir.Node) -> Interval:
        """Return the interval of the outputs of a node."""
        dtype = node.outputs[0].dtype
        rule = RULES.get(node.op_type) if not node.domain else None
        if rule is None or dtype is None:
            return of_type(dtype)
        low, high = rule(self, node)
        if math.isnan(low) or math.isnan(high):
            return of_type(dtype)
        return fitted((low, high), dtype, computed=node.op_type not in EXACT)


def fitted(found: Interval, dtype: ir.DataType, *, computed: bool = True) -> Interval:
    """Return what an interval becomes in a type: integers wrap around, floats overflow.

    Args:
        found: The interval.
        dtype: The type.
        computed: Whether its ends were computed, in doubles: great integers are none.
    """
    limits = of_type(dtype)
    if limits != UNBOUNDED:
        if computed and max(abs(found[0]), abs(found[1])) > _GREATEST_EXACT:
            return limits
        inside = limits[0] <= found[0] and found[1] <= limits[1]
        return found if inside else limits
    if dtype in _EPSILON:
        greatest = float(dtype.max)
        return (
            found[0] if found[0] >= -greatest else -math.inf,
            found[1] if found[1] <= greatest else math.inf,
        )
    return UNBOUNDED


def _widened(node: ir.Node, found: Interval, size: float | None = None) -> Interval:
    """Move the ends outwards by the error of an operator; integers are exact.

    Args:
        node: Its first output's type is what rounds.
        found: The exact interval.
        size: What the error is relative to; the ends if it is not given.
    """
    epsilon = _EPSILON.get(node.outputs[0].dtype or ir.DataType.UNDEFINED)
    if epsilon is None:
        return found
    low, high = found
    error_low = _ULPS * epsilon * (abs(low) if size is None else size)
    error_high = _ULPS * epsilon * (abs(high) if size is None else size)
    return _moved_by(low, -error_low), _moved_by(high, error_high)


def _moved_by(end: float, error: float) -> float:
    tiny = math.copysign(float(np.finfo(np.float32).tiny), error)
    return end if math.isinf(end) else end + error + tiny


def _moved(rules: Rules, node: ir.Node) -> Interval:
    return rules.of(node.inputs[0])


def _joined(first: int = 0) -> Callable[[Rules, ir.Node], Interval]:
    return lambda rules, node: hull(*(rules.of(v) for v in node.inputs[first:]))


def _add(rules: Rules, node: ir.Node) -> Interval:
    ends = [rules.of(value) for value in node.inputs]
    found = (sum(low for low, _ in ends), sum(high for _, high in ends))
    return _widened(node, found, sum(max(abs(low), abs(high)) for low, high in ends))


def _sub(rules: Rules, node: ir.Node) -> Interval:
    (a, b), (c, d) = (rules.of(value) for value in node.inputs)
    return _widened(node, (a - d, b - c), max(abs(a), abs(b)) + max(abs(c), abs(d)))


def _mul(rules: Rules, node: ir.Node) -> Interval:
    a, b = (rules.of(value) for value in node.inputs)
    if node.inputs[0] is node.inputs[1]:
        return _widened(node, _square(a))
    return _widened(node, _multiplied(a, b))


def _square(a: Interval) -> Interval:
    ends = [_product(x, x) for x in a]
    return (0.0 if a[0] <= 0 <= a[1] else min(ends)), max(ends)


def _div(rules: Rules, node: ir.Node) -> Interval:
    (a, b), (c, d) = (rules.of(value) for value in node.inputs)
    if c <= 0 <= d or not all(map(math.isfinite, (a, b, c, d))):
        return UNBOUNDED
    ends = [x / y for x in (a, b) for y in (c, d)]
    if node.outputs[0].dtype not in _EPSILON:
        return math.floor(min(ends)), math.ceil(max(ends))
    return _widened(node, (min(ends), max(ends)))


def _pow(rules: Rules, node: ir.Node) -> Interval:
    exponent = rules.of(node.inputs[1])
    low, high = rules.of(node.inputs[0])
    if exponent == (2.0, 2.0):
        return _widened(node, _square((low, high)))
    if low >= 0 and exponent == (0.5, 0.5):
        return _widened(node, (math.sqrt(low), math.sqrt(high)))
    return UNBOUNDED


def _neg(rules: Rules, node: ir.Node) -> Interval:
    low, high = rules.of(node.inputs[0])
    return -high, -low


def _abs(rules: Rules, node: ir.Node) -> Interval:
    low, high = rules.of(node.inputs[0])
    return (0.0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))


def _selected(choose: Callable[[list[float]], float]) -> Callable[[Rules, ir.Node], Interval]:
    def rule(rules: Rules, node: ir.Node) -> Interval:
        ends = [rules.of(value) for value in node.inputs]
        return choose([low for low, _ in ends]), choose([high for _, high in ends])

    return rule


def _clip(rules: Rules, node: ir.Node) -> Interval:
    low, high = rules.of(node.inputs[0])
    if "min" in node.attributes or "max" in node.attributes:  # before opset 11
        least = node.attributes.get_float("min", -math.inf)
        most = node.attributes.get_float("max", math.inf)
        bounds = ((least, least), (most, most))
    else:
        given = [node.inputs[i] if i < len(node.inputs) else None for i in (1, 2)]
        bounds = (
            (-math.inf, -math.inf) if given[0] is None else rules.of(given[0]),
            (math.inf, math.inf) if given[1] is None else rules.of(given[1]),
        )
    raised = max(low, bounds[0][0]), max(high, bounds[0][1])
    return min(raised[0], bounds[1][0]), min(raised[1], bounds[1][1])


def _monotone(
    function: Callable[[float], float],
    *,
    least: float = -math.inf,
    exact: bool = False,
    size: float | None = None,
) -> Callable[[Rules, ir.Node], Interval]:
    """Return the rule of a function that never falls.

    Args:
        function: The function.
        least: What it is never below, as engines compute it too.
        exact: Whether engines do not round.
        size: What the error of engines is relative to; its value if it is not given.
    """

    def rule(rules: Rules, node: ir.Node) -> Interval:
        low, high = (_safe(function, end) for end in rules.of(node.inputs[0]))
        found = (low, high) if exact else _widened(node, (low, high), size)
        return max(found[0], least), max(found[1], least)

    return rule


def _safe(function: Callable[[float], float], end: float) -> float:
    try:
        return function(end)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan


def _log(end: float) -> float:
    return -math.inf if end <= 0 else math.log(end)


def _sigmoid(end: float) -> float:
    return 1 / (1 + math.exp(-end)) if end > -700 else 0.0


def _bounded(low: float, high: float) -> Callable[[Rules, ir.Node], Interval]:
    return lambda rules, node: _widened(node, (low, high))


def _weighted(
    node: ir.Node, data: Interval, positive: Array, negative: Array, bias: Array
) -> Interval:
    """Bound sums of weighted elements, whose weights' parts are summed by output."""
    low, high = data
    if not math.isfinite(low) or not math.isfinite(high):
        return UNBOUNDED
    highest = positive * high + negative * low + bias
    lowest = positive * low + negative * high + bias
    largest = max(abs(low), abs(high))
    size = float(((positive - negative) * largest + np.abs(bias)).max())
    return _widened(node, (float(lowest.min()), float(highest.max())), size)


def _parts(weights: Array, axes: tuple[int, ...]) -> tuple[Array, Array, int]:
    wide = weights.astype(np.float64)
    terms = math.prod(weights.shape[axis] for axis in axes)
    return np.maximum(wide, 0).sum(axes), np.minimum(wide, 0).sum(axes), terms


def _array(value: ir.Value | None) -> Array | None:
    tensor = constant_of(value)
    return None if tensor is None else tensor.numpy()


def _more(found: Interval, node: ir.Node, terms: int) -> Interval:
    """Widen once more for each term of a sum, whose order engines choose."""
    size = max(abs(found[0]), abs(found[1]))
    low, high = _widened(node, found, size * max(1, terms) / _ULPS)
    return low, high


def _matmul(rules: Rules, node: ir.Node) -> Interval:
    right = _array(node.inputs[1])
    if right is not None and right.ndim >= 2 and right.size:
        positive, negative, terms = _parts(right, (-2,))
        zero = np.zeros(1)
        found = _weighted(node, rules.of(node.inputs[0]), positive, negative, zero)
        return _sum_error(node, rules.of(node.inputs[0]), positive, negative, terms, found)
    shape = sizes_of(node.inputs[0])
    if not shape:
        return UNBOUNDED
    terms = shape[-1]
    low, high = _multiplied(rules.of(node.inputs[0]), rules.of(node.inputs[1]))
    if not math.isfinite(low) or not math.isfinite(high):
        return UNBOUNDED
    return _more((terms * low, terms * high), node, terms)


def _sum_error(
    node: ir.Node,
    data: Interval,
    positive: Array,
    negative: Array,
    terms: int,
    found: Interval,
) -> Interval:
    """Widen by the rounding of sums of that many terms."""
    if not all(map(math.isfinite, found)):
        return found
    largest = float((positive - negative).max()) * max(abs(data[0]), abs(data[1]))
    return _widened(node, found, largest * max(1, terms) / _ULPS)


def _gemm(rules: Rules, node: ir.Node) -> Interval:
    right = _array(node.inputs[1])
    plain = all(node.attributes.get_float(n, 1.0) == 1.0 for n in ("alpha", "beta"))
    if right is None or not plain or not right.size:
        return UNBOUNDED
    axis = 1 if node.attributes.get_int("transB", 0) else 0
    positive, negative, terms = _parts(right, (axis,))
    added = node.inputs[2] if len(node.inputs) > 2 else None
    bias = np.zeros(1)
    if added is not None:
        given = _array(added)
        if given is None or given.ndim > 1:
            return UNBOUNDED
        bias = given.astype(np.float64)
    data = rules.of(node.inputs[0])
    found = _weighted(node, data, positive, negative, bias)
    return _sum_error(node, data, positive, negative, terms, found)


def _conv(rules: Rules, node: ir.Node) -> Interval:
    weights = _array(node.inputs[1])
    added = node.inputs[2] if len(node.inputs) > 2 else None
    bias = np.zeros(1) if added is None else _array(added)
    if weights is None or bias is None or not weights.size:
        return UNBOUNDED
    # What is padded, or may be, is 0.
    data = hull(rules.of(node.inputs[0]), (0.0, 0.0))
    positive, negative, terms = _parts(weights, tuple(range(1, weights.ndim)))
    found = _weighted(node, data, positive, negative, bias.astype(np.float64))
    return _sum_error(node, data, positive, negative, terms, found)


def _batch_normalization(rules: Rules, node: ir.Node) -> Interval:
    arrays = [_array(value) for value in node.inputs[1:5]]
    low, high = rules.of(node.inputs[0])
    if any(a is None for a in arrays) or node.attributes.get_int("training_mode", 0) == 1:
        return UNBOUNDED
    scale, shift, mean, variance = (a.astype(np.float64) for a in arrays if a is not None)
    if not (math.isfinite(low) and math.isfinite(high)) or len(node.outputs) > 1:
        return UNBOUNDED
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + node.attributes.get_float("epsilon", 1e-5))
        ends = np.stack([(end - mean) * factor + shift for end in (low, high)])
        largest = np.abs(factor) * (max(abs(low), abs(high)) + np.abs(mean)) + np.abs(shift)
    return _widened(node, (float(ends.min()), float(ends.max())), float(largest.max()))


def _mean(rules: Rules, node: ir.Node) -> Interval:
    found = rules.of(node.inputs[0])
    shape = sizes_of(node.inputs[0])
    if shape is None or 0 in shape:
        return UNBOUNDED
    return _more(found, node, math.prod(shape))


def _largest_of(rules: Rules, node: ir.Node) -> Interval:
    sizes = node.inputs[0].shape if node.inputs[0] is not None else None
    return UNBOUNDED if sizes is None or 0 in list(sizes) else rules.of(node.inputs[0])


def _average_pool(rules: Rules, node: ir.Node) -> Interval:
    found = hull(rules.of(node.inputs[0]), (0.0, 0.0))
    return _more(found, node, math.prod(node.attributes.get_ints("kernel_shape", (1,))))


def _cast(rules: Rules, node: ir.Node) -> Interval:
    source, to = node.inputs[0], node.outputs[0].dtype
    low, high = rules.of(source)
    if source is None or to is None or source.dtype is None:
        return UNBOUNDED
    if to in _EPSILON and _EPSILON.get(source.dtype, 0.0) >= _EPSILON[to]:
        return low, high
    if to in _EPSILON:
        return _widened(node, (low, high))
    if to is ir.DataType.BOOL or not math.isfinite(low) or not math.isfinite(high):
        return of_type(to)
    return float(math.trunc(low)), float(math.trunc(high))


def _pad(rules: Rules, node: ir.Node) -> Interval:
    if node.attributes.get_string("mode", "constant") != "constant":
        return rules.of(node.inputs[0])
    filled = node.inputs[2] if len(node.inputs) > 2 else None
    value = node.attributes.get_float("value", 0.0)
    return hull(
        rules.of(node.inputs[0]), (value, value) if filled is None else rules.of(filled)
    )


def _leaky(rules: Rules, node: ir.Node) -> Interval:
    alpha = node.attributes.get_float("alpha", 0.01)
    low, high = rules.of(node.inputs[0])
    if alpha < 0:
        return UNBOUNDED
    ends = [end if end >= 0 else _product(alpha, end) for end in (low, high)]
    return _widened(node, (ends[0], ends[1]))


def _arg(rules: Rules, node: ir.Node) -> Interval:
    shape = sizes_of(node.inputs[0])
    axis = node.attributes.get_int("axis", 0)
    last = shape[axis] - 1 if shape else 2**63 - 1
    return 0.0, float(max(0, last))


def _dropout(rules: Rules, node: ir.Node) -> Interval:
    training = node.inputs[2] if len(node.inputs) > 2 else None
    off = training is None or rules.of(training) == (0.0, 0.0)
    return rules.of(node.inputs[0]) if off else UNBOUNDED


def _scatter(rules: Rules, node: ir.Node) -> Interval:
    if node.attributes.get_string("reduction", "none") != "none":
        return UNBOUNDED
    return hull(rules.of(node.inputs[0]), rules.of(node.inputs[2]))


Rule: TypeAlias = Callable[[Rules, ir.Node], Interval]
_MOVES = (
    *("DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity"),
    *("MaxPool", "Reshape", "ReverseSequence", "Slice", "SpaceToDepth", "Split", "Squeeze"),
    *("Tile", "Transpose", "Unsqueeze", "Compress"),
)

EXACT = frozenset(
    (
        *_MOVES,
        *("ArgMax", "ArgMin", "Clip", "Concat", "Dropout", "GlobalMaxPool", "Max", "Min"),
        *("Pad", "ReduceMax", "ReduceMin", "Relu", "ScatterElements", "ScatterND", "Shape"),
        *("Size", "Where"),
    )
)
"""Operators that choose among elements, and cannot overflow."""

RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_MOVES, _moved),
    "Abs": _abs,
    "Add": _add,
    "ArgMax": _arg,
    "ArgMin": _arg,
    "Atan": _monotone(math.atan, size=2.0),
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_normalization,
    "Cast": _cast,
    "Ceil": _monotone(lambda x: x if math.isinf(x) else math.ceil(x), exact=True),
    "Clip": _clip,
    "Concat": _joined(),
    "Conv": _conv,
    "Cos": _bounded(-1, 1),
    "Div": _div,
    "Dropout": _dropout,
    "Erf": _monotone(math.erf, size=1.0),
    "Exp": _monotone(math.exp, least=0.0),
    "Floor": _monotone(lambda x: x if math.isinf(x) else math.floor(x), exact=True),
    "Gemm": _gemm,
    "GlobalAveragePool": _mean,
    "GlobalMaxPool": _largest_of,
    "LeakyRelu": _leaky,
    "Log": _monotone(_log),
    "MatMul": _matmul,
    "Max": _selected(max),
    "Min": _selected(min),
    "Mul": _mul,
    "Neg": _neg,
    "Pad": _pad,
    "Pow": _pow,
    "ReduceMax": _largest_of,
    "ReduceMean": _mean,
    "ReduceMin": _largest_of,
    "Relu": _monotone(lambda x: max(x, 0.0), exact=True),
    "Round": _monotone(lambda x: x if math.isinf(x) else float(round(x)), exact=True),
    "ScatterElements": _scatter,
    "ScatterND": _scatter,
    "Shape": lambda rules, node: (0.0, float(2**63 - 1)),
    "Sigmoid": _monotone(_sigmoid, size=1.0),
    "Sin": _bounded(-1, 1),
    "Size": lambda rules, node: (0.0, float(2**63 - 1)),
    "Softmax": _bounded(0, 1),
    "Sqrt": _monotone(lambda x: math.sqrt(x) if x > 0 else 0.0, least=0.0),
    "Sub": _sub,
    "Sum": _add,
    "Tanh": _monotone(math.tanh, size=1.0),
    "Where": _joined(1),
}
