"""Formulas of normalizations, and what stands before and behind them."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_passes.verify.models.known_values import KnownValue
from onnx_passes.verify.models.planted.plant import FLOAT, Plant, kind_of, planted


def layer_normalization(p: Plant) -> KnownValue:
    """LayerNormalization by means, or half of it as an operator already."""
    return _normalization(p, centred=True)


def rms_normalization(p: Plant) -> KnownValue:
    """RMSNormalization by a mean, or half of it as an operator already."""
    return _normalization(p, centred=False)


def _normalization(p: Plant, *, centred: bool) -> KnownValue:
    width, half = p.choose(3, 8), p.chance(0.2)
    x = p.x(TensorProto.FLOAT16 if half else None, (p.batch(), 4, width))
    operator = "LayerNormalization" if centred else "RMSNormalization"
    wide = p.cast(x, FLOAT) if half else x
    axes = p.choose([2], [2], [1, 2])
    if half or p.chance(0.25):
        shape = [4, width][-len(axes) :]
        scale = p.constant(np.full(shape, p.other(1.0, 2.0), kind_of(wide.dtype)))
        y = p.op(operator, wide, scale, axis=-len(axes), epsilon=1e-5)
        y = p.cast(y, x.dtype) if half else y
    else:
        y = _formula(p, wide, [p.axis(a, 3) for a in axes], centred=centred)
    if p.chance(0.7):
        y = p.op("Mul", y, _row(p, y, width))
    if centred and p.chance(0.7):
        y = p.op("Add", y, _row(p, y, width))
    return y


def _row(p: Plant, y: KnownValue, width: int) -> KnownValue:
    shape = p.other((width,), (1, width), (1,), (), (4, 1))
    if p.chance(0.2):
        return p.scope.input(y.dtype, shape)
    return p.weights(*shape, dtype=y.dtype)


def _formula(p: Plant, x: KnownValue, axes: list[int], *, centred: bool) -> KnownValue:
    keep = {"keepdims": 1} if p.chance() else {}
    deviation = x
    if centred:
        deviation = p.op("Sub", x, p.with_axes("ReduceMean", x, axes, **keep))
    variance = p.with_axes("ReduceMean", p.square(deviation), axes, **keep)
    shifted = p.op("Add", variance, p.number(p.other(1e-5, 0.0, 0.1), x))
    style = p.choose("Div", "Div", "Reciprocal", "one", "Pow")
    if style == "Pow":
        return p.op("Mul", deviation, p.op("Pow", shifted, p.number(-0.5, x)))
    root = p.op("Sqrt", shifted) if p.chance(0.8) else p.op("Pow", shifted, p.number(0.5, x))
    if style == "Div":
        return p.op("Div", deviation, root)
    if style == "Reciprocal":
        return p.op("Mul", deviation, p.op("Reciprocal", root))
    return p.op("Mul", deviation, p.op("Div", p.number(1, x), root))


def instance_normalization(p: Plant) -> KnownValue:
    """InstanceNormalization by means over all that lies behind the channels."""
    x = p.x(shape=(p.batch(), 3, *p.choose((4,), (4, 2))))
    axes = [p.axis(axis, x.rank) for axis in p.other(range(2, x.rank), range(1, x.rank))]
    y = _formula(p, x, axes, centred=True)
    tail = (1,) * (x.rank - 2)
    for operator in ("Mul", "Add"):
        shape = p.other(p.choose((3, *tail), (1, 3, *tail)), (), (1,), (3, 1, *tail))
        y = p.op(operator, y, p.weights(*shape, dtype=x.dtype))
    return y


def group_normalization(p: Plant) -> KnownValue:
    """GroupNormalization by InstanceNormalization of a Reshape."""
    x = p.x(shape=(p.choose(1, 2), 4, 3, 3))
    groups = p.other(2, 1, 4)
    ones, zeros = (p.constant(np.full(groups, n, kind_of(x.dtype))) for n in (1, 0))
    parts = p.op("Reshape", x, p.ints(0, groups, -1))
    normal = p.op("InstanceNormalization", parts, ones, zeros, epsilon=1e-5)
    y = p.op("Reshape", normal, p.op("Shape", x))
    y = p.op("Mul", y, p.weights(4, 1, 1, dtype=x.dtype))
    return p.op("Add", y, p.weights(4, 1, 1, dtype=x.dtype))


def batch_normalization(p: Plant) -> KnownValue:
    """BatchNormalization behind a Conv, ConvTranspose or Gemm."""
    channels = p.choose(2, 3)
    layer = p.choose("Conv", "ConvTranspose", "Gemm")
    bias = [p.weights(channels)] if p.chance() else []
    if layer == "Gemm":
        x = p.x(FLOAT, (p.batch(), 4))
        flip = p.chance()
        w = p.weights(*((channels, 4) if flip else (4, channels)))
        y = p.op("Gemm", x, w, *bias, transB=int(flip), alpha=p.other(1.0, 0.5))
    else:
        x = p.x(FLOAT, (p.batch(), 2, 5, 5))
        w = p.weights(*((channels, 2) if layer == "Conv" else (2, channels)), 3, 3)
        y = p.op(layer, x, w, *bias, pads=p.other([1, 1, 1, 1], [0, 1, 0, 1]))
    scale, shift, mean = (p.weights(channels) for _ in range(3))
    epsilon = p.choose(None, 1e-3)
    return p.op(
        "BatchNormalization", y, scale, shift, mean, p.positive(channels), epsilon=epsilon
    )


def operators(p: Plant) -> KnownValue:
    """A normalization as an operator, with odd attributes: what lowerings look for."""
    x = p.x(None, (p.batch(), 4, 3, 3)[: p.choose(3, 4)])
    match p.choose("Instance", "Group", "RMS", "Layer", "Mean", "Batch", "Lp"):
        case "Instance":
            given = p.weights(4, dtype=x.dtype), p.weights(4, dtype=x.dtype)
            return p.op("InstanceNormalization", x, *given, epsilon=p.choose(None, 0.1))
        case "Group":
            given = p.weights(4, dtype=x.dtype), p.weights(4, dtype=x.dtype)
            groups = p.choose(1, 2, 4)
            return p.op("GroupNormalization", x, *given, num_groups=groups, epsilon=0.01)
        case "RMS":
            scale = p.weights(3, dtype=x.dtype)
            return p.op("RMSNormalization", x, scale, axis=p.choose(None, -1))
        case "Layer":
            rows = p.weights(3, dtype=x.dtype), p.weights(3, dtype=x.dtype)
            count = p.choose(1, 2, 3)
            made = p.nodes("LayerNormalization", x, *rows, outputs=count, epsilon=0.1)
            p.shared.update(value.name for value in made[1:])
            found: KnownValue = made[0]
            return found
        case "Mean":
            return p.op("MeanVarianceNormalization", x, axes=p.choose([0, -1], [0, 2], [1]))
        case "Lp":
            return p.op("LpNormalization", x, axis=p.axis(1, x.rank), p=p.choose(1, 2))
    row = [p.weights(4, dtype=x.dtype) for _ in range(3)]
    return p.op("BatchNormalization", x, *row, p.positive(4, dtype=x.dtype))


STEPS = tuple(
    planted(form, sealed=True)
    for form in (
        layer_normalization, layer_normalization, rms_normalization, rms_normalization,
        instance_normalization, instance_normalization, group_normalization,
        batch_normalization, operators, operators,
    )
)  # fmt: skip
"""Steps of this file."""
