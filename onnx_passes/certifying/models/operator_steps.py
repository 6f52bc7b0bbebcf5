"""Steps that add operators to a random model: elementwise, shape, reduction and product."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

import numpy as np
import onnx
from onnx import TensorProto

from onnx_passes.certifying.models.scope import (
    ALL,
    BOOL,
    FLOATS,
    INTS,
    NUMBERS,
    CannotAddNodeError,
    GraphScope,
    KnownValue,
    Shape,
    axis_of,
    random_array,
    random_dtype,
    random_shape,
    ranked,
    static,
)
from onnx_passes.ops import families  # noqa: F401 (makes operators known)
from onnx_passes.ops.elementwise import Elementwise
from onnx_passes.ops.operator_class import find, operators
from onnx_passes.ops.reduction import Reduce
from onnx_passes.plain import PlainDict


@cache
def list_elementwise_operators(
    operands: int, dtype: str, *, compares: bool = False, given: bool = False
) -> tuple[str, ...]:
    """Return the elementwise operators of some form, with attributes only if `given`.

    They take `dtype`, such as ``float``. With `compares`, their result is a boolean.
    """
    return tuple(
        operator.op_type
        for operator, schema in _described()
        if isinstance(operator, Elementwise)
        and schema.min_input == schema.max_input == operands
        and f"tensor({dtype})" in schema.inputs[0].types
        and operator.boolean == compares
        and bool(operator.attributes) == given == bool(schema.attributes)
    )


@cache
def reductions() -> tuple[str, ...]:
    """Return the reductions that take axes."""
    return tuple(o.op_type for o, _ in _described() if isinstance(o, Reduce))


def _described() -> Iterator[tuple[object, onnx.defs.OpSchema]]:
    # In one order, whatever was imported first: a recipe's seed draws from them.
    for operator in sorted(operators(), key=lambda known: known.op_type):
        if not operator.domain and onnx.defs.has(operator.op_type):
            yield operator, onnx.defs.get_schema(operator.op_type)


def unary(scope: GraphScope, rng: np.random.Generator) -> None:
    """One operator on one tensor."""
    value = scope.pick_type(*ALL)
    kind = "bool" if value.dtype == BOOL else "float" if value.dtype in FLOATS else "int64"
    scope.emit(str(rng.choice(list_elementwise_operators(1, kind))), [value])


def parametric(scope: GraphScope, rng: np.random.Generator) -> None:
    """An activation with attributes, some of them left to their defaults."""
    operator = str(rng.choice(list_elementwise_operators(1, "float", given=True)))
    described = find("", operator)
    assert isinstance(described, Elementwise)
    given: PlainDict = {
        name: float(rng.choice([0.0, 0.5, 1.0, 0.2, -0.5]))
        for name, _ in described.attributes
        if rng.random() < 0.6
    }
    if operator == "Celu" and given.get("alpha") == 0:
        raise CannotAddNodeError  # divides by it
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
        str(rng.choice(list_elementwise_operators(2, "float", compares=True))),
        [a, partner(scope, rng, a)],
    )


def logic(scope: GraphScope, rng: np.random.Generator) -> None:
    """And, Or or Xor."""
    a = scope.pick_type(BOOL)
    scope.emit(
        str(rng.choice(list_elementwise_operators(2, "bool"))), [a, partner(scope, rng, a)]
    )


def bits(scope: GraphScope, rng: np.random.Generator) -> None:
    """Bitwise operators and shifts."""
    a = scope.pick_type(*INTS)
    operator = str(
        rng.choice(["BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitShift"])
    )
    if operator == "BitwiseNot":
        scope.emit(operator, [a])
    elif operator == "BitShift":
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
    """Return a value that broadcasts with another one, and has its type by default."""
    wanted = value.dtype if dtype is None else dtype
    if rng.random() < 0.55:
        try:
            return scope.pick(lambda v: v.dtype == wanted and _broadcast(v.shape, value.shape))
        except CannotAddNodeError:
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


ELEMENTWISE_STEPS = (
    unary, unary, unary, unary, parametric, gelu, cast, clip, binary, binary, binary, extremes,
    comparison, logic, bits, where, classify,
)  # fmt: skip
"""Steps of this file, the common ones more than once."""


INT64 = TensorProto.INT64


def transpose(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Transpose, with the default permutation at times."""
    value = ranked(scope, *ALL)
    perm = [int(i) for i in rng.permutation(value.rank)] if rng.random() < 0.8 else None
    scope.emit("Transpose", [value], perm=perm)


def reshape(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Reshape to a constant shape, with -1 and 0 at times."""
    value, sizes = static(scope, *ALL)
    total = math.prod(sizes)
    target = list(sizes) if rng.random() < 0.25 else _factors(rng, total)
    if target and total and rng.random() < 0.4:
        target[int(rng.integers(len(target)))] = -1
    allowzero = None
    if 0 in target:
        allowzero = 1
    elif target and sizes and rng.random() < 0.3 and target[0] == sizes[0]:
        target[0] = 0
    if allowzero and scope.opset < 14:
        raise CannotAddNodeError
    scope.emit("Reshape", [value, scope.ints(target, rng)], allowzero=allowzero)


def flatten(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Flatten, before or behind any axis."""
    value = ranked(scope, *ALL)
    axis = int(rng.integers(-value.rank, value.rank + 1)) if rng.random() < 0.8 else None
    scope.emit("Flatten", [value], axis=axis)


def squeeze(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Squeeze of dimensions of size 1, by name or all."""
    value = scope.pick(lambda v: v.shape is not None and 1 in v.shape)
    assert value.shape is not None
    ones = [i for i, dim in enumerate(value.shape) if dim == 1]
    if value.static is not None and rng.random() < 0.3:
        scope.emit("Squeeze", [value])
        return
    chosen = [i - value.rank if rng.random() < 0.3 else i for i in ones if rng.random() < 0.7]
    scope.emit("Squeeze", [value, scope.ints(chosen or ones, rng)])


def unsqueeze(scope: GraphScope, rng: np.random.Generator) -> None:
    """An Unsqueeze by one axis or two."""
    value = scope.pick(lambda v: 0 <= v.rank <= 3)
    count = int(rng.integers(1, 3))
    axes = [int(a) for a in rng.choice(value.rank + count, count, replace=False)]
    axes = [a - value.rank - count if rng.random() < 0.3 else a for a in axes]
    scope.emit("Unsqueeze", [value, scope.ints(axes, rng)])


def expand(scope: GraphScope, rng: np.random.Generator) -> None:
    """An Expand, mostly to a shape that differs."""
    value, sizes = static(scope, *ALL)
    target = [int(rng.integers(1, 4)) if s == 1 and rng.random() < 0.6 else s for s in sizes]
    if rng.random() < 0.3:
        target = [1 if rng.random() < 0.3 else size for size in target]
    if len(target) < 4 and rng.random() < 0.3:
        target = [int(rng.integers(1, 3)), *target]
    scope.emit("Expand", [value, scope.ints(target, rng)])


def concat(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Concat of one to three tensors."""
    value = ranked(scope, *ALL)
    axis = axis_of(rng, value.rank)
    shape = value.shape
    assert shape is not None
    parts = [value]
    for _ in range(int(rng.integers(0, 3))):
        other = list(shape)
        if rng.random() < 0.5:
            other[axis] = int(rng.integers(0, 4))
        if None in other:
            parts.append(value)
            continue
        try:
            parts.append(
                scope.pick(
                    lambda v, o=tuple(other): v.dtype == value.dtype and v.shape == o  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
                )
            )
        except CannotAddNodeError:
            parts.append(scope.fresh(rng, [value.dtype], tuple(other)))
    scope.emit("Concat", parts, axis=axis)


def split(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Split in even or uneven parts, or in one."""
    value, sizes = static(scope, *ALL, least=1)
    axis = axis_of(rng, len(sizes))
    size = sizes[axis]
    count = int(rng.integers(1, max(2, min(size, 3) + 1)))
    if size == 0 or (count > size):
        raise CannotAddNodeError
    cuts = sorted(int(c) for c in rng.integers(0, size + 1, count - 1))
    parts = np.diff([0, *cuts, size]).tolist()
    if size % count == 0 and rng.random() < 0.5:
        given = {"num_outputs": count} if scope.has_attribute("Split", "num_outputs") else {}
        scope.emit("Split", [value], outputs=count, axis=axis, **given)
    else:
        scope.emit("Split", [value, scope.ints(parts, rng)], outputs=count, axis=axis)


def slice_(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Slice with steps of either sign, and bounds that may lie outside."""
    value = ranked(scope, *ALL)
    count = int(rng.integers(1, value.rank + 1))
    axes = [int(a) for a in rng.choice(value.rank, count, replace=False)]
    starts = [int(rng.integers(-4, 4)) for _ in axes]
    ends = [int(rng.choice([-2, -1, 0, 1, 2, 5, 2**31 - 1, 2**63 - 1])) for _ in axes]
    steps = [int(rng.choice([1, 1, 1, 2, -1, -2])) for _ in axes]
    # Backwards "to the end" is the least number; for the greatest, engines differ.
    ends = [
        -end if end > 5 and step < 0 else end for end, step in zip(ends, steps, strict=True)
    ]
    if rng.random() < 0.2:
        starts, ends, steps = [0] * count, [2**63 - 1] * count, [1] * count
    inputs = [value, scope.ints(starts, rng), scope.ints(ends, rng)]
    if axes != list(range(count)) or any(s != 1 for s in steps) or rng.random() < 0.5:
        inputs.append(scope.ints(axes, rng))
        if any(s != 1 for s in steps) or rng.random() < 0.5:
            inputs.append(scope.ints(steps, rng))
    scope.emit("Slice", inputs)


def gather(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Gather by constant indices, negative ones among them."""
    value = ranked(scope, *ALL)
    assert value.shape is not None
    axis = axis_of(rng, value.rank)
    size = value.shape[axis]
    if not isinstance(size, int) or size == 0:
        raise CannotAddNodeError
    shape = [(), (1,), (2,), (3,), (2, 2)][int(rng.integers(5))]
    kind = np.int64 if rng.random() < 0.7 else np.int32
    indices = np.asarray(rng.integers(-size, size, shape), kind)
    scope.emit("Gather", [value, scope.constant(indices, rng)], axis=axis)


def pad(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Pad in one of its modes, negative amounts among them."""
    value, sizes = static(scope, TensorProto.FLOAT, TensorProto.DOUBLE, INT64, least=1)
    mode = str(rng.choice(["constant", "constant", "edge", "reflect"]))
    if mode != "constant" and min(sizes) < 2:
        raise CannotAddNodeError
    high = 2 if mode == "reflect" else 3
    amounts = [int(rng.integers(0, high)) if rng.random() < 0.5 else 0 for _ in sizes * 2]
    if mode == "constant" and min(sizes) > 2 and rng.random() < 0.2:
        amounts[0] = -1
    inputs: list[KnownValue | None] = [value, scope.ints(amounts, rng)]
    if mode == "constant" and rng.random() < 0.5:
        inputs.append(scope.fresh(rng, [value.dtype], ()))
    scope.emit("Pad", inputs, mode=mode if mode != "constant" or rng.random() < 0.5 else None)


def tile(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Tile, by ones at times."""
    value = ranked(scope, *ALL)
    repeats = [
        int(rng.choice([1, 1, 2, 0], p=[0.45, 0.2, 0.33, 0.02])) for _ in range(value.rank)
    ]
    scope.emit("Tile", [value, scope.ints(repeats, rng)])


def trilu(scope: GraphScope, rng: np.random.Generator) -> None:
    """The upper or lower triangle."""
    value = ranked(scope, *NUMBERS, least=2)
    k = scope.constant(np.asarray(rng.integers(-2, 3), np.int64), rng)
    upper = int(rng.integers(2)) if rng.random() < 0.7 else None
    scope.emit("Trilu", [value, k] if rng.random() < 0.6 else [value], upper=upper)


def shape_of(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Shape, of a part at times, or a Size."""
    value = scope.pick(lambda v: v.rank >= 0)
    if rng.random() < 0.2:
        scope.emit("Size", [value])
        return
    given = {}
    if scope.opset >= 15:
        given = {k: int(rng.integers(-2, 4)) for k in ("start", "end") if rng.random() < 0.3}
    scope.emit("Shape", [value], **given)


def reshape_by_shape(scope: GraphScope, rng: np.random.Generator) -> None:
    """The idiom of exporters: Shape, Gather, Concat, Reshape, over dynamic sizes as well."""
    value = ranked(scope, *ALL, least=2)
    (shape,) = scope.emit("Shape", [value])
    index = scope.constant(np.asarray([0], np.int64), rng)
    (first,) = scope.emit("Gather", [shape, index], axis=0)
    (target,) = scope.emit("Concat", [first, scope.ints([-1], rng)], axis=0)
    if value.shape is not None and value.shape[0] == 0:
        raise CannotAddNodeError
    scope.emit("Reshape", [value, target])


def expand_by_shape(scope: GraphScope, rng: np.random.Generator) -> None:
    """An Expand to the shape of another value."""
    value = scope.pick(lambda v: v.rank >= 0)
    other = partner(scope, rng, value)
    (shape,) = scope.emit("Shape", [value])
    scope.emit("Expand", [other, shape])


def constant_of_shape(scope: GraphScope, rng: np.random.Generator) -> None:
    """A tensor of one number, its shape known or computed."""
    if rng.random() < 0.5:
        sizes = [dim for dim in random_shape(rng) if isinstance(dim, int)]
        shape = scope.ints(sizes, rng)
    else:
        (shape,) = scope.emit("Shape", [scope.pick(lambda v: v.rank >= 0)])
    scope.emit("ConstantOfShape", [shape])


def range_(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Range between constants."""
    start, stop = (int(rng.integers(-3, 6)) for _ in range(2))
    step = int(rng.choice([1, 2, -1]))
    kind = np.int64 if rng.random() < 0.6 else np.float32
    bounds = [scope.constant(np.asarray(n, kind), rng) for n in (start, stop, step)]
    scope.emit("Range", bounds)


def scatter(scope: GraphScope, rng: np.random.Generator) -> None:
    """A ScatterND of whole rows, each written once."""
    value, sizes = static(scope, TensorProto.FLOAT, INT64, TensorProto.INT32, least=1)
    if sizes[0] == 0:
        raise CannotAddNodeError
    count = int(rng.integers(1, sizes[0] + 1))
    rows = rng.permutation(sizes[0])[:count].reshape(count, 1)
    updates = scope.fresh(rng, [value.dtype], (count, *sizes[1:]))
    indices = scope.constant(np.asarray(rows, np.int64), rng)
    scope.emit("ScatterND", [value, indices, updates])


def gather_elements(scope: GraphScope, rng: np.random.Generator) -> None:
    """A GatherElements by constant indices."""
    value, sizes = static(scope, *ALL, least=1)
    axis = axis_of(rng, len(sizes))
    if 0 in sizes:
        raise CannotAddNodeError
    indices = np.asarray(rng.integers(-sizes[axis], sizes[axis], sizes), np.int64)
    scope.emit("GatherElements", [value, scope.constant(indices, rng)], axis=axis)


def depth_to_space(scope: GraphScope, rng: np.random.Generator) -> None:
    """DepthToSpace in both modes, and SpaceToDepth."""
    value = scope.fresh(rng, [TensorProto.FLOAT], ("N", 4, 2, 2))
    if rng.random() < 0.5:
        mode = str(rng.choice(["DCR", "CRD"])) if rng.random() < 0.7 else None
        scope.emit("DepthToSpace", [value], blocksize=2, mode=mode)
    else:
        scope.emit("SpaceToDepth", [value], blocksize=2)


def _factors(rng: np.random.Generator, total: int) -> list[int]:
    """Return sizes of that product, in some order."""
    if total == 0:
        return [0, int(rng.integers(1, 4))]
    sizes: list[int] = []
    while total > 1:
        choices = [n for n in range(2, total + 1) if total % n == 0]
        sizes.append(int(rng.choice(choices)))
        total //= sizes[-1]
    sizes += [1] * int(rng.integers(0, 3))
    rng.shuffle(sizes)
    return sizes[:6] if math.prod(sizes[:6]) == math.prod(sizes) else sizes


SHAPE_STEPS = (
    transpose, transpose, reshape, reshape, flatten, squeeze, unsqueeze, expand, concat,
    concat, split, slice_, slice_, gather, pad, tile, trilu, shape_of, shape_of,
    reshape_by_shape, expand_by_shape, constant_of_shape, range_, scatter, gather_elements,
    depth_to_space,
)  # fmt: skip
"""Steps of this file, the common ones more than once."""


FLOAT = TensorProto.FLOAT


def reduce_(scope: GraphScope, rng: np.random.Generator) -> None:
    """A reduction over some axes, all, or none."""
    # What overflows is not the same on engines: ends of a Slice are not reduced.
    value = scope.pick(lambda v: v.dtype in NUMBERS and v.rank >= 0 and not _is_huge(v))
    operator = str(rng.choice(reductions()))
    count = int(rng.integers(0, value.rank + 1))
    axes = [int(a) for a in rng.choice(max(value.rank, 1), count, replace=False)]
    axes = [a - value.rank if rng.random() < 0.3 else a for a in axes]
    keepdims = int(rng.integers(2)) if rng.random() < 0.7 else None
    if scope.has_attribute(operator, "axes"):
        scope.emit(operator, [value], axes=axes or None, keepdims=keepdims)
        return
    noop = int(rng.integers(2)) if rng.random() < 0.4 else None
    inputs = [value, scope.ints(axes, rng)] if axes or rng.random() < 0.3 else [value]
    scope.emit(operator, inputs, keepdims=keepdims, noop_with_empty_axes=noop)


def _is_huge(value: KnownValue) -> bool:
    integers = value.data is not None and value.data.dtype.kind in "iu"
    return integers and bool(np.any(np.abs(np.asarray(value.data, np.float64)) > 1e9))


def arg(scope: GraphScope, rng: np.random.Generator) -> None:
    """ArgMax or ArgMin."""
    value = ranked(scope, FLOAT, TensorProto.INT32, TensorProto.INT64)
    given: PlainDict = {"axis": axis_of(rng, value.rank)}
    if rng.random() < 0.5:
        given["keepdims"] = int(rng.integers(2))
    if rng.random() < 0.3:
        given["select_last_index"] = int(rng.integers(2))
    if value.shape is None or 0 in value.shape:
        raise CannotAddNodeError
    scope.emit(str(rng.choice(["ArgMax", "ArgMin"])), [value], **given)


def softmax(scope: GraphScope, rng: np.random.Generator) -> None:
    """Softmax, its logarithm, or Hardmax."""
    value = ranked(scope, *FLOATS)
    axis = axis_of(rng, value.rank) if rng.random() < 0.8 else None
    operator = str(rng.choice(["Softmax", "LogSoftmax", "Hardmax"], p=[0.6, 0.3, 0.1]))
    scope.emit(operator, [value], axis=axis)


def cumsum(scope: GraphScope, rng: np.random.Generator) -> None:
    """A CumSum in any direction."""
    value = ranked(scope, FLOAT, TensorProto.INT64, TensorProto.INT32)
    axis = scope.constant(np.asarray(axis_of(rng, value.rank), np.int64), rng)
    given = {k: int(rng.integers(2)) for k in ("exclusive", "reverse") if rng.random() < 0.5}
    scope.emit("CumSum", [value, axis], **given)


def topk(scope: GraphScope, rng: np.random.Generator) -> None:
    """The greatest or least elements."""
    value, sizes = static(scope, FLOAT, TensorProto.INT64, least=1)
    axis = axis_of(rng, len(sizes))
    k = scope.ints([int(rng.integers(0, sizes[axis] + 1))], rng)
    largest = int(rng.integers(2)) if rng.random() < 0.5 else None
    scope.emit("TopK", [value, k], outputs=2, axis=axis, largest=largest)


def layer_norm(scope: GraphScope, rng: np.random.Generator) -> None:
    """LayerNormalization over the last dimensions."""
    value, sizes = static(scope, FLOAT, TensorProto.DOUBLE, least=1)
    if scope.opset < 17 or 0 in sizes:
        raise CannotAddNodeError
    axis = int(rng.integers(-len(sizes), 0))
    inputs = [value, scope.fresh(rng, [value.dtype], sizes[axis:])]
    if rng.random() < 0.6:
        inputs.append(scope.fresh(rng, [value.dtype], sizes[axis:]))
    given: PlainDict = {} if axis == -1 and rng.random() < 0.5 else {"axis": axis}
    if rng.random() < 0.6:
        given["epsilon"] = float(rng.choice([1e-5, 1e-12, 0.1, 0.0]))
    scope.emit("LayerNormalization", inputs, **given)


def batch_norm(scope: GraphScope, rng: np.random.Generator) -> None:
    """BatchNormalization as inference has it."""
    channels = int(rng.integers(1, 4))
    value = _image(scope, rng, channels)
    scale, bias, mean = (scope.fresh(rng, [FLOAT], (channels,)) for _ in range(3))
    spread = np.abs(random_array(rng, FLOAT, (channels,)).astype(np.float32))
    variance = scope.constant(spread, rng)
    epsilon = float(rng.choice([1e-5, 1e-3, 0.5])) if rng.random() < 0.6 else None
    scope.emit("BatchNormalization", [value, scale, bias, mean, variance], epsilon=epsilon)


def matmul(scope: GraphScope, rng: np.random.Generator) -> None:
    """A MatMul with a constant or an input, vectors and batches among them."""
    value = ranked(scope, FLOAT, TensorProto.DOUBLE, TensorProto.INT32)
    assert value.shape is not None
    inner = value.shape[-1]
    if not isinstance(inner, int) or inner == 0:
        raise CannotAddNodeError  # over nothing, ONNX Runtime leaves its output unwritten
    outer = int(rng.integers(1, 4))
    shape = [(inner,), (inner, outer), (inner, outer), (1, inner, outer), (2, inner, outer)]
    other = scope.fresh(rng, [value.dtype], shape[int(rng.integers(len(shape)))])
    scope.emit("MatMul", [value, other])


def gemm(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Gemm with its attributes, some left to their defaults."""
    value = scope.pick(
        lambda v: v.dtype in FLOATS[:2] and v.rank == 2 and v.static is not None
    )
    assert value.static is not None
    if 0 in value.static:
        raise CannotAddNodeError
    flip_a, flip_b = (int(rng.integers(2)) for _ in range(2))
    rows, inner = value.static[::-1] if flip_a else value.static
    columns = int(rng.integers(1, 4))
    other = scope.fresh(rng, [value.dtype], (columns, inner) if flip_b else (inner, columns))
    inputs = [value, other]
    if rng.random() < 0.7:
        biases = [(), (columns,), (1, columns), (rows, 1), (rows, columns)]
        inputs.append(scope.fresh(rng, [value.dtype], biases[int(rng.integers(len(biases)))]))
    given: PlainDict = {
        k: float(rng.choice([1.0, 0.5, 2.0, 0.0]))
        for k in ("alpha", "beta")
        if rng.random() < 0.4
    }
    given |= {
        k: v for k, v in (("transA", flip_a), ("transB", flip_b)) if v or rng.random() < 0.2
    }
    scope.emit("Gemm", inputs, **given)


def conv(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Conv or ConvTranspose of two dimensions with odd attributes."""
    group = int(rng.choice([1, 1, 2]))
    channels = group * int(rng.integers(1, 3))
    value = _image(scope, rng, channels)
    transposed = rng.random() < 0.25
    made = group * int(rng.integers(1, 3))
    kernel = [int(k) for k in rng.integers(1, 4, 2)]
    sizes = (channels, made // group) if transposed else (made, channels // group)
    weights = scope.fresh(rng, [FLOAT], (*sizes, *kernel))
    inputs = [value, weights]
    if rng.random() < 0.5:
        inputs.append(scope.fresh(rng, [FLOAT], (made,)))
    given = _windows(rng, transposed=transposed)
    given["group"] = group if group > 1 or rng.random() < 0.3 else None
    if rng.random() < 0.6:
        given["kernel_shape"] = kernel
    scope.emit("ConvTranspose" if transposed else "Conv", inputs, **given)


def pool(scope: GraphScope, rng: np.random.Generator) -> None:
    """A pooling of two dimensions with odd attributes."""
    value = _image(scope, rng, int(rng.integers(1, 4)))
    if rng.random() < 0.2:
        scope.emit(str(rng.choice(["GlobalAveragePool", "GlobalMaxPool"])), [value])
        return
    operator = str(rng.choice(["MaxPool", "AveragePool"]))
    given = _windows(rng, transposed=False)
    given["kernel_shape"] = [int(k) for k in rng.integers(2, 4, 2)]
    if operator == "AveragePool":
        given.pop("dilations", None)
        given["count_include_pad"] = int(rng.integers(2)) if rng.random() < 0.5 else None
    given["ceil_mode"] = int(rng.integers(2)) if rng.random() < 0.3 else None
    scope.emit(operator, [value], **given)


def einsum(scope: GraphScope, rng: np.random.Generator) -> None:
    """A contraction by equation."""
    value, sizes = static(scope, FLOAT, least=2)
    if len(sizes) != 2 or 0 in sizes:
        raise CannotAddNodeError
    other = scope.fresh(rng, [FLOAT], (sizes[1], int(rng.integers(1, 4))))
    equation = str(rng.choice(["ij,jk->ik", "ij,jk->ki", "ij,jk->j", "ij,jk"]))
    scope.emit("Einsum", [value, other], equation=equation)


def dropout(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Dropout as inference has it."""
    value = scope.pick_type(*FLOATS)
    if rng.random() < 0.5:
        scope.emit("Dropout", [value], outputs=int(rng.integers(1, 3)))
        return
    ratio = scope.constant(np.asarray(rng.choice([0.0, 0.5]), np.float32), rng)
    off = scope.constant(np.asarray(False), rng)
    scope.emit("Dropout", [value, ratio, off])


def _image(scope: GraphScope, rng: np.random.Generator, channels: int) -> KnownValue:
    def fits(value: KnownValue) -> bool:
        shape = value.shape
        return (
            value.dtype == FLOAT
            and shape is not None
            and len(shape) == 4
            and (shape[1] == channels and all(isinstance(d, int) and d > 2 for d in shape[2:]))
        )

    if rng.random() < 0.6:
        try:
            return scope.pick(fits)
        except CannotAddNodeError:
            pass
    batch = "N" if rng.random() < 0.5 else int(rng.integers(1, 3))
    return scope.fresh(rng, [FLOAT], (batch, channels, *map(int, rng.integers(4, 7, 2))))


def _windows(rng: np.random.Generator, *, transposed: bool) -> PlainDict:
    given: PlainDict = {}
    if rng.random() < 0.4:
        given["strides"] = [int(s) for s in rng.integers(1, 3, 2)]
    if rng.random() < 0.2:
        given["dilations"] = [int(d) for d in rng.integers(1, 3, 2)]
    style = rng.random()
    if style < 0.4:
        given["pads"] = [int(p) for p in rng.integers(0, 2, 4)]
    elif style < 0.6 and not transposed:
        given["auto_pad"] = str(rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"]))
        given.pop("dilations", None)
    return given


REDUCING_STEPS = (
    reduce_, reduce_, arg, softmax, cumsum, topk, layer_norm, batch_norm, matmul, matmul, gemm,
    conv, conv, pool, einsum, dropout,
)  # fmt: skip
"""Steps of this file, the common ones more than once."""
