"""Intervals that hold every element that is not NaN."""

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array, Numbers, float_limits
from onnx_passes.ops.domains.concrete import CURVES, ArraySemantics
from onnx_passes.ops.semantics import Elements, Row, Scalar, Unsupported, is_float

Interval: TypeAlias = tuple[float, float]


UNBOUNDED: Interval = (-math.inf, math.inf)


ULPS = 8
"""By how many units in the last place functions of engines may be wrong."""


_GREATEST_EXACT = 2.0**53


_PAIR = np.dtype([("low", np.float64), ("high", np.float64)])


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


def pair(low: Numbers, high: Numbers) -> Elements:
    """Return an array of intervals."""
    found = np.empty(np.broadcast_shapes(np.shape(low), np.shape(high)), _PAIR)
    found["low"], found["high"] = low, high
    return found


def resolution(dtype: ir.DataType) -> float:
    """Return the distance from 1 to the next number of a type; 0 for what is exact."""
    return float(float_limits(dtype.numpy()).eps) if is_float(dtype) else 0.0


def fitted(
    low: Numbers, high: Numbers, dtype: ir.DataType, *, computed: bool = True
) -> Elements:
    """Return what intervals become in a type: integers wrap around, floats overflow.

    Ends that are ``computed`` are doubles, which do not hold great integers exactly.
    """
    limits = of_type(dtype)
    if limits != UNBOUNDED:
        great = computed & (np.maximum(np.abs(low), np.abs(high)) > _GREATEST_EXACT)
        outside = great | (low < limits[0]) | (high > limits[1])
        return pair(np.where(outside, limits[0], low), np.where(outside, limits[1], high))
    if not is_float(dtype):
        return pair(np.full(np.shape(low), -np.inf), np.full(np.shape(high), np.inf))
    greatest = float(dtype.max)
    return pair(
        np.where(low < -greatest, -np.inf, low), np.where(high > greatest, np.inf, high)
    )


_SIZES = {"tanh": 1.0, "erf": 1.0, "atan": 2.0, "sin": 1.0, "cos": 1.0, "acos": 4.0}
"""What errors of bounded curves are relative to where their values are smaller."""

_RISING = frozenset(
    ("exp", "log", "sqrt", "tanh", "erf", "atan", "sinh", "asinh", "asin", "acosh", "atanh")
)
_WHOLE = frozenset(("floor", "ceil", "round", "relu", "sign"))
_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    **CURVES,
    "sqrt": lambda x: np.sqrt(np.maximum(x, 0)),
    "log": lambda x: np.log(np.maximum(x, 0)),
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "sign": np.sign,
    "relu": lambda x: np.maximum(x, 0),
}
_NEAR_POLE = 0.499
"""Multiples of pi from a zero of the tangent within which it is far from its poles."""
_ORDERS: dict[str, Callable[[Array, Array], Array]] = {
    "less": np.less,
    "less_equal": np.less_equal,
    "equal": np.equal,
}


class IntervalSemantics(ArraySemantics):
    """Pairs of doubles, between which results lie."""

    def __init__(self, *, numbers: bool = False) -> None:
        """Set ``numbers`` if no element is NaN, so that comparisons may be certain."""
        super().__init__()
        self._numbers = numbers

    def literal(self, value: bool | float, dtype: ir.DataType) -> Scalar:
        return pair(float(value), float(value))

    def constant(self, array: Array, dtype: ir.DataType) -> Elements:
        wide = array.astype(np.float64)
        return pair(wide, wide)

    def padding(self, value: float, dtype: ir.DataType) -> Scalar:
        return self.literal(value, dtype)

    def number(self, scalar: Scalar, dtype: ir.DataType) -> bool | int | float | None:
        return float(scalar["low"]) if scalar["low"] == scalar["high"] else None

    def numbers(self, data: Elements, dtype: ir.DataType) -> Array | None:
        known = bool((data["low"] == data["high"]).all())
        with np.errstate(invalid="ignore"):  # integers have no infinity
            return data["low"].astype(dtype.numpy()) if known else None

    def apply(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        if name == "select":
            return _selected(*args)
        with np.errstate(all="ignore"):
            if name in _ORDERS:
                return self._compared(name, dtype, *args)
            if name.startswith("is_") or dtype == ir.DataType.BOOL:
                return pair(0.0, 1.0)
            return self._combined(name, dtype, args)

    def _combined(self, name: str, dtype: ir.DataType, args: tuple[Scalar, ...]) -> Scalar:
        x, *others = args
        low, high = x["low"], x["high"]
        match name, *others:
            case "add", y:
                size = _largest(x) + _largest(y)
                signs = np.minimum(low, y["low"]), np.maximum(high, y["high"])
                found = self._fit(low + y["low"], high + y["high"], dtype, size)
                return _with_sign(found, dtype, *signs)
            case "sub", y:
                size = _largest(x) + _largest(y)
                return self._fit(low - y["high"], high - y["low"], dtype, size)
            case "mul", y:
                square = x is y
                ends = [_product(a, b) for a in (low, high) for b in (y["low"], y["high"])]
                if square:
                    ends = [_product(low, low), _product(high, high)]
                least = np.minimum.reduce(np.broadcast_arrays(*ends))
                least = np.where((low <= 0) & (high >= 0), 0.0, least) if square else least
                most = np.maximum.reduce(np.broadcast_arrays(*ends))
                return _with_sign(self._fit(least, most, dtype), dtype, least, most)
            case "div", y:
                return self._divided(x, y, dtype)
            case "pow", y:
                return self._power(x, y, dtype)
            case "max" | "min" as which, y:
                choose = np.maximum if which == "max" else np.minimum
                return pair(choose(low, y["low"]), choose(high, y["high"]))
            case "clip", a, b:
                return _clipped(x, a, b)
            case ("neg",):
                return pair(-high, -low)
            case ("abs",):
                least = np.where(
                    (low <= 0) & (high >= 0), 0.0, np.minimum(abs(low), abs(high))
                )
                return pair(least, _largest(x))
            case "mod", y:
                return self._fit(np.minimum(y["low"], 0), np.maximum(y["high"], 0), dtype)
            case "fmod", y:
                most = np.minimum(_largest(x), _largest(y))
                least = np.where(low < 0, -most, 0.0)
                return self._fit(least, np.where(high > 0, most, 0.0), dtype)
        return self._curve(name, low, high, dtype)

    def _curve(self, name: str, low: Array, high: Array, dtype: ir.DataType) -> Elements:
        if name in _WHOLE:
            return pair(_FUNCTIONS[name](low), _FUNCTIONS[name](high))
        if name in _RISING:
            return self._risen(name, low, high, dtype)
        if name == "acos":
            return self._risen(name, high, low, dtype)
        if name in ("sin", "cos"):
            return self._fit(-np.ones_like(low), np.ones_like(high), dtype)
        if name == "cosh":
            least = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(abs(low), abs(high)))
            return self._risen(name, least, np.maximum(abs(low), abs(high)), dtype)
        if name == "tan":
            # It rises between two poles; where a pole may lie, it may be any number.
            first, last = low / np.pi, high / np.pi
            reach = np.maximum(abs(first - np.rint(first)), abs(last - np.rint(last)))
            any_ = (np.rint(first) != np.rint(last)) | ~(reach < _NEAR_POLE)
            least, most = (
                np.where(any_, -np.inf, np.tan(low)),
                np.where(any_, np.inf, np.tan(high)),
            )
            return self._fit(least, most, dtype)
        raise Unsupported(f"{name} of intervals")

    def _risen(self, name: str, low: Array, high: Array, dtype: ir.DataType) -> Elements:
        function = _FUNCTIONS[name]
        size = _SIZES.get(name)
        found = self._fit(function(low), function(high), dtype, size)
        if name in ("exp", "sqrt"):
            return pair(np.maximum(found["low"], 0), found["high"])
        return found

    def _divided(self, x: Elements, y: Elements, dtype: ir.DataType) -> Elements:
        ends = [a / b for a in (x["low"], x["high"]) for b in (y["low"], y["high"])]
        least = np.fmin.reduce(np.broadcast_arrays(*ends))
        most = np.fmax.reduce(np.broadcast_arrays(*ends))
        open_ = (y["low"] <= 0) & (y["high"] >= 0)
        # What is divided by something without an end comes near 0, of whatever sign.
        open_ = open_ | (np.isinf(_largest(x)) & np.isinf(_largest(y)))
        least, most = np.where(open_, -np.inf, least), np.where(open_, np.inf, most)
        if not is_float(dtype):
            least, most = np.floor(least), np.ceil(most)
        return _with_sign(self._fit(least, most, dtype), dtype, least, most)

    def _power(self, x: Elements, y: Elements, dtype: ir.DataType) -> Elements:
        low, high = x["low"], x["high"]
        if np.all((y["low"] == 2) & (y["high"] == 2)):
            return np.asarray(self._combined("mul", dtype, (x, x)))
        if not np.all(low > 0):
            half = np.all((low >= 0) & (y["low"] == 0.5) & (y["high"] == 0.5))
            return self._risen("sqrt", low, high, dtype) if half else pair(*UNBOUNDED)
        ends = [np.power(a, b) for a in (low, high) for b in (y["low"], y["high"])]
        least, most = np.minimum.reduce(ends), np.maximum.reduce(ends)
        return self._fit(least, most, dtype)

    def _compared(self, name: str, dtype: ir.DataType, x: Elements, y: Elements) -> Elements:
        exact = self._numbers or not is_float(dtype)
        if name == "equal":
            same = (x["low"] == x["high"]) & (y["low"] == y["high"]) & (x["low"] == y["low"])
            apart = (x["high"] < y["low"]) | (y["high"] < x["low"])
            return pair(np.where(same & exact, 1.0, 0.0), np.where(apart, 0.0, 1.0))
        test = _ORDERS[name]
        always = test(x["high"], y["low"])
        return pair(np.where(always & exact, 1.0, 0.0), test(x["low"], y["high"]))

    def fold(self, name: str, dtype: ir.DataType, row: Elements) -> Scalar:
        if name in ("max", "min"):
            choose = np.maximum if name == "max" else np.minimum
            return pair(choose.reduce(row["low"], -1), choose.reduce(row["high"], -1))
        if row.shape[-1] > 64:
            raise Unsupported(f"{name} of so many intervals")
        return super().fold(name, dtype, row)

    def dot(self, left: Row, right: Row, dtype: ir.DataType, *initial: Scalar) -> Scalar:
        x, y = np.asarray(left), np.asarray(right)
        with np.errstate(all="ignore"):
            ends = [_product(x[a], y[b]) for a in ("low", "high") for b in ("low", "high")]
            lows, highs = np.minimum.reduce(ends), np.maximum.reduce(ends)
            least, most = lows.sum(-1), highs.sum(-1)
            signs = lows.min(-1, initial=np.inf), highs.max(-1, initial=-np.inf)
            size = _product(_largest(x), _largest(y)).sum(-1)
            for more in initial:
                least, most = least + more["low"], most + more["high"]
                size = size + _largest(more)
                signs = np.minimum(signs[0], more["low"]), np.maximum(signs[1], more["high"])
            found = self._fit(least, most, dtype, size * (1 + x.shape[-1] / ULPS))
            return _with_sign(found, dtype, *signs)

    def sum_along(self, terms: Elements, dtype: ir.DataType) -> Elements:
        with np.errstate(all="ignore"):
            size = _largest(terms).sum(-1) * (1 + terms.shape[-1] / ULPS)
            low, high = terms["low"], terms["high"]
            found = self._fit(low.sum(-1), high.sum(-1), dtype, size)
            signs = low.min(-1, initial=np.inf), high.max(-1, initial=-np.inf)
            return _with_sign(found, dtype, *signs)

    def kernel(
        self, data: Elements, dtype: ir.DataType, size: Callable[[], Elements]
    ) -> Elements:
        found = size()
        wide = _largest(found) if found.dtype.names else found
        return self._fit(data["low"], data["high"], dtype, wide)

    def cast(self, scalar: Scalar, source: ir.DataType, target: ir.DataType) -> Scalar:
        low, high = scalar["low"], scalar["high"]
        if is_float(target):
            finer = not is_float(source) or resolution(source) < resolution(target)
            return self._fit(low, high, target) if finer else scalar
        if target == ir.DataType.BOOL:
            return pair(0.0, 1.0)
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            return pair(*of_type(target))
        return fitted(np.trunc(low), np.trunc(high), target, computed=is_float(source))

    def _fit(
        self, low: Array, high: Array, dtype: ir.DataType, size: Numbers | None = None
    ) -> Elements:
        """Move ends outwards by the error of an operator; integers wrap around."""
        error = ULPS * resolution(dtype)
        if error:
            tiny = float(np.finfo(np.float32).tiny)
            below, above = (np.abs(low), np.abs(high)) if size is None else (size, size)
            low = np.where(np.isinf(low), low, low - error * below - tiny)
            high = np.where(np.isinf(high), high, high + error * above + tiny)
        low = np.where(np.isnan(low), -np.inf, low)
        return fitted(low, np.where(np.isnan(high), np.inf, high), dtype)


def _with_sign(found: Elements, dtype: ir.DataType, least: Numbers, most: Numbers) -> Elements:
    """Return intervals of sums or products of one sign, which rounding does not change."""
    if not is_float(dtype):
        return found
    low = np.where(np.asarray(least) >= 0, np.maximum(found["low"], 0), found["low"])
    high = np.where(np.asarray(most) <= 0, np.minimum(found["high"], 0), found["high"])
    return pair(low, high)


def _product(a: Numbers, b: Numbers) -> Array:
    # An infinite element times 0 is NaN; a finite one of an unbounded interval is 0.
    return np.where((a == 0) | (b == 0), 0.0, a * b)


def _largest(x: Elements) -> Array:
    return np.asarray(np.maximum(np.abs(x["low"]), np.abs(x["high"])))


def _clipped(x: Elements, a: Elements | None, b: Elements | None) -> Elements:
    low, high = x["low"], x["high"]
    if a is not None:
        low, high = np.maximum(low, a["low"]), np.maximum(high, a["high"])
    if b is not None:
        low, high = np.minimum(low, b["low"]), np.minimum(high, b["high"])
    return pair(low, high)


def _selected(condition: Elements, x: Elements, y: Elements) -> Elements:
    yes, no = condition["low"] == 1, condition["high"] == 0
    low = np.where(yes, x["low"], np.where(no, y["low"], np.minimum(x["low"], y["low"])))
    high = np.where(yes, x["high"], np.where(no, y["high"], np.maximum(x["high"], y["high"])))
    return pair(low, high)
