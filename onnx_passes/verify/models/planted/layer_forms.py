"""Linear layers and windows, and the arithmetic around them."""

from __future__ import annotations

import numpy as np

from onnx_passes.plain import PlainDict
from onnx_passes.verify.models.inferring import UnfitError
from onnx_passes.verify.models.known_values import KnownValue
from onnx_passes.verify.models.planted.plant import FLOAT, INTS, Plant, planted

REDUCTIONS = (
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
    "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
)  # fmt: skip


def affine(p: Plant) -> KnownValue:
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


def _arithmetic(p: Plant, x: KnownValue, channels: int) -> KnownValue:
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


def matmul(p: Plant) -> KnownValue:
    """A MatMul, with a sum or a factor behind it."""
    x = p.x(FLOAT, p.choose((p.batch(), 4), (p.batch(), 4), (2, p.batch(), 4)))
    y = p.op("MatMul", x, p.weights(4, 3))
    if p.chance(0.6):
        y = p.op("Add", y, p.weights(*p.other((3,), (1,), (2, 1, 1, 3), ())))
    if p.chance(0.6):
        factor = p.positive(3) if p.chance(0.3) else p.number(p.choose(0.125, 8.0), y)
        y = p.op(p.choose("Mul", "Div"), y, factor)
    return y


def constant_arithmetic(p: Plant) -> KnownValue:
    """Two sums or two products with constants, of floats and integers."""
    x = p.x(p.choose(FLOAT, FLOAT, p.dtype(), *INTS[:2]), rank=1)
    family = p.choose(("Mul", "Div"), ("Add", "Sub"))
    a, b = p.number(p.choose(2, 3), x), p.number(p.choose(4, 5), x)
    y = p.op(p.choose(*family), x, a)
    outer = p.choose(*(family if not p.miss() else ("Add", "Mul")))
    return p.op(outer, y, b)


def pad(p: Plant) -> KnownValue:
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


def _window(p: Plant) -> PlainDict:
    given: PlainDict = {"pads": [0, 1, 1, 0]} if p.chance(0.3) else {}
    if p.chance(0.3):
        given["strides"] = [2, 1]
    if p.miss():
        given["dilations"] = [2, 1]
    if p.miss():
        given.pop("pads", None)
        given["auto_pad"] = p.choose("SAME_UPPER", "VALID")
    return given


def windows(p: Plant) -> KnownValue:
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
    found: KnownValue = made[0]
    return found


def transposed_gemm(p: Plant) -> KnownValue:
    """A Gemm of transposed operands."""
    operands, given = [], {}
    turned = p.choose((True, True), (True, False), (False, True))
    for name, wanted, turn in zip(("transA", "transB"), ((3, 4), (4, 2)), turned, strict=True):
        flip = p.chance()
        x = p.x(FLOAT, wanted if flip == turn else wanted[::-1])
        operands.append(p.op("Transpose", x, perm=[1, 0]) if turn else x)
        given[name] = int(flip)
    return p.op("Gemm", *operands, **given)


def reshaped_gemm(p: Plant) -> KnownValue:
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
        raise UnfitError
    flip = p.chance()
    w = p.weights(*((2, width) if flip else (width, 2)), dtype=x.dtype)
    bias = [p.weights(*p.other((2,), (1, 2), (1,)), dtype=x.dtype)] if p.chance(0.7) else []
    y = p.op("Gemm", rows, w, *bias, transB=int(flip), alpha=p.other(1.0, 0.5))
    return p.op("Reshape", y, p.ints(*p.other(p.choose((2, 3, -1), (-1, 3, 2)), (3, -1, 2))))


def reduction(p: Plant) -> KnownValue:
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


def recurrent(p: Plant) -> KnownValue:
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


STEPS = tuple(
    planted(form, sealed=True)
    for form in (
        affine, affine, affine, affine, matmul, matmul, constant_arithmetic,
        constant_arithmetic, pad, pad, windows, windows, transposed_gemm, reshaped_gemm,
        reshaped_gemm, reduction,
        reduction, reduction, reduction, recurrent,
    )
)  # fmt: skip
"""Steps of this file."""
