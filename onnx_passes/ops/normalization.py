"""Normalisation, pooling and Dropout."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.base import operator
from onnx_passes.ops.call import Call, Tensor, constant, normalize_axis
from onnx_passes.ops.semantics import Primitives, Scalar, Unsupported, scalars
from onnx_passes.ops.windows import Window


@operator("Dropout")
def _(call: Call) -> tuple[Tensor, ...]:
    x = call.required(0)
    if call.given(2) is not None and bool(call.static(2).reshape(-1)[0]):
        raise Unsupported("Dropout while training")
    mask = constant(np.ones(x.shape, np.bool_), ir.DataType.BOOL, call.semantics)
    return x, mask


@operator("BatchNormalization")
def _(call: Call) -> Tensor:
    x, scale, bias, mean, variance = (call.required(i) for i in range(5))
    if call.integer("training_mode", 0) or call.opset < 9:
        raise Unsupported("BatchNormalization while training")
    epsilon, a = call.number("epsilon", 1e-5), call.primitives(x.dtype)

    def normalize(v: Scalar, s: Scalar, b: Scalar, m: Scalar, var: Scalar) -> Scalar:
        if not call.semantics.expands:
            return a.function(f"BatchNormalization[{epsilon!r}]", v, s, b, m, var)
        root = a.sqrt(a.add(var, epsilon))
        return a.add(a.mul(a.div(a.sub(v, m), root), s), b)

    shape = (-1, *([1] * (len(x.shape) - 2)))
    per_channel = [
        Tensor(p.data.reshape(shape) if len(x.shape) > 1 else p.data, p.dtype)
        for p in (scale, bias, mean, variance)
    ]
    return call.map(normalize, x.dtype, x, *per_channel)


@operator("LayerNormalization", "RMSNormalization")
def _(call: Call) -> Tensor:
    x, scale, bias = call.required(0), call.required(1), call.given(2)
    if sum(bool(o.name) and bool(o.uses()) for o in call.node.outputs[1:]):
        raise Unsupported("LayerNormalization whose statistics are read")
    centred = call.node.op_type == "LayerNormalization"
    axis = normalize_axis(call.integer("axis", -1), len(x.shape))
    epsilon, a = call.number("epsilon", 1e-5), call.primitives(x.dtype)
    rows = x.data.reshape((*x.shape[:axis], -1))
    result = np.empty(rows.shape, np.object_)
    for index in np.ndindex(*x.shape[:axis]):
        row = list(rows[index])
        result[index] = scalars(_normalized(call, a, row, epsilon, centred), (len(row),))
    normal = Tensor(result.reshape(x.shape), x.dtype)
    scaled = call.map(a.mul, x.dtype, normal, scale)
    return scaled if bias is None else call.map(a.add, x.dtype, scaled, bias)


def _normalized(
    call: Call, a: Primitives, row: list[Scalar], epsilon: float, centred: bool
) -> list[Scalar]:
    if not call.semantics.expands:
        label = f"{call.node.op_type}[{epsilon!r}]"
        return [a.function(f"{label}[{i}]", *row) for i in range(len(row))]
    count = float(len(row))
    if centred:
        mean = a.div(reduce(a.add, row), count)
        row = [a.sub(v, mean) for v in row]
    variance = a.div(reduce(a.add, [a.mul(v, v) for v in row]), count)
    root = a.sqrt(a.add(variance, epsilon))
    return [a.div(v, root) for v in row]


@operator("InstanceNormalization", "GroupNormalization")
def _(call: Call) -> Tensor:
    x, scale, bias = (call.required(i) for i in range(3))
    whole, channels = call.node.op_type == "InstanceNormalization", x.shape[1]
    if len(x.shape) < 3 or (not whole and call.opset < 21):
        raise Unsupported(f"{call.node.op_type} of this rank or opset")
    groups = channels if whole else call.integer("num_groups", 1)
    epsilon, a = call.number("epsilon", 1e-5), call.primitives(x.dtype)
    rows = x.data.reshape((x.shape[0], groups, -1))
    result = np.empty(rows.shape, np.object_)
    for index in np.ndindex(*rows.shape[:2]):
        row = list(rows[index])
        result[index] = scalars(_normalized(call, a, row, epsilon, True), (len(row),))
    normal = Tensor(result.reshape(x.shape), x.dtype)
    by_channel = (channels, *([1] * (len(x.shape) - 2)))
    scale, bias = (Tensor(p.data.reshape(by_channel), p.dtype) for p in (scale, bias))
    return call.map(a.add, x.dtype, call.map(a.mul, x.dtype, normal, scale), bias)


@operator("MaxPool")
def _(call: Call) -> Tensor:
    if len([o for o in call.node.outputs if o.name]) > 1:
        raise Unsupported("MaxPool with indices")
    x = call.required(0)
    a = call.primitives(x.dtype)
    window = Window.of(call, x.shape[2:], call.integers("kernel_shape") or [])

    def largest(terms: list[Scalar]) -> Scalar:
        if call.semantics.expands or len(terms) == 1 or x.dtype.is_integer():
            return reduce(a.max, terms)
        return a.function("MaxPool", *terms)

    return _pool(x, window, largest)


@operator("AveragePool")
def _(call: Call) -> Tensor:
    x = call.required(0)
    a = call.primitives(x.dtype)
    kernel = call.integers("kernel_shape") or []
    window = Window.of(call, x.shape[2:], kernel)
    if call.integer("ceil_mode", 0):
        raise Unsupported("AveragePool with ceil_mode")
    whole = int(np.prod(kernel)) if call.integer("count_include_pad", 0) else None
    return _pool(x, window, lambda terms: _average(call, a, terms, whole))


def _average(call: Call, a: Primitives, terms: list[Scalar], count: int | None) -> Scalar:
    count = count or len(terms)
    if not call.semantics.expands and len(terms) > 1:
        return a.function(f"AveragePool[{count}]", *terms)
    return a.div(reduce(a.add, terms), float(count))


def _pool(x: Tensor, window: Window, function: Callable[[list[Scalar]], Scalar]) -> Tensor:
    values = []
    for n, c, *place in np.ndindex(*x.shape[:2], *window.output):
        terms = [x.data[(n, c, *at)] for _, at in window.positions(place)]
        if not terms:
            raise Unsupported("a pooling window that lies in the padding")
        values.append(function(terms))
    return Tensor(scalars(values, (*x.shape[:2], *window.output)), x.dtype)


@operator("GlobalAveragePool", "GlobalMaxPool")
def _(call: Call) -> Tensor:
    x = call.required(0)
    a = call.primitives(x.dtype)
    maximum = call.node.op_type == "GlobalMaxPool"
    values = []
    for n, c in np.ndindex(*x.shape[:2]):
        terms = list(x.data[n, c, ...].reshape(-1))
        if not call.semantics.expands and len(terms) > 1:
            values.append(a.function(call.node.op_type, *terms))
        elif maximum:
            values.append(reduce(a.max, terms))
        else:
            values.append(_average(call, a, terms, None))
    return Tensor(scalars(values, (*x.shape[:2], *([1] * (len(x.shape) - 2)))), x.dtype)
