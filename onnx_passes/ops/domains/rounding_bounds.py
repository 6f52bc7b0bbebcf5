"""Numbers with a bound on what rounding can do to them, to first order.

A scalar holds the result in double precision, and a distance. The results of an engine that
rounds to the type after every primitive lie within it, whatever the order of its sums. An
element is undecided where the bound is infinite.

The worst that a sum of n terms can do is n roundings of it (Higham, Accuracy and Stability of
Numerical Algorithms, 4.2). If roundings are random, it is a multiple of the root of n (Higham
and Mary, A New Approach to Probabilistic Rounding Error Analysis, 2019, theorem 2.4).
"""

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array, Numbers, float_limits
from onnx_passes.ops.domains.concrete import CURVES, ArraySemantics, ConcreteSemantics
from onnx_passes.ops.semantics import Elements, Row, Scalar, Unsupported, is_float

ULPS = 8
"""By how many units in the last place functions of engines may be wrong."""

_LIPSCHITZ = frozenset(("neg", "abs", "relu", "max", "min", "sin", "cos"))
_STEPS = frozenset(("floor", "ceil", "round", "sign"))
_ORDERS = frozenset(("less", "less_equal", "equal"))
_SIZES = {"sin": 1.0, "cos": 1.0, "tanh": 1.0, "erf": 1.0, "atan": 1.0}
"""What errors of bounded curves are relative to where their values are smaller."""
_EXACT = _LIPSCHITZ - {"sin", "cos"} | _STEPS


def _widened(array: Array, dtype: ir.DataType) -> Array:
    return array.astype(np.float64) if is_float(dtype) else array


class RoundingSemantics(ArraySemantics):
    """Doubles with absolute error bounds, for floats; other types are exact.

    With ``folds``, constants are results that were rounded, unless eight bits hold them.
    """

    folds = False

    def __init__(
        self,
        computed_in: ir.DataType | None = None,
        *,
        likely: bool = False,
        most: int = ArraySemantics.most,
    ) -> None:
        """Compute values as concrete numbers.

        ``computed_in`` is the widest type that the engine computes in. With ``likely``, sums
        are off as random roundings make them, not as the worst case does. ``most`` limits the
        elements of an operator, and the terms of a sum.
        """
        super().__init__()
        self.most = most
        self._likely = likely
        self._concrete = ConcreteSemantics()
        self._widest = 0.0 if computed_in is None else _unit(computed_in)

    def literal(self, value: bool | float, dtype: ir.DataType) -> Scalar:
        literal = self._concrete.literal(value, dtype)
        return bounded(_widened(literal, dtype), np.zeros(literal.shape))

    def constant(self, array: Array, dtype: ir.DataType) -> Elements:
        wide = _widened(array, dtype)
        if not (self.folds and is_float(dtype)):
            return bounded(wide, np.zeros(array.shape))
        with np.errstate(over="ignore", invalid="ignore"):
            short = array.astype(ml_dtypes.bfloat16).astype(np.float64) == wide
        half = 0.5 * float(float_limits(dtype.numpy()).eps)
        return bounded(wide, np.where(short, 0.0, half * np.abs(wide)))

    def number(self, scalar: Scalar, dtype: ir.DataType) -> bool | int | float | None:
        return self._concrete.number(scalar["value"], dtype)

    def numbers(self, data: Elements, dtype: ir.DataType) -> Array | None:
        exact = not data["error"].any()
        return data["value"] if exact else None

    def extremes(self, dtype: ir.DataType) -> tuple[Scalar | None, Scalar | None]:
        if not is_float(dtype):
            return None, None
        return self.literal(float(dtype.min), dtype), self.literal(float(dtype.max), dtype)

    def apply(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        if name == "select":
            return _selected(*args)
        values = [None if a is None else a["value"] for a in args]
        errors = [0.0 if a is None else a["error"] for a in args]
        wide = ir.DataType.DOUBLE if is_float(dtype) else dtype
        result = np.asarray(self._concrete.apply(name, wide, *values))
        if not is_float(dtype):
            # What is undecided, or overflows, makes all that is computed of it undecided.
            error = sum(errors) + np.zeros(result.shape)
            return bounded(result, error + self._overflow(name, dtype, values, result))
        with np.errstate(all="ignore"):
            carried = self._carried(name, values, errors, result)
        if result.dtype == np.bool_ or name in _EXACT:
            return bounded(result, carried)
        ulps = ULPS if name in CURVES or name == "pow" else 1
        return self._rounded(result, carried, dtype, ulps, _SIZES.get(name))

    def _overflow(
        self, name: str, dtype: ir.DataType, values: list[Scalar], result: Array
    ) -> Numbers:
        """Return infinity where integers overflow: engines differ in what comes of it."""
        if dtype == ir.DataType.BOOL or name not in ("add", "sub", "mul"):
            return 0.0
        doubles = [np.asarray(v, np.float64) for v in values]
        wide = self._concrete.apply(name, ir.DataType.DOUBLE, *doubles)
        return np.where(np.abs(wide - result) > 0.5 * np.abs(wide), np.inf, 0.0)

    def kernel(
        self, data: Elements, dtype: ir.DataType, size: Callable[[], Elements]
    ) -> Elements:
        if not is_float(dtype):
            return data
        found = size()
        wide = np.abs(found["value"] if found.dtype.names else found)
        return self._rounded(data["value"], data["error"], dtype, ULPS, wide)

    def _carried(self, name: str, x: list[Scalar], e: list[Scalar], result: Array) -> Array:
        """Return what the errors of the operands come to in the result."""
        zero = np.zeros(result.shape)
        if not any(np.any(error) for error in e):
            return zero
        match name:
            case "add" | "sub":
                return np.asarray(e[0] + e[1])
            case "mul":
                return np.asarray(abs(x[0]) * e[1] + abs(x[1]) * e[0] + e[0] * e[1])
            case "div":
                room = abs(x[1]) - e[1]
                found = (e[0] + abs(result) * e[1]) / np.where(room > 0, room, 1)
                return np.where(room > 0, found, np.inf)
            case _ if name in _LIPSCHITZ or name == "clip":
                return np.asarray(zero + np.maximum.reduce(np.broadcast_arrays(*e)))
            case _ if name in _ORDERS:
                undecided = abs(x[0] - x[1]) <= e[0] + e[1]
                return np.where(undecided & ((e[0] + e[1]) > 0), np.inf, 0.0)
            case "is_nan" | "is_inf" | "is_inf_positive" | "is_inf_negative":
                return np.where(np.isinf(e[0]), np.inf, zero)
        return self._moved(name, x, e, result)

    def _moved(self, name: str, x: list[Scalar], e: list[Scalar], result: Array) -> Array:
        """Return how far the ends of what the operands may be lie from the result."""
        found = np.zeros(result.shape)
        least = 0.0 if name in ("sqrt", "log") else -np.inf
        for side in (-1, 1):
            ends = [np.maximum(v + side * d, least) for v, d in zip(x, e, strict=True)]
            other = self._concrete.apply(name, ir.DataType.DOUBLE, *ends)
            found = np.fmax(found, abs(other - result))
        return np.where(np.isinf(e[0]), np.inf, found)

    def _rounded(
        self,
        result: Array,
        carried: Array,
        dtype: ir.DataType,
        ulps: int,
        size: Array | float | None = None,
    ) -> Elements:
        """Add what rounding the result, or sums of this size, to the type may add."""
        finfo = float_limits(dtype.numpy())
        scale = np.maximum(np.abs(result), 0.0 if size is None else size)
        with np.errstate(all="ignore"):
            error = carried + ulps * max(_unit(dtype), self._widest) * scale
            error = error + float(finfo.tiny)
            # Near the end of the type's range, a result may be infinite or not.
            near = np.abs(result) + error >= float(finfo.max)
            error = np.where(near & np.isfinite(result), np.inf, error)
        return bounded(result, np.where(np.isnan(result) | np.isnan(error), np.inf, error))

    def sum_along(self, terms: Elements, dtype: ir.DataType) -> Elements:
        total = self._concrete.sum_along(terms["value"], _wide(dtype))
        return self._added(total, terms, dtype)

    def _added(self, total: Array, terms: Elements, dtype: ir.DataType) -> Elements:
        if not is_float(dtype):
            wide = terms["value"].astype(np.float64).sum(-1)
            over = np.where(np.abs(wide - total) > 0.5 * np.abs(wide), np.inf, 0.0)
            return bounded(total, terms["error"].sum(-1) + over)
        size = np.abs(terms["value"]).sum(-1) * self._roundings(terms.shape[-1])
        with np.errstate(all="ignore"):
            return self._rounded(total, terms["error"].sum(-1), dtype, 1, size)

    def _roundings(self, terms: int) -> float:
        """Return how many roundings of a sum count, in epsilons, which are two each.

        Random ones stay within four times the root of their number all but once in 10^3
        sums (Higham and Mary, lambda = 4).
        """
        count = max(terms, 1)
        return min(count, 2 * math.sqrt(count)) if self._likely else count

    def dot(self, left: Row, right: Row, dtype: ir.DataType, *initial: Scalar) -> Scalar:
        if math.prod(np.broadcast_shapes(np.shape(left), np.shape(right))) > self.most:
            raise Unsupported("sums of so many terms")
        return super().dot(left, right, dtype, *initial)

    def cast(self, scalar: Scalar, source: ir.DataType, target: ir.DataType) -> Scalar:
        value, error = scalar["value"], scalar["error"]
        result = self._concrete.cast(value, _wide(source), _wide(target))
        if is_float(source) and not is_float(target):
            ends = [
                self._concrete.cast(value + s * error, _wide(source), target) for s in (-1, 1)
            ]
            carried = np.where((ends[0] == result) & (ends[1] == result), 0.0, np.inf)
            return bounded(result, carried)
        if is_float(target) and _unit(target) > (_unit(source) if is_float(source) else 0):
            return self._rounded(result, error, target, 1)
        return bounded(result, error)


def bounded(value: Array, error: Array) -> Elements:
    """Return values with float64 bounds of their errors, which broadcast."""
    value = np.asarray(value)
    shape = np.broadcast_shapes(value.shape, np.shape(error))
    found = np.empty(shape, [("value", value.dtype), ("error", np.float64)])
    found["value"], found["error"] = value, error
    return found


def _wide(dtype: ir.DataType) -> ir.DataType:
    return ir.DataType.DOUBLE if is_float(dtype) else dtype


def _unit(dtype: ir.DataType) -> float:
    return float(float_limits(dtype.numpy()).eps)


def _selected(condition: Scalar, x: Scalar, y: Scalar) -> Scalar:
    chosen = np.where(condition["value"], x["value"], y["value"])
    error = np.where(condition["value"], x["error"], y["error"])
    if not np.any(condition["error"]):
        return bounded(chosen, error)
    if chosen.dtype.kind != "f":
        return bounded(chosen, np.where(condition["error"] > 0, np.inf, error))
    with np.errstate(all="ignore"):
        apart = np.abs(x["value"] - y["value"]) + np.maximum(x["error"], y["error"])
    return bounded(chosen, np.where(condition["error"] > 0, apart, error))
