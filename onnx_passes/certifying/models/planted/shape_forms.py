"""Exact operators on shapes: pairs that undo or continue each other, and computed sizes."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from onnx_passes.certifying.models.planted.plant import (
    ALL,
    FLOAT,
    FLOATS,
    INTS,
    FormBuilder,
    kind_of,
    make_step,
)
from onnx_passes.certifying.models.scope import BOOL, CannotAddNodeError, KnownValue


def any_type(p: FormBuilder) -> int:
    """Return an element type."""
    return p.choose(FLOAT, FLOAT, *ALL)


def shape_parts(p: FormBuilder) -> KnownValue:
    """Dimensions read out of a Shape in several ways."""
    x = p.x(any_type(p), (p.batch(), "S", 3, 2))
    shape = p.op("Shape", x)
    match p.choose("gather", "row", "slice", "concat", "twice"):
        case "gather":
            index = p.constant(np.asarray(p.choose(0, 1, -1)))
            return p.with_axes("Unsqueeze", p.op("Gather", shape, index), [0])
        case "row":
            return p.op("Gather", shape, p.ints(*p.other([1, 2], [2, 1])))
        case "slice":
            return p.op("Slice", shape, p.ints(1), p.ints(p.choose(3, -1)), p.ints(0))
        case "twice":
            again = p.op("Shape", p.op("Relu", x) if x.dtype in FLOATS else x)
            index = p.constant(np.asarray(0))
            sizes = p.op("Gather", shape, index), p.op("Gather", again, index)
            return p.op("Add", *sizes)
    parts = [p.op("Shape", x, start=a, end=b) for a, b in ((0, 1), (1, p.other(3, 2)))]
    return p.op("Concat", *parts, p.ints(7), axis=0)


def shape_arithmetic(p: FormBuilder) -> KnownValue:
    """A target that is computed from dynamic sizes: what folding follows half known."""
    x = p.x(any_type(p), (p.batch(), 4, 6))
    shape = p.op("Shape", x)
    first = p.op("Gather", shape, p.ints(0))
    size = p.op("Gather", shape, p.ints(1))
    product = p.op("Mul", size, p.op("Gather", shape, p.ints(2)))
    if p.chance():
        part = p.op("Div", product, p.ints(2))
        return p.op("Reshape", x, p.op("Concat", first, part, p.ints(2), axis=0))
    target = p.op("Concat", first, p.other(product, p.ints(-1)), axis=0)
    return p.op("Reshape", x, p.cast(target, TensorProto.INT64))


INT64, SIZES = TensorProto.INT64, (2, 1, 3, 1)
UNARY = (
    *(("Not", "Not"), ("Neg", "Neg"), ("BitwiseNot", "BitwiseNot"), ("Neg", "Abs")),
    *(("Abs", "Abs"), ("Relu", "Relu"), ("Sign", "Sign")),
    *((a, b) for a in ("Ceil", "Floor", "Round") for b in ("Ceil", "Floor", "Round")),
)
NEUTRAL = {
    "Add": 0, "Sub": 0, "Mul": 1, "Div": 1, "Pow": 1, "And": 1, "Or": 0, "Xor": 0,
    "BitwiseAnd": -1, "BitwiseOr": 0, "BitwiseXor": 0, "BitShift": 0,
}  # fmt: skip
SMALL_INTS = (TensorProto.INT32, TensorProto.INT8, TensorProto.UINT8)
"""Integers whose ends are floats as well."""
SHAPERS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


def unary_pair(p: FormBuilder) -> KnownValue:
    """Two operators of one operand; one of them is not needed."""
    inner, outer = p.choose(*UNARY) if not p.miss() else ("Abs", "Neg")
    dtype = p.dtype()
    if inner == "Not":
        dtype = BOOL
    elif inner == "BitwiseNot":
        dtype = p.choose(*INTS)
    return p.op(outer, p.op(inner, p.x(dtype)))


def neutral(p: FormBuilder) -> KnownValue:
    """Arithmetic with a neutral constant on either side."""
    operator = p.choose(*NEUTRAL)
    wanted: float = NEUTRAL[operator]
    among: tuple[int, ...] = (*FLOATS, *INTS)
    given = {}
    if operator in ("And", "Or", "Xor"):
        among = (BOOL,)
    elif operator == "BitShift":
        among, given = (TensorProto.UINT8, TensorProto.UINT64), {"direction": "LEFT"}
    elif operator.startswith("Bitwise"):
        among = INTS
    x = p.x(p.choose(*among))
    if wanted == 0 and x.dtype in FLOATS and operator == "Add":
        wanted = p.other(-0.0, 0.0)
    if wanted == -1:
        kind = kind_of(x.dtype)
        c = p.constant(np.asarray(~np.zeros(1, kind))[0])
    else:
        c = p.number(wanted, x)
    if operator in ("Sub", "Div", "Pow", "BitShift") and p.miss():
        return p.op(operator, c, x, **given)
    return p.op(operator, x, c, **given)


def idle_bounds(p: FormBuilder) -> KnownValue:
    """Bounds at the ends of a type, or of a tensor by itself."""
    x = p.x(p.choose(FLOAT, FLOAT, *FLOATS, *SMALL_INTS), rank=1)
    low, high = p.other((-np.inf, np.inf), (0, np.inf), (np.inf, -np.inf))
    operator = p.choose("Clip", "Max", "Min")
    if operator == "Clip":
        if p.chance(0.3):
            return p.op("Clip", x)
        return p.op("Clip", x, p.scalar(low, x), p.scalar(high, x))
    if p.chance(0.2):
        return p.op(operator, x, x)
    return p.op(operator, x, p.number(low if operator == "Max" else high, x))


def single(p: FormBuilder) -> KnownValue:
    """An operator over any number of tensors that is given one."""
    operator = p.choose("Concat", "Split", "Max", "Min", "Sum", "Mean")
    x = p.x(any_type(p) if operator in ("Concat", "Split") else FLOAT, rank=1)
    if operator == "Concat":
        return p.op("Concat", x, axis=p.axis(0, x.rank))
    if operator == "Split":
        given = {"num_outputs": 1} if p.scope.has_attribute("Split", "num_outputs") else {}
        return p.nodes("Split", x, outputs=1, axis=x.rank - 1, **given)[0]
    return p.op(operator, x)


def casts(p: FormBuilder) -> KnownValue:
    """A Cast behind a Cast, to wider or narrower types."""
    x = p.x(p.choose(FLOAT, TensorProto.FLOAT16, *INTS[:4], BOOL))
    wide: dict[int, int] = {FLOAT: TensorProto.DOUBLE, BOOL: FLOAT}
    wide[TensorProto.FLOAT16] = FLOAT
    between = p.other(wide.get(x.dtype, INT64), FLOAT, TensorProto.DOUBLE)
    to = x.dtype if p.chance() else p.choose(FLOAT, TensorProto.DOUBLE)
    return p.cast(p.cast(x, between), to)


def where(p: FormBuilder) -> KnownValue:
    """A Where that is negated, decided, or does not matter."""
    x = p.x(any_type(p), (p.batch(), 3))
    y, c = p.x(x.dtype, x.shape), p.x(BOOL, x.shape)
    match p.choose("not", "not", "known", "same"):
        case "not":
            return p.op("Where", p.op("Not", c), x, y)
        case "same":
            return p.op("Where", p.other(c, p.scope.input(BOOL, (4, 1, 3))), x, x)
    known = p.constant(np.full(p.other((1,), (4, 1, 1)), p.chance()))
    return p.op("Where", known, x, y)


def transposes(p: FormBuilder) -> KnownValue:
    """Two Transpose, which may undo each other, or one that moves nothing."""
    x = p.x(any_type(p), (p.batch(), 1, 3, 1))
    perm = [int(i) for i in p.rng.permutation(4)]
    style = p.choose("undo", "any", "idle")
    if style == "idle":
        return p.op("Transpose", x, perm=p.other([0, 3, 2, 1], [0, 2, 1, 3], [1, 0, 2, 3]))
    back = [int(i) for i in np.argsort(perm)]
    if style == "any" or p.miss():
        back = [int(i) for i in p.rng.permutation(4)]
    return p.op("Transpose", p.op("Transpose", x, perm=perm), perm=back)


def transposed_reshape(p: FormBuilder) -> KnownValue:
    """A Reshape behind a Transpose that moves dimensions of size 1 only."""
    x = p.x(any_type(p), (p.batch(), 1, 4, 3))
    turned = p.op("Transpose", x, perm=p.other([0, 2, 1, 3], [0, 1, 3, 2]))
    return p.op("Reshape", turned, p.ints(*p.choose([-1, 12], [1, -1], [-1, 4, 3], [0, -1])))


def swapped_keys(p: FormBuilder) -> KnownValue:
    """A Transpose of rank 3 between two Reshapes, as exporters turn keys."""
    a, b, c, d = p.choose(1, 2), 2, 3, 4
    x = p.x(any_type(p), (a, b, c, d))
    flat = p.op("Reshape", x, p.ints(*p.other([a * b, c, d], [a * c, b, d])))
    turned = p.op("Transpose", flat, perm=p.other([0, 2, 1], [1, 0, 2]))
    return p.op("Reshape", turned, p.ints(*p.other([a, b, d, c], [a, b, c, d])))


def shapers(p: FormBuilder) -> KnownValue:
    """Two operators that only change the shape, of a tensor that may be dynamic."""
    sizes = (p.batch(), *SIZES[1:])
    x = p.x(any_type(p), sizes)
    y = _shaped(p, x, p.choose(*SHAPERS))
    return _shaped(p, y, p.choose(*SHAPERS))


def _shaped(p: FormBuilder, x: KnownValue, operator: str) -> KnownValue:
    if x.shape is None:
        raise CannotAddNodeError
    if operator == "Flatten":
        return p.op("Flatten", x, axis=p.axis(1, x.rank) if x.rank > 1 else 1)
    if operator == "Squeeze":
        ones = [i for i, dim in enumerate(x.shape) if dim == 1]
        axes = [p.axis(i, x.rank) for i in ones if p.chance(0.7)] or ones
        return p.with_axes("Squeeze", x, axes)
    if operator == "Unsqueeze":
        count = p.choose(1, 2)
        places = p.rng.choice(x.rank + count, count, replace=False)
        return p.with_axes("Unsqueeze", x, [p.axis(int(i), x.rank + count) for i in places])
    known = [dim for dim in x.shape if isinstance(dim, int)]
    whole = math.prod(known)
    targets = [[-1, whole], [-1, 1, whole], [whole, -1]]
    if len(known) == x.rank - 1 and not isinstance(x.shape[0], int):
        targets += [[0, *known], [0, 1, -1], [0, -1]]
    return p.op("Reshape", x, p.ints(*p.choose(*targets)))


def squeezes(p: FormBuilder) -> KnownValue:
    """A Squeeze and an Unsqueeze in a row, which may undo each other."""
    x = p.x(any_type(p), (p.batch(), 1, 3, 1))
    inner, outer = p.choose("Squeeze", "Unsqueeze"), p.choose("Squeeze", "Unsqueeze")
    first = p.axis(1, 4 if inner == "Squeeze" else 5)
    second = p.axis(2 if inner == outer == "Squeeze" else 1, 4)
    if inner != outer and p.chance(0.8):
        second = p.other(first, 0)
    return p.with_axes(outer, p.with_axes(inner, x, [first]), [second])


def concats(p: FormBuilder) -> KnownValue:
    """A Concat in a Concat."""
    x = p.x(any_type(p), (p.batch(), 3))
    axis = p.choose(0, 1)
    inner = p.op("Concat", x, p.x(x.dtype, x.shape), axis=p.axis(axis, 2))
    parts = [inner, inner if p.miss() else x] if p.chance() else [x, inner]
    return p.op("Concat", *parts, axis=p.axis(axis, 2))


def idle_gather(p: FormBuilder) -> KnownValue:
    """A Gather of all elements, in order or not."""
    x = p.x(any_type(p), (p.batch(), 3, 2))
    return p.op("Gather", x, p.ints(*p.other([0, 1, 2], [0, 2, 1], [0, 1])), axis=p.axis(1, 3))


def idle_pad(p: FormBuilder) -> KnownValue:
    """A Pad by nothing."""
    x = p.x(FLOAT, (p.batch(), 3))
    return p.op("Pad", x, p.ints(*p.other([0] * 4, [0, 1, 0, 0])))


def idle_expand(p: FormBuilder) -> KnownValue:
    """An Expand or Tile that repeats nothing."""
    x = p.x(any_type(p), (p.batch(), 3, 1))
    if p.chance():
        return p.op("Tile", x, p.ints(*p.other([1, 1, 1], [1, 1, 2])))
    return p.op("Expand", x, p.ints(*p.other([1, 3, 1], [3, 1], [1, 3, 2])))


def scatters(p: FormBuilder) -> KnownValue:
    """A scatter that writes everything, or nothing."""
    x = p.x(p.choose(FLOAT, INT64, TensorProto.INT32), (3, 3))
    empty = p.chance(0.3)
    given = {"reduction": p.choose("add", "max")} if p.miss() else {}
    if p.chance():
        rows = np.zeros((0, 1)) if empty else np.asarray(p.other([0, 1, 2], [2, 1, 0]))
        places = p.constant(rows.reshape(-1, 1).astype(np.int64))
        updates = p.x(x.dtype, (0, 3) if empty else (3, 3))
        return p.op("ScatterND", x, places, updates, **given)
    axis = p.axis(0, 2)
    along = np.indices((0, 3) if empty else (3, 3))[axis]  # each place once
    if p.miss():
        along = along[::-1]
    places = p.constant(np.ascontiguousarray(along, np.int64))
    updates = p.x(x.dtype, along.shape)
    return p.op("ScatterElements", x, places, updates, axis=axis, **given)


def slices(p: FormBuilder) -> KnownValue:
    """Two Slice in a row, or one of everything."""
    x = p.x(any_type(p), (p.batch(), 8, 6))
    if p.chance(0.3):
        end = p.choose(8, 2**31 - 1, 2**63 - 1)
        return p.op("Slice", x, p.ints(p.other(0, 1)), p.ints(end), p.ints(p.axis(1, 3)))
    axes = p.choose((1, 2), (1, 1), (2, 1))
    for axis, (start, end) in zip(axes, ((1, 6), (p.other(2, -3), 5)), strict=True):
        inputs = [p.ints(start), p.ints(end), p.ints(p.axis(axis, 3))]
        if p.chance(0.3):
            inputs.append(p.ints(p.other(1, 2)))
        x = p.op("Slice", x, *inputs)
    return x


STEPS = tuple(
    make_step(form, sealed=False)
    for form in (
        unary_pair, unary_pair, neutral, neutral, neutral, idle_bounds, idle_bounds, single,
        casts, where, transposes, transposed_reshape, swapped_keys, shapers, shapers, squeezes,
        concats, idle_gather, idle_pad, idle_expand, scatters, scatters, slices, shape_parts,
        shape_parts, shape_arithmetic,
    )
)  # fmt: skip
