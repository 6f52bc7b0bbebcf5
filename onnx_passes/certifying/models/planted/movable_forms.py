"""Forms that passes move scales or Transposes through, for models that ask for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto

from onnx_passes.certifying.models.planted.plant import FLOAT, FLOATS, FormBuilder, kind_of
from onnx_passes.certifying.models.scope import BOOL, KnownValue, Shape
from onnx_passes.plain import PlainDict

_ALONE = ("Relu", "Abs", "Neg", "Sigmoid", "Floor", "LeakyRelu", "Not")
_PAIRS = ("Add", "Mul", "Sub", "Div", "Max", "Min", "PRelu", "Greater", "Equal", "Where")

Weights = Callable[[FormBuilder, Sequence[int], int], KnownValue]
"""Draws weights of a shape, for the channels along an axis."""


def pair(p: FormBuilder) -> KnownValue:
    """Two layers; channels of the first one have weights of very different size."""
    return _pair(p, _uneven, _even)


def pruned(p: FormBuilder) -> KnownValue:
    """Two layers; the first writes channels of zeros, or the second multiplies some by 0."""
    return _pair(p, *p.choose((_sparse, _even), (_even, _sparse), (_sparse, _sparse)))


def _pair(p: FormBuilder, first: Weights, second: Weights) -> KnownValue:
    if p.chance():
        return _pair_of_rows(p, first, second)
    x = p.x(FLOAT, (p.batch(), 2, 6, 6))
    y = p.op("Conv", x, first(p, (4, 2, 3, 3), 0), *_bias(p, 4), pads=[1, 1, 1, 1])
    y = _activation(p, y)
    style = p.choose("", "MaxPool", "AveragePool", "Flatten", "GlobalAveragePool")
    if style.endswith("Pool") and not style.startswith("Global"):
        y = p.op(style, y, kernel_shape=[2, 2], strides=[2, 2])
    elif style:
        y = p.op(style, y)
    if style == "Flatten":
        return _layer_of_rows(p, y, 4 * 36, second)
    group = p.other(1, 2)
    return p.op("Conv", y, second(p, (2, 4 // group, 1, 1), 1), *_bias(p, 2), group=group)


def _pair_of_rows(p: FormBuilder, first: Weights, second: Weights) -> KnownValue:
    x = p.x(FLOAT, (p.batch(), 5))
    if p.chance():
        flip = p.chance()
        w = first(p, (4, 5) if flip else (5, 4), 0 if flip else 1)
        y = p.op("Gemm", x, w, *_bias(p, 4), transB=int(flip))
    else:
        y = p.op("MatMul", x, first(p, (5, 4), 1))
        if p.chance():
            y = p.op("Add", y, p.weights(*p.other((4,), (1,), ())))
    return _layer_of_rows(p, _activation(p, y), 4, second)


def _layer_of_rows(p: FormBuilder, x: KnownValue, depth: int, weights: Weights) -> KnownValue:
    if x.rank != 2 or p.chance():
        return p.op("MatMul", x, weights(p, (depth, 3), 0))
    flip = p.chance()
    w = weights(p, (3, depth) if flip else (depth, 3), 1 if flip else 0)
    return p.op("Gemm", x, w, *_bias(p, 3), transB=int(flip))


def _activation(p: FormBuilder, x: KnownValue) -> KnownValue:
    kind = p.other(p.choose("Relu", "Relu", "LeakyRelu", ""), "Sigmoid", "Tanh", "Neg")
    return p.op(kind, x) if kind else x


def _bias(p: FormBuilder, count: int) -> list[KnownValue]:
    return [p.weights(count)] if p.chance() else []


def _even(p: FormBuilder, shape: Sequence[int], axis: int) -> KnownValue:
    """Return weights that are drawn alike for all channels."""
    return p.weights(*shape)


def _sparse(p: FormBuilder, shape: Sequence[int], axis: int) -> KnownValue:
    """Return weights that are 0 for some channels along an axis."""
    array = p.rng.standard_normal(shape).astype(np.float32)
    np.moveaxis(array, axis, 0)[p.rng.random(shape[axis]) < 0.4] = 0
    return p.constant(array)


def _uneven(p: FormBuilder, shape: Sequence[int], axis: int) -> KnownValue:
    """Return weights whose largest element differs a lot from channel to channel."""
    sizes = [1] * len(shape)
    sizes[axis] = shape[axis]
    scales = 2.0 ** p.rng.uniform(-4, 4, sizes)
    return p.constant((p.rng.standard_normal(shape) * scales).astype(np.float32))


def smoothed(p: FormBuilder) -> KnownValue:
    """Products that read one value, whose channels are of very different size."""
    x = p.x(FLOAT, p.choose((p.batch(), 4), (2, p.batch(), 4), (p.batch(), 2, 5, 5)))
    if x.rank == 4:
        y = p.op("Mul", x, _uneven(p, (2, 1, 1), 0))
        made = [p.op("Conv", y, p.weights(3, 2, 2, 2)) for _ in range(p.choose(1, 2))]
        return p.op("Add", *made) if len(made) > 1 else made[0]
    style = p.choose("Mul", "Mul", "LayerNormalization", "RMSNormalization", "Add")
    row = _uneven(p, (4,), 0)
    if style == "LayerNormalization" and p.scope.opset >= 17:
        y = p.op(style, x, row, p.weights(4), axis=p.other(-1, -2))
    elif style == "RMSNormalization" and p.scope.opset >= 23:
        y = p.op(style, x, row)
    elif style == "Add":
        y = p.op("Add", p.op("Mul", x, row), p.weights(4))
    else:
        y = p.op("Mul", x, row)
    made = [p.op("MatMul", y, p.weights(4, 3)) for _ in range(p.choose(1, 2, 3))]
    if y.rank == 2 and p.chance():
        made.append(p.op("Gemm", y, p.weights(3, 4), transB=1))
    return p.op("Sum", *made) if len(made) > 1 else made[0]


def parted(p: FormBuilder) -> KnownValue:
    """Parts of one tensor, from a Split or Gathers, each divided and transposed by itself."""
    count, heads, width = p.choose(2, 3), p.choose(1, 2), p.choose(2, 3)
    perm = p.choose((0, 2, 1, 3), (0, 2, 3, 1))
    if p.chance():
        x = p.x(FLOAT, (p.batch(), 3, count, heads, width))
        parts = [
            p.op("Gather", x, p.constant(np.asarray(k)), axis=p.other(2, 1))
            for k in range(count)
        ]
    else:
        sizes = [heads * width] * count
        if p.chance():
            sizes[0] += width  # queries have more heads than keys
        x = p.x(FLOAT, (p.batch(), 3, sum(sizes)))
        parts = list(_split(p, x, sizes))
        shapes = [(0, 0, size // width, width) for size in sizes]
        parts = [
            p.op("Reshape", part, p.ints(*p.other(shape, (0, 0, width, -1))))
            for part, shape in zip(parts, shapes, strict=True)
        ]
    turned = [
        p.op("Transpose", part, perm=list(p.other(perm, (0, 1, 3, 2)))) for part in parts
    ]
    return p.op("Concat", *(p.op("Flatten", one) for one in turned), axis=1)


def _split(p: FormBuilder, x: KnownValue, sizes: Sequence[int]) -> Sequence[KnownValue]:
    count, axis = len(sizes), p.axis(2, 3)
    if p.scope.has_attribute("Split", "split"):
        return p.nodes("Split", x, outputs=count, axis=axis, split=list(sizes))
    return p.nodes("Split", x, p.ints(*sizes), outputs=count, axis=axis)


def sliced(p: FormBuilder) -> KnownValue:
    """Slices that divide one tensor along an axis, or nearly so."""
    sizes = [int(size) for size in p.rng.integers(1, 4, p.choose(2, 2, 3))]
    x = p.x(FLOAT, (p.batch(), sum(sizes), 2))
    ends, axis = [int(end) for end in np.cumsum(sizes)], p.other(1, 0, 2)
    parts = []
    for size, end in zip(sizes, ends, strict=True):
        start = p.other(end - size, end - 1)
        last = p.choose(end, 2**63 - 1) if end == ends[-1] else end
        numbers = [p.ints(start), p.ints(last), p.ints(p.choose(axis, axis - 3))]
        steps = [p.ints(1)] if p.chance() else []
        parts.append(p.op("Slice", x, *numbers, *steps))
    order = p.rng.permutation(len(parts))
    # One axis for all: ONNX Runtime joins empty parts of other sizes into what is not written.
    return p.op("Concat", *(parts[place] for place in order), axis=axis)


def halves(p: FormBuilder) -> KnownValue:
    """Arithmetic in half precision with constants that several nodes read."""
    x = p.x(p.other(TensorProto.FLOAT16, FLOAT), (p.batch(), 3, 4))
    sizes = p.choose((3, 4), (1, 4), (4, 4))
    weights = p.constant(p.rng.uniform(0.5, 1, sizes).astype(kind_of(x.dtype)))
    operator = "MatMul" if sizes == (4, 4) else p.choose("Add", "Mul", "Max")
    for _ in range(p.choose(2, 3)):
        x = p.op(operator, x, weights)
    return x


def lent(p: FormBuilder) -> KnownValue:
    """An If whose branches read constants from outside, which others may read as well."""
    x, scope = p.x(FLOAT, (p.batch(), 4)), p.scope
    held = [p.weights(4), p.weights(4)]
    condition, name = scope.input(BOOL, ()), scope.name()
    branches = {}
    for number, word in enumerate(("then", "else")):
        result = f"{name}_{word}"
        read = [x.name, p.other(held[number], held[0], x).name]
        node = onnx.helper.make_node(p.choose("Add", "Mul"), read, [result], f"n{result}")
        info = onnx.helper.make_value_info(result, scope.type_of(x))
        branches[f"{word}_branch"] = onnx.helper.make_graph([node], word, [], [info])
    node = onnx.helper.make_node("If", [condition.name], [name], f"n{name}", **branches)
    return scope.add(node, [KnownValue(name, x.dtype, x.shape)])[0]


def transposed(p: FormBuilder) -> KnownValue:
    """One to three elementwise operators, or a Pad, behind Transposes."""
    rank = p.choose(2, 3, 3, 4)
    shape = (p.batch(), *(int(n) for n in p.rng.integers(2, 4, rank - 1)))
    perm = [int(axis) for axis in p.rng.permutation(rank)]
    dtype = p.other(FLOAT, TensorProto.INT64, TensorProto.DOUBLE, BOOL)
    y = _transposed(p, p.x(dtype, shape), perm)
    for _ in range(p.choose(1, 2, 3)):
        if p.chance(0.2):
            y = _padded(p, y, rank)
        elif p.chance(0.4):
            kind = p.choose(*_ALONE) if y.dtype != BOOL else "Not"
            y = p.op(kind, y)
        else:
            y = _with_another(p, y, shape, perm)
    if p.chance(0.3):
        y = p.op("Transpose", y, perm=[perm.index(axis) for axis in range(rank)])
    return y


def _transposed(p: FormBuilder, x: KnownValue, perm: list[int]) -> KnownValue:
    given: PlainDict = {"perm": perm}
    if perm == list(reversed(range(len(perm)))) and p.chance():
        given = {}
    return p.op("Transpose", x, **given)


def _with_another(p: FormBuilder, y: KnownValue, shape: Shape, perm: list[int]) -> KnownValue:
    """Apply an operator to a value and a constant, or another Transpose."""
    kind = p.choose(*_PAIRS)
    if p.chance(0.4):
        turned = p.other(perm, list(reversed(perm)))
        other = _transposed(p, p.scope.input(y.dtype, shape), turned)
    else:
        sizes = [n if isinstance(n, int) and p.chance() else 1 for n in y.shape or ()]
        array = p.rng.uniform(0.5, 2, sizes[p.choose(0, 0, 1) :])
        other = p.constant(array.astype(kind_of(y.dtype)))
    if kind == "Where":
        zero = np.zeros([], kind_of(y.dtype))
        mask = p.op("Greater", y, p.constant(zero)) if y.dtype != BOOL else y
        return p.op("Where", mask, *((y, other) if p.chance() else (other, y)))
    if p.chance(0.2) and kind != "PRelu":
        y, other = other, y
    return p.op(kind, y, other)


def _padded(p: FormBuilder, y: KnownValue, rank: int) -> KnownValue:
    pads = [int(n) for n in p.rng.integers(0, 2, 2 * rank)]
    mode = p.other("constant", "edge", "reflect")
    if p.scope.has_attribute("Pad", "pads"):
        return p.op("Pad", y, pads=pads, mode=mode)
    inputs: list[KnownValue | None] = [y, p.ints(*pads)]
    if y.dtype in FLOATS and p.chance():
        inputs.append(p.scalar(p.other(0.0, 1.5), y))
    if p.scope.opset >= 18 and p.chance(0.3):
        inputs += [None] * (3 - len(inputs))
        axes = [int(axis) for axis in p.rng.permutation(rank)[:2]]
        inputs[1] = p.ints(*pads[:4])
        inputs.append(p.ints(*(axis - rank if p.chance(0.3) else axis for axis in axes)))
    return p.op("Pad", *inputs, mode=mode)
