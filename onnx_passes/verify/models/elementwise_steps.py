"""Steps that work element by element."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_passes.plain import PlainDict
from onnx_passes.verify.models.inferring import UnfitError
from onnx_passes.verify.models.known_operators import numbers_of, of_elements
from onnx_passes.verify.models.known_values import (
    ALL,
    BOOL,
    FLOATS,
    INTS,
    NUMBERS,
    KnownValue,
    Shape,
    random_array,
    random_dtype,
)
from onnx_passes.verify.models.scope import GraphScope


def unary(scope: GraphScope, rng: np.random.Generator) -> None:
    """One operator on one tensor."""
    value = scope.pick_type(*ALL)
    kind = "bool" if value.dtype == BOOL else "float" if value.dtype in FLOATS else "int64"
    scope.emit(str(rng.choice(of_elements(1, kind))), [value])


def parametric(scope: GraphScope, rng: np.random.Generator) -> None:
    """An activation with attributes, some of them left to their defaults."""
    operator = str(rng.choice(of_elements(1, "float", given=True)))
    given: PlainDict = {
        name: float(rng.choice([0.0, 0.5, 1.0, 0.2, -0.5]))
        for name in numbers_of(operator)
        if rng.random() < 0.6
    }
    if operator == "Celu" and given.get("alpha") == 0:
        raise UnfitError  # divides by it
    scope.emit(operator, [scope.pick_type(*FLOATS)], **given)


def gelu(scope: GraphScope, rng: np.random.Generator) -> None:
    """Gelu in one of its two forms."""
    given = str(rng.choice(["none", "tanh"])) if rng.random() < 0.7 else None
    scope.emit("Gelu", [scope.pick_type(*FLOATS)], approximate=given)


def cast(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Cast, to the same type at times."""
    value = scope.pick_type(*ALL)
    to = value.dtype if rng.random() < 0.2 else random_dtype(rng)
    if value.dtype in FLOATS and to in INTS:
        # NaN and numbers out of range: every engine does as it likes.
        (value,) = scope.emit("Sign", [value])
        if to in INTS[3:4] or to in INTS[5:]:
            (value,) = scope.emit("Abs", [value])
        (flag,) = scope.emit("IsNaN", [value])
        zero = scope.constant(random_array(rng, value.dtype, ()) * 0, rng)
        (value,) = scope.emit("Where", [flag, zero, value])
    scope.emit("Cast", [value], to=to)


def clip(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Clip with both bounds, one, or none; the lower one may be the greater."""
    value = scope.pick_type(*NUMBERS)
    low, high = (
        scope.constant(random_array(rng, value.dtype, ()), rng) if rng.random() < 0.7 else None
        for _ in range(2)
    )
    scope.emit("Clip", [value, low, high])


def binary(scope: GraphScope, rng: np.random.Generator) -> None:
    """Arithmetic on two tensors that broadcast."""
    a = scope.pick_type(*NUMBERS)
    b = partner(scope, rng, a)
    operators = ["Add", "Sub", "Mul"]
    if a.dtype in FLOATS:
        operators += ["Div", "Pow"]
    elif b.data is not None and np.all(b.data != 0):
        operators += ["Div", "Mod"]
        if np.any(b.data == -1):
            operators = operators[:-2]  # the least number by -1 overflows
    operator = str(rng.choice(operators))
    fmod = 1 if operator == "Mod" and rng.random() < 0.3 else None
    fixed = operator in ("Div", "Mod") and a.dtype in INTS
    flip = operator in ("Add", "Sub", "Mul", "Div") and not fixed and rng.random() < 0.3
    scope.emit(operator, [b, a] if flip else [a, b], fmod=fmod)


def extremes(scope: GraphScope, rng: np.random.Generator) -> None:
    """Max, Min, Sum or Mean of one to three tensors."""
    a = scope.pick_type(*NUMBERS)
    operators = ["Max", "Min"] + (["Sum", "Mean"] if a.dtype in FLOATS else [])
    more = [partner(scope, rng, a) for _ in range(int(rng.integers(0, 3)))]
    scope.emit(str(rng.choice(operators)), [a, *more])


def comparison(scope: GraphScope, rng: np.random.Generator) -> None:
    """A comparison of two tensors."""
    a = scope.pick_type(*NUMBERS)
    scope.emit(
        str(rng.choice(of_elements(2, "float", compares=True))), [a, partner(scope, rng, a)]
    )


def logic(scope: GraphScope, rng: np.random.Generator) -> None:
    """And, Or or Xor."""
    a = scope.pick_type(BOOL)
    scope.emit(str(rng.choice(of_elements(2, "bool"))), [a, partner(scope, rng, a)])


def bits(scope: GraphScope, rng: np.random.Generator) -> None:
    """Bitwise operators and shifts."""
    a = scope.pick_type(*INTS)
    operator = str(
        rng.choice(["BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitShift"])
    )
    if operator == "BitwiseNot":
        scope.emit(operator, [a])
    elif operator == "BitShift":
        kind = np.dtype("uint8") if a.data is None else a.data.dtype
        a = scope.pick_type(TensorProto.UINT8, TensorProto.UINT32, TensorProto.UINT64)
        kind = np.dtype({2: "uint8", 12: "uint32", 13: "uint64"}[a.dtype])
        amount = scope.constant(np.asarray(rng.integers(0, 4), kind), rng)
        scope.emit(operator, [a, amount], direction=str(rng.choice(["LEFT", "RIGHT"])))
    else:
        scope.emit(operator, [a, partner(scope, rng, a)])


def where(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Where over three tensors that broadcast."""
    a = scope.pick_type(*ALL)
    b = partner(scope, rng, a)
    condition = partner(scope, rng, a, dtype=BOOL)
    scope.emit("Where", [condition, a, b])


def classify(scope: GraphScope, rng: np.random.Generator) -> None:
    """IsNaN or IsInf."""
    value = scope.pick_type(*FLOATS)
    if rng.random() < 0.5:
        scope.emit("IsNaN", [value])
        return
    given = {k: int(rng.integers(2)) for k in ("detect_negative", "detect_positive")}
    scope.emit("IsInf", [value], **{k: v for k, v in given.items() if rng.random() < 0.5})


def partner(
    scope: GraphScope, rng: np.random.Generator, value: KnownValue, *, dtype: int | None = None
) -> KnownValue:
    """Return a value that broadcasts with another one: an old one, or a new constant.

    Args:
        scope: The model so far.
        rng: Draws whether it is old or new, and what it holds.
        value: The value that it broadcasts with.
        dtype: Its element type; None for that of ``value``.
    """
    wanted = value.dtype if dtype is None else dtype
    if rng.random() < 0.55:
        try:
            return scope.pick(lambda v: v.dtype == wanted and _broadcast(v.shape, value.shape))
        except UnfitError:
            pass
    return scope.fresh(rng, [wanted], _smaller(rng, value.shape))


def _smaller(rng: np.random.Generator, shape: Shape | None) -> Shape:
    """Return a shape that broadcasts with another one."""
    if shape is None or rng.random() < 0.3:
        return ()
    kept = shape[int(rng.integers(0, len(shape) + 1)) :] if rng.random() < 0.5 else shape
    dims = [1 if dim is None or rng.random() < 0.3 else dim for dim in kept]
    grown = [1] if rng.random() < 0.1 and len(dims) < 5 else []
    return tuple(grown + dims)


def _broadcast(a: Shape | None, b: Shape | None) -> bool:
    if a is None or b is None:
        return False
    pairs = zip(reversed(a), reversed(b), strict=False)
    return all((x == y and x is not None) or 1 in (x, y) for x, y in pairs)


STEPS = (
    unary, unary, unary, unary, parametric, gelu, cast, clip, binary, binary, binary, extremes,
    comparison, logic, bits, where, classify,
)  # fmt: skip
"""Steps of this file, the common ones more than once."""
