"""Parts of a model below float32: Casts there and back, and what is computed between."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_passes.plain import PlainDict
from onnx_passes.verify.models.element_types import FLOAT8, FLOAT16
from onnx_passes.verify.models.inferring import UnfitError
from onnx_passes.verify.models.known_values import KnownValue, random_array
from onnx_passes.verify.models.planted.plant import FLOAT, Plant, kind_of, planted


def _low(p: Plant) -> int:
    """Return a low type of the model, as steps choose it."""
    return p.scope.precision.chosen(p.choose(*p.scope.precision.low))


def _narrow(p: Plant, x: KnownValue, low: int) -> KnownValue:
    """Cast to a low type; to float8 in any of its two ways."""
    given: PlainDict = {}
    if p.scope.precision.real(low) in FLOAT8:
        given["saturate"] = p.choose(None, 1, 0)
    return p.op("Cast", x, to=low, **given)


def rounded(p: Plant) -> KnownValue:
    """A Cast to a low type and back, with one more such pair behind it at times."""
    x = p.x(rank=1)
    low = _low(p)
    for _ in range(p.choose(1, 1, 2)):
        x = p.cast(_narrow(p, x, low), p.other(x.dtype, x.dtype, TensorProto.DOUBLE))
        low = p.other(low, _low(p))
    return x


def chain(p: Plant) -> KnownValue:
    """Casts one behind another; some lose digits."""
    x = p.x(p.choose(FLOAT, FLOAT, TensorProto.DOUBLE, TensorProto.INT32), rank=1)
    types = [_low(p), p.choose(FLOAT, TensorProto.DOUBLE), _low(p), FLOAT]
    for dtype in types[p.choose(0, 1, 2) :]:
        x = _narrow(p, x, dtype)
    return x


def like(p: Plant) -> KnownValue:
    """A CastLike to a low type and back."""
    x = p.x(rank=1)
    model = p.constant(random_array(p.rng, p.scope.precision.chosen(FLOAT16), ()))
    return p.op("CastLike", p.op("CastLike", x, model), x)


def moved(p: Plant) -> KnownValue:
    """Operators that move elements, between Casts to a low type and back."""
    batch = p.batch()
    x = p.x(FLOAT, p.choose((batch, 3, 4), (batch, 2, 1)))
    y = _narrow(p, x, _low(p))
    for _ in range(p.choose(1, 2, 3)):
        y = _move(p, y)
    return p.cast(y, x.dtype)


def _move(p: Plant, y: KnownValue) -> KnownValue:
    rank = y.rank
    if rank < 1:
        raise UnfitError
    operator = p.choose(
        "Transpose", "Transpose", "Reshape", "Identity", "Cast", "Slice", "Concat", "Gather",
        "Unsqueeze", "Flatten",
    )  # fmt: skip
    match operator:
        case "Transpose":
            perm = [int(i) for i in p.rng.permutation(rank)]
            return p.op("Transpose", y, perm=p.other(perm, list(range(rank))))
        case "Reshape":
            return p.op("Reshape", y, p.ints(*p.choose((-1,), (0, -1), (1, -1))))
        case "Cast":
            return p.cast(y, y.dtype)
        case "Slice":
            return p.op(
                "Slice", y, p.ints(0), p.ints(p.choose(2, 2**63 - 1)), p.ints(rank - 1)
            )
        case "Concat":
            return p.op("Concat", *[y] * p.choose(1, 2), axis=p.axis(rank - 1, rank))
        case "Gather":
            return p.op("Gather", y, p.ints(0), axis=p.axis(rank - 1, rank))
        case "Unsqueeze":
            return p.with_axes("Unsqueeze", y, [0])
        case "Flatten":
            return p.op("Flatten", y, axis=1)
    return p.op("Identity", y)


def stored(p: Plant) -> KnownValue:
    """Weights that are stored in a low type and read in a wider one."""
    x = p.x(FLOAT, (p.batch(), 4))
    flip = p.chance(0.3)
    shape = (3, 4) if flip else (4, 3)
    kind = kind_of(_low(p))
    w = p.cast(p.constant(p.rng.standard_normal(shape).astype(kind)), x.dtype)
    if flip:
        w = p.op("Transpose", w, perm=[1, 0])
    y = p.op("MatMul", x, w)
    if p.chance():
        bias = p.op("Cast", p.constant(p.rng.standard_normal(3).astype(kind)), to=x.dtype)
        y = p.op("Add", y, bias)
    return p.op("Relu", y) if p.chance(0.4) else y


def layer(p: Plant) -> KnownValue:
    """A layer between Casts: in the low type if it has kernels, else with Casts around."""
    x = p.x(FLOAT, p.choose((p.batch(), 4), (2, p.batch(), 4)))
    low = _low(p)
    y = _narrow(p, x, low)
    native = p.scope.precision.real(low) in (FLOAT, FLOAT16)
    middle = low if native else x.dtype
    for operator in p.choose(("MatMul", "Add", "Relu"), ("Mul", "Add"), ("Sigmoid", "Mul")):
        if not native:
            y = p.cast(y, x.dtype)
        if operator in ("Relu", "Sigmoid"):
            made = p.op(operator, y)
        elif operator == "MatMul":
            made = p.op("MatMul", y, p.weights(4, 4, dtype=middle))
        else:
            made = p.op(operator, y, p.weights(4, dtype=middle))
        y = made if native else _narrow(p, made, low)
    return p.cast(y, x.dtype)


def scaled(p: Plant) -> KnownValue:
    """A QuantizeLinear to float8 and back, per tensor or per axis; weights at times."""
    low = p.choose(*FLOAT8)
    x = p.x(FLOAT, (p.batch(), 4))
    zero = p.constant(np.zeros((), kind_of(low)))
    if p.chance(0.3):
        w = p.constant(p.rng.standard_normal((4, 3)).astype(kind_of(low)))
        return p.op("MatMul", x, p.op("DequantizeLinear", w, p.positive(), zero))
    scale, axis = p.positive(), None
    if p.chance(0.4):
        scale, axis = p.positive(4), p.choose(None, 1, -1)
        zero = p.constant(np.zeros(4, kind_of(low)))
    q = p.op("QuantizeLinear", x, scale, zero, axis=axis, saturate=p.choose(None, 1, 0))
    if p.chance(0.3):
        q = p.op("Identity", q)
    other = p.positive(*scale.static or ())
    return p.op("DequantizeLinear", q, p.other(scale, other), zero, axis=axis)


def scaled_if_float8(p: Plant) -> KnownValue:
    """As :func:`scaled`, in models that have float8."""
    if not set(p.scope.precision.low) & set(FLOAT8):
        raise UnfitError
    return scaled(p)


STEPS = (
    *(planted(form, sealed=False) for form in (rounded, rounded, chain, like, moved, moved)),
    *(planted(form, sealed=True) for form in (stored, layer, layer, scaled_if_float8)),
)
"""Steps of this file."""
