"""Formulas that exporters write: activations, attention, layers, losses and normalizations.

Each form is what a pass looks for, or a near miss of it.
"""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from onnx_passes.certifying.models.planted.plant import (
    FLOAT,
    FLOATS,
    INTS,
    FormBuilder,
    kind_of,
    make_step,
)
from onnx_passes.certifying.models.scope import BOOL, CannotAddNodeError, KnownValue
from onnx_passes.plain import PlainDict


def gelu(p: FormBuilder) -> KnownValue:
    """Gelu by Erf or Tanh, its products in any order."""
    x = p.x(rank=1)
    curve = p.op("Erf", _root_of_two(p, x)) if p.chance() else p.op("Tanh", _bent(p, x))
    raised = p.op("Add", curve, p.number(1, x))
    match p.choose("last", "first", "inside"):
        case "last":
            return p.op("Mul", p.op("Mul", x, raised), p.number(0.5, x))
        case "first":
            return p.op("Mul", p.op("Mul", x, p.number(0.5, x)), raised)
    return p.op("Mul", p.op("Mul", raised, p.number(0.5, x)), x)


def _root_of_two(p: FormBuilder, x: KnownValue) -> KnownValue:
    if p.chance():
        return p.op("Div", x, p.number(math.sqrt(2), x))
    return p.op("Mul", x, p.number(math.sqrt(0.5), x))


def _bent(p: FormBuilder, x: KnownValue) -> KnownValue:
    slope, cubic = math.sqrt(2 / math.pi), 0.044715
    square = p.square(x)
    match p.choose("power", "cube", "factor"):
        case "power":
            whole = p.op("Mul", p.op("Pow", x, p.number(3, x)), p.number(cubic, x))
        case "cube":
            whole = p.op("Mul", p.op("Mul", x, square), p.number(cubic, x))
        case _:
            factor = p.op("Mul", square, p.number(cubic, x))
            raised = p.op("Add", factor, p.number(1, x))
            return p.op("Mul", raised, p.op("Mul", x, p.number(slope, x)))
    return p.op("Mul", p.op("Add", whole, x), p.number(slope, x))


def silu(p: FormBuilder) -> KnownValue:
    """A Sigmoid times its operand, which may have a factor."""
    x = p.x(rank=1)
    inner = p.op("Mul", x, p.number(1.702, x)) if p.chance() else x
    return p.op("Mul", x, p.op("Sigmoid", inner))


def swish(p: FormBuilder) -> KnownValue:
    """A Swish, which opset 24 has."""
    x = p.x(rank=1)
    return p.op("Swish", x, alpha=p.choose(None, 1.0, 1.5))


def mish(p: FormBuilder) -> KnownValue:
    """A Tanh of a Softplus times its operand."""
    x = p.x(rank=1)
    if p.miss():
        raised = p.op("Add", p.op("Exp", x), p.number(1, x))
        return p.op("Mul", x, p.op("Tanh", p.op("Log", raised)))
    return p.op("Mul", x, p.op("Tanh", p.op("Softplus", x)))


def hard_sigmoid(p: FormBuilder) -> KnownValue:
    """A line between bounds."""
    x = p.x(rank=1)
    if p.chance(0.3):
        steep = p.op("Mul", x, p.number(p.choose(0.2, 0.5), x))
        return _clip(p, p.op("Add", steep, p.number(0.5, x)), 0, 1)
    line = _clip(p, p.op("Add", x, p.number(3, x)), 0, 6)
    return _sixth(p, line)


def hard_swish(p: FormBuilder) -> KnownValue:
    """A line between bounds times its operand."""
    x = p.x(rank=1)
    if p.chance(0.3):
        alpha = p.other(1 / 6, 0.2, 0.1666)
        return p.op("Mul", x, p.op("HardSigmoid", x, alpha=alpha, beta=p.other(0.5, 0.0)))
    line = _clip(p, p.op("Add", x, p.number(3, x)), 0, 6)
    if p.chance():
        return _sixth(p, p.op("Mul", x, line))
    return p.op("Mul", x, _sixth(p, line))


def _sixth(p: FormBuilder, x: KnownValue) -> KnownValue:
    if p.chance():
        return p.op("Div", x, p.number(6, x))
    return p.op("Mul", x, p.number(1 / 6, x))


def leaky_relu(p: FormBuilder) -> KnownValue:
    """The greater of a value and a part of it."""
    x = p.x(rank=1)
    slope = p.number(p.other(0.1, 1.5, -0.1), x)
    return p.op("Max", x, p.op("Mul", x, slope))


def prelu(p: FormBuilder) -> KnownValue:
    """A PRelu of one slope, or of one for each channel."""
    x = p.x(shape=(p.batch(), 3, 4))
    slope = p.weights(*p.choose((1,), (3, 1), (4,), (3, 4)), dtype=x.dtype)
    return p.op("PRelu", x, slope)


def min_max(p: FormBuilder) -> KnownValue:
    """A Min and a Max with constants, of any type."""
    x = p.x(p.choose(*FLOATS, *FLOATS, *INTS), rank=1)
    low, high = p.other((0, 6), (6, 0), (3, 3))
    if p.chance():
        return p.op("Min", p.op("Max", x, p.number(low, x)), p.number(high, x))
    return p.op("Max", p.op("Min", x, p.number(high, x)), p.number(low, x))


def clips(p: FormBuilder) -> KnownValue:
    """Two of Clip and Relu, whose bounds may cross."""
    x = p.x(p.choose(*FLOATS[:2], *INTS[:2]), rank=1)
    inner, outer = p.choose(("Clip", "Clip"), ("Clip", "Relu"), ("Relu", "Clip"))
    for operator in (inner, outer):
        if operator == "Relu":
            x = p.op("Relu", x)
            continue
        low, high = p.choose((0, 1), (2, 3), (-1, 6), (3, 2))
        x = _clip(p, x, low if p.chance(0.8) else None, high if p.chance(0.8) else None)
    return x


def _clip(p: FormBuilder, x: KnownValue, low: float | None, high: float | None) -> KnownValue:
    if p.scope.has_attribute("Clip", "min"):
        return p.op("Clip", x, min=low, max=high)
    # A bound is a scalar: engines take no other.
    bounds = [None if n is None else p.scalar(n, x) for n in (low, high)]
    return p.op("Clip", x, *bounds)


def parametric(p: FormBuilder) -> KnownValue:
    """An activation that back ends want in primitives."""
    x = p.x(rank=1)
    forms: tuple[tuple[str, dict[str, float | str]], ...] = (
        ("Elu", {"alpha": 0.7}),
        ("Celu", {"alpha": 2.0}),
        ("Selu", {"gamma": 1.5}),
        ("LeakyRelu", {"alpha": 0.3}),
        ("ThresholdedRelu", {"alpha": 0.5}),
        ("Shrink", {"lambd": 0.4, "bias": 0.1}),
        ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}),
        ("Softplus", {}),
        ("Softsign", {}),
        ("Sigmoid", {}),
        ("Mish", {}),
        ("HardSwish", {}),
        ("Swish", {"alpha": 1.5}),
        ("Gelu", {"approximate": "tanh"}),
        ("Gelu", {}),
    )
    operator, given = p.choose(*forms)
    return p.op(operator, x, **(given if p.chance(0.7) else {}))


ACTIVATION_STEPS = tuple(
    make_step(form, sealed=True)
    for form in (
        gelu, gelu, silu, swish, mish, hard_sigmoid, hard_swish, leaky_relu, prelu, min_max,
        clips, parametric,
    )
)  # fmt: skip


def attention(p: FormBuilder) -> KnownValue:
    """The formula of Attention, its scale and mask in any place."""
    batch, heads, rows, width = p.batch(), 4, p.choose(3, 5), 4
    repeated = p.chance(0.25)
    q = p.x(p.dtype(), (batch, heads, rows, width))
    kv = (batch, 2 if repeated else heads, rows, width)
    k, v = p.x(q.dtype, kv), p.x(q.dtype, kv)
    scale = p.choose("product", "quotient", "query", "both", "none")
    if repeated:
        k, v = (_repeated(p, value, batch, rows, width) for value in (k, v))
    if scale in ("query", "both"):
        q = p.op("Mul", q, p.number(0.5, q))
    turned = p.op("Transpose", k, perm=p.other([0, 1, 3, 2], [0, 1, 2, 3]))
    if scale == "both":
        turned = p.op("Mul", turned, p.number(0.5, turned))
    scores = p.op("MatMul", q, turned)
    if scale == "product":
        scores = p.op("Mul", scores, p.number(0.5, scores))
    if scale == "quotient":
        scores = p.op("Div", scores, p.number(2.0, scores))
    guarded = p.chance(0.2)
    if p.chance(0.6):
        scores = p.op("Add", scores, _mask(p, scores, rows, guarded))
    weights = p.op("Softmax", scores, axis=p.axis(3, 4))
    if guarded:
        flag = p.op("IsNaN", weights)
        weights = p.op("Where", flag, p.number(0.0, weights), weights)
    return p.op("MatMul", weights, v)


def _mask(p: FormBuilder, like: KnownValue, rows: int, guarded: bool) -> KnownValue:
    shape = p.other((rows, rows), (1, 1, 1, rows), (1, 1, rows, rows), (rows, 1))
    lowest = -np.inf if guarded or p.miss() else p.choose(-1e4, float(np.finfo("f4").min))
    if p.chance():
        kept = p.scope.input(BOOL, shape)
        return p.op("Where", kept, p.number(0.0, like), p.number(lowest, like))
    kind = kind_of(like.dtype)
    array = np.where(np.tri(shape[-2], shape[-1]), 0, lowest if kind.itemsize > 2 else -100)
    return p.constant(np.broadcast_to(array, shape).astype(kind))


def _repeated(
    p: FormBuilder, x: KnownValue, batch: int | str, rows: int, width: int
) -> KnownValue:
    stacked = p.with_axes("Unsqueeze", x, [2])
    spread = p.op("Expand", stacked, p.ints(1, 2, p.other(2, 3), rows, width))
    first = 0 if isinstance(batch, str) or p.chance() else batch
    return p.op("Reshape", spread, p.ints(first, 4, rows, width))


def rotary(p: FormBuilder) -> KnownValue:
    """The formula of RotaryEmbedding, by Slice or Split."""
    batch, rows, width = p.batch(), 3, p.choose(4, 8)
    x = p.x(p.dtype(), (batch, 2, rows, width))
    cos, sin = (_table(p, x, rows, width) for _ in range(2))
    if p.chance():
        axis, half = p.ints(p.axis(3, 4)), p.ints(width // 2)
        low = p.op("Slice", x, p.ints(0), half, axis)
        high = p.op("Slice", x, half, p.ints(p.choose(width, 2**63 - 1)), axis)
    else:
        given = {"num_outputs": 2} if p.scope.has_attribute("Split", "num_outputs") else {}
        low, high = p.nodes("Split", x, outputs=2, axis=p.axis(3, 4), **given)
    turned = p.op("Concat", p.op("Neg", p.other(high, low)), low, axis=p.axis(3, 4))
    return p.op("Add", p.op("Mul", x, cos), p.op("Mul", turned, sin))


def _table(p: FormBuilder, x: KnownValue, rows: int, width: int) -> KnownValue:
    kind = kind_of(x.dtype)
    half = p.rng.uniform(-1, 1, (rows, width // 2)).astype(kind)
    whole = np.concatenate([half, half + kind.type(p.other(0, 1))], axis=1)
    shape = p.choose((rows, width), (1, rows, width), (1, 1, rows, width))
    if p.chance():
        return p.constant(whole.reshape(shape))
    angles = p.scope.input(x.dtype, (*shape[:-1], width // 2))
    return p.op(p.choose("Cos", "Sin"), p.op("Concat", angles, angles, axis=-1))


def attention_operator(p: FormBuilder) -> KnownValue:
    """Attention as an operator, of rank 3 or 4, with groups, masks and past keys."""
    batch, rows, keys, width = p.choose(1, 2), 3, p.choose(3, 4), 4
    groups = p.choose(2, 4)
    given: PlainDict = {}
    if p.chance():
        q = p.x(FLOAT, (batch, rows, 4 * width))
        k, v = (p.x(FLOAT, (batch, keys, groups * width)) for _ in range(2))
        given = {"q_num_heads": 4, "kv_num_heads": groups}
    else:
        q = p.x(FLOAT, (batch, 4, rows, width))
        k, v = (p.x(FLOAT, (batch, groups, keys, width)) for _ in range(2))
    inputs: list[KnownValue | None] = [q, k, v]
    if p.chance(0.4):
        inputs.append(p.x(p.choose(FLOAT, BOOL), p.choose((rows, keys), (1, 1, rows, keys))))
    given |= {"is_causal": p.choose(None, 1), "scale": p.choose(None, 0.3)}
    given |= {"softcap": p.choose(None, None, 2.0)}
    if len(inputs) == 3 and p.chance(0.3):
        past = [p.x(FLOAT, (batch, groups, 2, width)) for _ in range(2)]
        return p.first("Attention", *inputs, None, *past, outputs=3, **given)
    return p.op("Attention", *inputs, **given)


def rotary_operator(p: FormBuilder) -> KnownValue:
    """RotaryEmbedding as an operator, whole or partial, with positions or without."""
    batch, rows, width = p.choose(1, 2), 3, 8
    turned = p.choose(None, 4)
    x = p.x(FLOAT, (batch, 2, rows, width))
    half = (turned or width) // 2
    given = {"interleaved": p.choose(None, 1), "rotary_embedding_dim": turned}
    if turned is not None:
        given["num_heads"] = 2
    if p.chance():
        tables = [p.weights(batch, rows, half) for _ in range(2)]
        return p.op("RotaryEmbedding", x, *tables, **given)
    tables = [p.weights(10, half) for _ in range(2)]
    places = p.constant(p.rng.integers(0, 10, (batch, rows)).astype(np.int64))
    return p.op("RotaryEmbedding", x, *tables, places, **given)


ATTENTION_STEPS = tuple(
    make_step(form, sealed=True)
    for form in (
        attention, attention, attention, rotary, rotary, attention_operator, rotary_operator,
    )
)  # fmt: skip


def softmax(p: FormBuilder) -> KnownValue:
    """Softmax or its logarithm, along any axis."""
    x = p.x(p.dtype(), rank=1)
    axis = p.axis(x.rank - 1, x.rank) if p.chance(0.7) else None
    return p.op(p.choose("Softmax", "LogSoftmax"), x, axis=axis)


def norm(p: FormBuilder) -> KnownValue:
    """A reduction that is a formula of others."""
    operators = "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"
    x = p.x(p.dtype(), (p.batch(), 3, 4))
    axes = p.choose([1], [1, 2], [0, -1])
    return p.with_axes(p.choose(*operators), x, axes, keepdims=p.choose(0, 1))


def loss(p: FormBuilder) -> KnownValue:
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
    return p.first(operator, *inputs, outputs=p.choose(1, 2), **given)


def quantized(p: FormBuilder) -> KnownValue:
    """A DynamicQuantizeLinear, or a pair that quantizes and back."""
    x = p.x(FLOAT, (p.batch(), 4))
    if p.chance():
        y, scale, zero = p.nodes("DynamicQuantizeLinear", x, outputs=3)
    else:
        scale = p.positive()
        zero = p.constant(np.asarray(p.choose(0, 3), p.choose(np.uint8, np.int8)))
        y = p.op("QuantizeLinear", x, scale, zero)
    return p.op("DequantizeLinear", y, scale, zero)


def cropped(p: FormBuilder) -> KnownValue:
    """A CenterCropPad."""
    x = p.x(FLOAT, (4, 5, 2))
    return p.op("CenterCropPad", x, p.ints(p.choose(3, 6), p.choose(3, 7)), axes=[0, 1])


def grid(p: FormBuilder) -> KnownValue:
    """An AffineGrid of two or three dimensions."""
    flat = p.chance()
    theta = p.x(FLOAT, (2, 2, 3) if flat else (2, 3, 4))
    sizes = (2, 3, 4, 5) if flat else (2, 3, 4, 5, 2)
    return p.op("AffineGrid", theta, p.ints(*sizes), align_corners=p.choose(None, 1))


def gemm(p: FormBuilder) -> KnownValue:
    """A Gemm with all its attributes."""
    x = p.x(p.choose(FLOAT, TensorProto.DOUBLE), (3, 4))
    flip = p.chance()
    w = p.weights(*((2, 4) if flip else (4, 2)), dtype=x.dtype)
    bias = p.weights(*p.choose((), (2,), (1, 2), (3, 1), (3, 2)), dtype=x.dtype)
    factors = {"alpha": p.choose(None, 0.5), "beta": p.choose(None, 2.0, 0.0)}
    return p.op("Gemm", x, w, bias, transB=int(flip), **factors)


COMPOSITE_STEPS = tuple(
    make_step(form, sealed=True)
    for form in (softmax, softmax, norm, loss, loss, quantized, cropped, grid, gemm)
)


REDUCTIONS = (
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
    "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
)  # fmt: skip


def affine(p: FormBuilder) -> KnownValue:
    """Arithmetic with constants before or behind a Conv, ConvTranspose or Gemm."""
    layer = p.choose("Conv", "ConvTranspose", "Gemm")
    x = p.x(FLOAT, (p.batch(), 4) if layer == "Gemm" else (p.batch(), 2, 5, 5))
    before = p.chance()
    if before:
        x = _arithmetic(p, x, 4 if layer == "Gemm" else 2)
    bias = [p.weights(3)] if p.chance() else []
    if layer == "Gemm":
        flip = p.chance()
        w = p.weights(*((3, 4) if flip else (4, 3)))
        factors = {"alpha": p.choose(2.0, 1.0), "beta": p.choose(0.5, 1.0)}
        y = p.op("Gemm", x, w, *bias, transB=int(flip), **(factors if p.miss() else {}))
    else:
        w = p.weights(*((3, 2) if layer == "Conv" else (2, 3)), 3, 3)
        pads = [1, 1, 1, 1] if p.chance(0.4) else None
        y = p.op(layer, x, w, *bias, pads=pads)
    return y if before and p.chance(0.7) else _arithmetic(p, y, 3)


def _arithmetic(p: FormBuilder, x: KnownValue, channels: int) -> KnownValue:
    operator = p.choose("Mul", "Add", "Sub", "Div")
    tail = [1] * (x.rank - 2)
    if p.chance(0.4):
        c = p.number(p.choose(2.0, 0.5, -3.0), x)
    else:
        shape = p.other([channels, *tail], [1, channels, *tail], [x.rank, *tail], tail)
        c = p.positive(*shape)
    if operator == "Sub" and p.chance():
        return p.op("Sub", c, x)
    return p.op(operator, x, c)


def matmul(p: FormBuilder) -> KnownValue:
    """A MatMul, with a sum or a factor behind it."""
    x = p.x(FLOAT, p.choose((p.batch(), 4), (p.batch(), 4), (2, p.batch(), 4)))
    y = p.op("MatMul", x, p.weights(4, 3))
    if p.chance(0.6):
        y = p.op("Add", y, p.weights(*p.other((3,), (1,), (2, 1, 1, 3), ())))
    if p.chance(0.6):
        factor = p.positive(3) if p.chance(0.3) else p.number(p.choose(0.125, 8.0), y)
        y = p.op(p.choose("Mul", "Div"), y, factor)
    return y


def constant_arithmetic(p: FormBuilder) -> KnownValue:
    """Two sums or two products with constants, of floats and integers."""
    x = p.x(p.choose(FLOAT, FLOAT, p.dtype(), *INTS[:2]), rank=1)
    family = p.choose(("Mul", "Div"), ("Add", "Sub"))
    a, b = p.number(p.choose(2, 3), x), p.number(p.choose(4, 5), x)
    y = p.op(p.choose(*family), x, a)
    outer = p.choose(*(family if not p.miss() else ("Add", "Mul")))
    return p.op(outer, y, b)


def pad(p: FormBuilder) -> KnownValue:
    """A Pad before a Conv, an AveragePool or a MaxPool."""
    operator = p.choose("Conv", "AveragePool", "MaxPool")
    x = p.x(FLOAT, (p.batch(), 2, 5, 6))
    amounts = p.other([0, 0, 1, 0, 0, 0, 1, 1], [0, 1, 0, 0, 0, 0, 0, 0], [0] * 7 + [-1])
    filler: dict[str, float] = {"MaxPool": -np.inf}
    value = p.scalar(p.other(filler.get(operator, 0.0), 1.0), x)
    empty = operator != "MaxPool" and p.chance()
    inputs = [x, p.ints(*amounts)] if empty else [x, p.ints(*amounts), value]
    if p.scope.has_attribute("Pad", "pads"):
        x = p.op("Pad", x, pads=amounts, value=float(value.data or 0))
    else:
        x = p.op("Pad", *inputs, mode=p.other("constant", "edge"))
    given = _window(p)
    if operator == "Conv":
        return p.op("Conv", x, p.weights(3, 2, 2, 2), **given)
    # Wider than what is padded: for a window of minus infinities engines give what they like.
    given["kernel_shape"] = [3, 3]
    if operator == "AveragePool":
        given.pop("dilations", None)
        given["count_include_pad"] = p.other(1, 0)
    return p.op(operator, x, **given)


def _window(p: FormBuilder) -> PlainDict:
    given: PlainDict = {"pads": [0, 1, 1, 0]} if p.chance(0.3) else {}
    if p.chance(0.3):
        given["strides"] = [2, 1]
    if p.miss():
        given["dilations"] = [2, 1]
    if p.miss():
        given.pop("pads", None)
        given["auto_pad"] = p.choose("SAME_UPPER", "VALID")
    return given


def windows(p: FormBuilder) -> KnownValue:
    """A convolution or pooling over one to three axes: what lowerings look for."""
    axes = p.choose(1, 2, 3)
    x = p.x(p.dtype(), (p.batch(), 2, 6, 5, 4)[: axes + 2])
    operator = p.choose("Conv", "MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool")
    if operator.startswith("Global"):
        return p.op(operator, x)
    given: PlainDict = {"strides": [p.choose(1, 2) for _ in range(axes)]}
    if p.chance():
        given["pads"] = [p.choose(0, 1) for _ in range(2 * axes)]
    elif p.chance():
        given["auto_pad"] = p.choose("SAME_UPPER", "SAME_LOWER", "VALID")
    if operator == "Conv":
        group = p.choose(1, 2)
        w = p.weights(4, 2 // group, *[2] * axes, dtype=x.dtype)
        bias = [p.weights(4, dtype=x.dtype)] if p.chance() else []
        if "auto_pad" not in given and p.chance(0.3):
            given["dilations"] = [2] * axes
        return p.op("Conv", x, w, *bias, group=group, **given)
    given |= {"kernel_shape": [2] * axes, "ceil_mode": p.choose(None, 1)}
    if operator == "AveragePool":
        given["count_include_pad"] = p.choose(None, 1)
        return p.op(operator, x, **given)
    made = p.nodes(operator, x, outputs=p.choose(1, 2), **given)
    if p.chance(0.3):
        p.shared.update(value.name for value in made[1:])
    return made[0]


def transposed_gemm(p: FormBuilder) -> KnownValue:
    """A Gemm of transposed operands."""
    operands, given = [], {}
    turned = p.choose((True, True), (True, False), (False, True))
    for name, wanted, turn in zip(("transA", "transB"), ((3, 4), (4, 2)), turned, strict=True):
        flip = p.chance()
        x = p.x(FLOAT, wanted if flip == turn else wanted[::-1])
        operands.append(p.op("Transpose", x, perm=[1, 0]) if turn else x)
        given[name] = int(flip)
    return p.op("Gemm", *operands, **given)


def reshaped_gemm(p: FormBuilder) -> KnownValue:
    """A Gemm between what makes rows of a tensor, and what makes a tensor of rows."""
    x = p.x(p.dtype(), (2, 3, 4) if p.chance(0.6) else (p.batch(), 3, 4))
    flat = p.choose("Flatten", "Reshape")
    rows = (
        p.op("Flatten", x, axis=p.other(2, 1))
        if flat == "Flatten"
        else p.op("Reshape", x, p.ints(*p.other((-1, 4), (-1, 6))))
    )
    width = (rows.shape or (4,))[-1]
    if not isinstance(width, int):
        raise CannotAddNodeError
    flip = p.chance()
    w = p.weights(*((2, width) if flip else (width, 2)), dtype=x.dtype)
    bias = [p.weights(*p.other((2,), (1, 2), (1,)), dtype=x.dtype)] if p.chance(0.7) else []
    y = p.op("Gemm", rows, w, *bias, transB=int(flip), alpha=p.other(1.0, 0.5))
    return p.op("Reshape", y, p.ints(*p.other(p.choose((2, 3, -1), (-1, 3, 2)), (3, -1, 2))))


def reduction(p: FormBuilder) -> KnownValue:
    """A reduction before a Squeeze or Unsqueeze, or behind a Transpose."""
    operator = p.choose(*REDUCTIONS, "ArgMax", "ArgMin")
    x = p.x(FLOAT, (p.batch(), 2, 3, 4))
    if p.chance(0.4) and not operator.startswith("Arg"):
        turned = p.op("Transpose", x, perm=p.other([0, 2, 3, 1], [3, 2, 1, 0]))
        axes = [p.axis(a, 4) for a in p.choose([1, 2], [1], [3, 1])]
        return p.with_axes(operator, turned, axes, keepdims=p.other(0, 1))
    axis, keep = p.axis(2, 4), p.choose(0, 1)
    given = {} if keep and p.chance() else {"keepdims": keep}
    if operator.startswith("Arg"):
        y = p.op(operator, x, axis=axis, **given)
    else:
        y = p.with_axes(operator, x, [axis], **given)
    same = p.other(axis, 0) if p.chance() else p.axis(axis % 4, 4)
    return p.with_axes("Squeeze" if keep else "Unsqueeze", y, [same])


def recurrent(p: FormBuilder) -> KnownValue:
    """A recurrent layer that starts with a state of zeros, for a batch that may be read."""
    operator, gates = p.choose(("RNN", 1), ("GRU", 3), ("LSTM", 4))
    hidden, x = 3, p.x(FLOAT, (2, p.batch(), 4))
    w, r = p.weights(1, gates * hidden, 4), p.weights(1, gates * hidden, hidden)
    sizes = x.shape or ()
    if len(sizes) == 3 and isinstance(sizes[1], int) and p.chance():
        zeros = np.zeros((1, sizes[1], hidden), np.float32)
        state = p.constant(zeros + p.other(0, 1, -0.0))
    else:
        batch = p.op("Gather", p.op("Shape", x), p.ints(1))
        shape = p.op("Concat", p.ints(1), batch, p.ints(hidden), axis=0)
        state = p.op("ConstantOfShape", shape)
    cell = [p.choose(state, None)] if operator == "LSTM" else []
    inputs = [x, w, r, None, None, p.choose(state, None), *cell]
    while inputs[-1] is None:
        inputs.pop()
    return p.op(operator, *inputs, hidden_size=hidden)


LAYER_STEPS = tuple(
    make_step(form, sealed=True)
    for form in (
        affine, affine, affine, affine, matmul, matmul, constant_arithmetic,
        constant_arithmetic, pad, pad, windows, windows, transposed_gemm, reshaped_gemm,
        reshaped_gemm, reduction,
        reduction, reduction, reduction, recurrent,
    )
)  # fmt: skip


def layer_normalization(p: FormBuilder) -> KnownValue:
    """LayerNormalization by means, or half of it as an operator already."""
    return _normalization(p, centred=True)


def rms_normalization(p: FormBuilder) -> KnownValue:
    """RMSNormalization by a mean, or half of it as an operator already."""
    return _normalization(p, centred=False)


def _normalization(p: FormBuilder, *, centred: bool) -> KnownValue:
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


def _row(p: FormBuilder, y: KnownValue, width: int) -> KnownValue:
    shape = p.other((width,), (1, width), (1,), (), (4, 1))
    if p.chance(0.2):
        return p.scope.input(y.dtype, shape)
    return p.weights(*shape, dtype=y.dtype)


def _formula(p: FormBuilder, x: KnownValue, axes: list[int], *, centred: bool) -> KnownValue:
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


def instance_normalization(p: FormBuilder) -> KnownValue:
    """InstanceNormalization by means over all that lies behind the channels."""
    x = p.x(shape=(p.batch(), 3, *p.choose((4,), (4, 2))))
    axes = [p.axis(axis, x.rank) for axis in p.other(range(2, x.rank), range(1, x.rank))]
    y = _formula(p, x, axes, centred=True)
    tail = (1,) * (x.rank - 2)
    for operator in ("Mul", "Add"):
        shape = p.other(p.choose((3, *tail), (1, 3, *tail)), (), (1,), (3, 1, *tail))
        y = p.op(operator, y, p.weights(*shape, dtype=x.dtype))
    return y


def group_normalization(p: FormBuilder) -> KnownValue:
    """GroupNormalization by InstanceNormalization of a Reshape."""
    x = p.x(shape=(p.choose(1, 2), 4, 3, 3))
    groups = p.other(2, 1, 4)
    ones, zeros = (p.constant(np.full(groups, n, kind_of(x.dtype))) for n in (1, 0))
    parts = p.op("Reshape", x, p.ints(0, groups, -1))
    normal = p.op("InstanceNormalization", parts, ones, zeros, epsilon=1e-5)
    y = p.op("Reshape", normal, p.op("Shape", x))
    y = p.op("Mul", y, p.weights(4, 1, 1, dtype=x.dtype))
    return p.op("Add", y, p.weights(4, 1, 1, dtype=x.dtype))


def batch_normalization(p: FormBuilder) -> KnownValue:
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


def operators(p: FormBuilder) -> KnownValue:
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
            return p.first("LayerNormalization", x, *rows, outputs=count, epsilon=0.1)
        case "Mean":
            return p.op("MeanVarianceNormalization", x, axes=p.choose([0, -1], [0, 2], [1]))
        case "Lp":
            return p.op("LpNormalization", x, axis=p.axis(1, x.rank), p=p.choose(1, 2))
    row = [p.weights(4, dtype=x.dtype) for _ in range(3)]
    return p.op("BatchNormalization", x, *row, p.positive(4, dtype=x.dtype))


NORMALIZATION_STEPS = tuple(
    make_step(form, sealed=True)
    for form in (
        layer_normalization, layer_normalization, rms_normalization, rms_normalization,
        instance_normalization, instance_normalization, group_normalization,
        batch_normalization, operators, operators,
    )
)  # fmt: skip
