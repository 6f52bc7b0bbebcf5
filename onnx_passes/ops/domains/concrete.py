"""Arithmetics on numpy arrays: numbers in their own type, and derived forms.

The derived forms count operations, or forget numbers.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops.semantics import (
    Elements,
    Row,
    Scalar,
    Semantics,
    Unsupported,
    columns,
    is_float,
)


class ArraySemantics(Semantics):
    """An arithmetic whose scalars are arrays, which its primitives take element by element."""

    overflows, most = True, 1 << 28

    def map(self, function: Callable[..., Scalar], *arrays: Elements) -> Elements:
        found = np.asarray(function(*arrays))
        return np.broadcast_to(found, np.broadcast_shapes(*(a.shape for a in arrays)))

    def along(self, function: Callable[..., Scalar], *arrays: Elements) -> Elements:
        return np.asarray(function(*arrays))

    def padding(self, value: float, dtype: ir.DataType) -> Scalar:
        return self.literal(value, dtype)

    def variable(self, name: str, dtype: ir.DataType) -> Scalar:
        raise Unsupported(f"an unknown {name} among concrete numbers")

    def function(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        raise Unsupported(f"{name} of concrete numbers")

    def total(self, terms: Row, dtype: ir.DataType) -> Scalar:
        if isinstance(terms, np.ndarray):
            return self.sum_along(terms, dtype)
        return super().total(terms, dtype)

    def dot(self, left: Row, right: Row, dtype: ir.DataType, *initial: Scalar) -> Scalar:
        result = self.sum_along(self.apply("mul", dtype, left, right), dtype)
        for more in initial:
            result = self.apply("add", dtype, result, more)
        return result

    def sum_along(self, terms: Elements, dtype: ir.DataType) -> Elements:
        """Return sums along the last axis."""
        raise NotImplementedError

    def fold(self, name: str, dtype: ir.DataType, row: Elements) -> Scalar:
        return reduce(lambda a, b: self.apply(name, dtype, a, b), columns(row))


class ConcreteSemantics(ArraySemantics):
    """Numbers of ONNX's types; floats round in their own type after every primitive.

    Sums of half precision are added in single precision, and rounded once, as engines do.
    """

    def literal(self, value: bool | float, dtype: ir.DataType) -> Scalar:
        if dtype.is_integer() and isinstance(value, float) and math.isinf(value):
            value = int(dtype.max if value > 0 else dtype.min)
        return np.array(value).astype(dtype.numpy())

    def number(self, scalar: Scalar, dtype: ir.DataType) -> bool | int | float | None:
        number: bool | int | float = np.asarray(scalar).item()
        return number

    def constant(self, array: Array, dtype: ir.DataType) -> Elements:
        return array

    def numbers(self, data: Elements, dtype: ir.DataType) -> Array | None:
        return data

    def apply(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        function = _PRIMITIVES.get(name)
        if function is None:
            raise Unsupported(f"{name} of concrete numbers")
        with np.errstate(all="ignore"):
            result = function(*args)
            return result if name in _TESTS else result.astype(dtype.numpy(), copy=False)

    def cast(self, scalar: Scalar, source: ir.DataType, target: ir.DataType) -> Scalar:
        if target == ir.DataType.BOOL:
            return scalar != np.zeros((), source.numpy())
        with np.errstate(all="ignore"):
            return scalar.astype(target.numpy())

    def dot(self, left: Row, right: Row, dtype: ir.DataType, *initial: Scalar) -> Scalar:
        wide = np.float32 if dtype.itemsize == 2 and is_float(dtype) else dtype.numpy()
        sides = [np.asarray(side).astype(wide, copy=False) for side in (left, right)]
        with np.errstate(all="ignore"):
            product = np.asarray(np.einsum("...k,...k->...", *sides))
            return reduce(
                np.add, [np.asarray(i).astype(wide) for i in initial], product
            ).astype(dtype.numpy())

    def sum_along(self, terms: Elements, dtype: ir.DataType) -> Elements:
        wide = np.float32 if dtype.itemsize == 2 and is_float(dtype) else dtype.numpy()
        with np.errstate(all="ignore"):
            return np.asarray(terms.sum(-1, dtype=wide)).astype(dtype.numpy())

    def extremes(self, dtype: ir.DataType) -> tuple[Scalar | None, Scalar | None]:
        if not is_float(dtype):
            return None, None
        # ONNX Runtime clips to the greatest finite number, so that infinities do not pass.
        return self.literal(float(dtype.min), dtype), self.literal(float(dtype.max), dtype)


def _quotient(x: Array, y: Array) -> Array:
    if x.dtype.kind not in "iu":
        return np.asarray(x / y)
    # Towards zero; numpy's own goes down. What is divided by 0 has no meaning.
    safe = np.where(y == 0, 1, y).astype(y.dtype)
    down, rest = np.floor_divide(x, safe), np.mod(x, safe)
    return np.asarray(down + ((rest != 0) & ((x < 0) != (y < 0))))


def _clip(x: Array, low: Array | None, high: Array | None) -> Array:
    raised = x if low is None else np.where(x < low, low, x)
    return raised if high is None else np.where(raised > high, high, raised)


def _wide(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return a function that numpy may not have for a type, by way of doubles."""
    return lambda x: np.asarray(function(x.astype(np.float64)))


def _shift(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def shifted(x: Array, y: Array) -> Array:
        bits = x.dtype.itemsize * 8
        return np.where(y < bits, function(x, np.minimum(y, bits - 1)), 0)

    return shifted


def _rounded(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda x: x if x.dtype.kind in "iu" else np.asarray(function(x))


_TESTS = frozenset(
    ("equal", "less", "less_equal", "is_nan", "is_inf", "is_inf_positive", "is_inf_negative")
)

CURVES: Mapping[str, Callable[[Array], Array]] = {
    **{name: getattr(np, name) for name in ("exp", "log", "sin", "cos", "tan")},
    **{name: getattr(np, name) for name in ("sinh", "cosh", "tanh")},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("sin", "cos", "tan")},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("sinh", "cosh", "tanh")},
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
}
"""Transcendental primitives, for doubles."""

_PRIMITIVES: Mapping[str, Callable[..., Scalar]] = {
    **{name: _wide(function) for name, function in CURVES.items()},
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _quotient,
    "mod": np.mod,
    "fmod": np.fmod,
    "pow": np.power,
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "sqrt": np.sqrt,
    "floor": _rounded(np.floor),
    "ceil": _rounded(np.ceil),
    "round": _rounded(np.rint),
    "relu": lambda x: np.where(x < 0, np.zeros((), x.dtype), x),
    "max": np.maximum,
    "min": np.minimum,
    "clip": _clip,
    "select": lambda c, x, y: np.where(c, x, y),
    "equal": np.equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "is_nan": np.isnan,
    "is_inf": np.isinf,
    "is_inf_positive": lambda x: np.isinf(x) & (x > 0),
    "is_inf_negative": lambda x: np.isinf(x) & (x < 0),
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "not": np.logical_not,
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
    "bit_not": np.invert,
    "shift_left": _shift(np.left_shift),
    "shift_right": _shift(np.right_shift),
}


_NOTHING = np.zeros((), np.uint8)


def blank(shape: Sequence[int]) -> Elements:
    """Return an array of a shape that takes no memory."""
    return np.broadcast_to(_NOTHING, tuple(shape))


class CountingSemantics(ArraySemantics):
    """Shapes alone; ``count`` is the number of operations so far."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def literal(self, value: bool | float, dtype: ir.DataType) -> Scalar:
        return _NOTHING

    def constant(self, array: Array, dtype: ir.DataType) -> Elements:
        return blank(array.shape)

    def number(self, scalar: Scalar, dtype: ir.DataType) -> None:
        return None

    def numbers(self, data: Elements, dtype: ir.DataType) -> None:
        return None

    def cast(self, scalar: Scalar, source: ir.DataType, target: ir.DataType) -> Scalar:
        return scalar

    def apply(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        given = [a for a in args if a is not None]
        shape = np.broadcast_shapes(*(np.shape(a) for a in given))
        operations = {"select": 0, "clip": len(given) - 1}.get(name, 1)
        self.count += operations * math.prod(shape)
        return blank(shape)

    def fold(self, name: str, dtype: ir.DataType, row: Elements) -> Scalar:
        return self.sum_along(row, dtype)

    def sum_along(self, terms: Elements, dtype: ir.DataType) -> Elements:
        self.count += terms.size
        return blank(terms.shape[:-1])

    def dot(self, left: Row, right: Row, dtype: ir.DataType, *initial: Scalar) -> Scalar:
        shape = np.broadcast_shapes(np.shape(left), np.shape(right))
        self.count += 2 * math.prod(shape) + len(initial) * math.prod(shape[:-1])
        return blank(shape[:-1])


UNKNOWN = object()


class ShapeSemantics(Semantics):
    """Constants stay, so that axes and shapes can be read; everything else is unknown."""

    def literal(self, value: bool | float, dtype: ir.DataType) -> Scalar:
        return value

    def variable(self, name: str, dtype: ir.DataType) -> Scalar:
        return UNKNOWN

    def number(self, scalar: Scalar, dtype: ir.DataType) -> bool | int | float | None:
        return None if scalar is UNKNOWN else scalar

    def apply(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        return UNKNOWN

    def cast(self, scalar: Scalar, source: ir.DataType, target: ir.DataType) -> Scalar:
        if scalar is UNKNOWN or not target.is_integer():
            return scalar
        return int(scalar)

    def function(self, name: str, dtype: ir.DataType, *args: Scalar) -> Scalar:
        return UNKNOWN
