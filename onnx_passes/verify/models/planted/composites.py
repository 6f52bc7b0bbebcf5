"""Operators that ONNX defines by simpler ones: what ``lower`` takes apart."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_passes.plain import PlainDict
from onnx_passes.verify.models.known_values import KnownValue
from onnx_passes.verify.models.planted.plant import FLOAT, Plant, planted


def softmax(p: Plant) -> KnownValue:
    """Softmax or its logarithm, along any axis."""
    x = p.x(p.dtype(), rank=1)
    axis = p.axis(x.rank - 1, x.rank) if p.chance(0.7) else None
    return p.op(p.choose("Softmax", "LogSoftmax"), x, axis=axis)


def norm(p: Plant) -> KnownValue:
    """A reduction that is a formula of others."""
    operators = "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"
    x = p.x(p.dtype(), (p.batch(), 3, 4))
    axes = p.choose([1], [1, 2], [0, -1])
    return p.with_axes(p.choose(*operators), x, axes, keepdims=p.choose(0, 1))


def loss(p: Plant) -> KnownValue:
    """A loss over classes, with weights or a class that is left out."""
    sizes = p.choose((), (2,), (2, 2))
    x = p.x(FLOAT, (3, 4, *sizes))
    target = p.rng.integers(0, 4, (3, *sizes))
    given: PlainDict = {"reduction": p.choose(None, "sum", "none")}
    given["ignore_index"] = p.choose(None, 1)
    inputs = [x, p.constant(target.astype(np.int64))]
    if p.chance():
        inputs.append(p.positive(4))
    operator = p.choose("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
    if operator.startswith("Neg"):
        return p.op(operator, *inputs, **given)
    made = p.nodes(operator, *inputs, outputs=p.choose(1, 2), **given)
    p.shared.update(value.name for value in made[1:])
    found: KnownValue = made[0]
    return found


def quantized(p: Plant) -> KnownValue:
    """A DynamicQuantizeLinear, or a pair that quantizes and back."""
    x = p.x(FLOAT, (p.batch(), 4))
    if p.chance():
        y, scale, zero = p.nodes("DynamicQuantizeLinear", x, outputs=3)
    else:
        scale = p.positive()
        zero = p.constant(np.asarray(p.choose(0, 3), p.choose(np.uint8, np.int8)))
        y = p.op("QuantizeLinear", x, scale, zero)
    return p.op("DequantizeLinear", y, scale, zero)


def cropped(p: Plant) -> KnownValue:
    """A CenterCropPad."""
    x = p.x(FLOAT, (4, 5, 2))
    return p.op("CenterCropPad", x, p.ints(p.choose(3, 6), p.choose(3, 7)), axes=[0, 1])


def grid(p: Plant) -> KnownValue:
    """An AffineGrid of two or three dimensions."""
    flat = p.chance()
    theta = p.x(FLOAT, (2, 2, 3) if flat else (2, 3, 4))
    sizes = (2, 3, 4, 5) if flat else (2, 3, 4, 5, 2)
    return p.op("AffineGrid", theta, p.ints(*sizes), align_corners=p.choose(None, 1))


def gemm(p: Plant) -> KnownValue:
    """A Gemm with all its attributes."""
    x = p.x(p.choose(FLOAT, TensorProto.DOUBLE), (3, 4))
    flip = p.chance()
    w = p.weights(*((2, 4) if flip else (4, 2)), dtype=x.dtype)
    bias = p.weights(*p.choose((), (2,), (1, 2), (3, 1), (3, 2)), dtype=x.dtype)
    factors = {"alpha": p.choose(None, 0.5), "beta": p.choose(None, 2.0, 0.0)}
    return p.op("Gemm", x, w, bias, transB=int(flip), **factors)


STEPS = tuple(
    planted(form, sealed=True)
    for form in (softmax, softmax, norm, loss, loss, quantized, cropped, grid, gemm)
)
"""Steps of this file."""
