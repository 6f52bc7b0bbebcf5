"""Formulas of activations, in the spellings of exporters."""

from __future__ import annotations

import math

from onnx_passes.verify.models.known_values import KnownValue
from onnx_passes.verify.models.planted.plant import FLOATS, INTS, Plant, planted


def gelu(p: Plant) -> KnownValue:
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


def _root_of_two(p: Plant, x: KnownValue) -> KnownValue:
    if p.chance():
        return p.op("Div", x, p.number(math.sqrt(2), x))
    return p.op("Mul", x, p.number(math.sqrt(0.5), x))


def _bent(p: Plant, x: KnownValue) -> KnownValue:
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


def silu(p: Plant) -> KnownValue:
    """A Sigmoid times its operand, which may have a factor."""
    x = p.x(rank=1)
    inner = p.op("Mul", x, p.number(1.702, x)) if p.chance() else x
    return p.op("Mul", x, p.op("Sigmoid", inner))


def swish(p: Plant) -> KnownValue:
    """A Swish, which opset 24 has."""
    x = p.x(rank=1)
    return p.op("Swish", x, alpha=p.choose(None, 1.0, 1.5))


def mish(p: Plant) -> KnownValue:
    """A Tanh of a Softplus times its operand."""
    x = p.x(rank=1)
    if p.miss():
        raised = p.op("Add", p.op("Exp", x), p.number(1, x))
        return p.op("Mul", x, p.op("Tanh", p.op("Log", raised)))
    return p.op("Mul", x, p.op("Tanh", p.op("Softplus", x)))


def hard_sigmoid(p: Plant) -> KnownValue:
    """A line between bounds."""
    x = p.x(rank=1)
    if p.chance(0.3):
        steep = p.op("Mul", x, p.number(p.choose(0.2, 0.5), x))
        return _clip(p, p.op("Add", steep, p.number(0.5, x)), 0, 1)
    line = _clip(p, p.op("Add", x, p.number(3, x)), 0, 6)
    return _sixth(p, line)


def hard_swish(p: Plant) -> KnownValue:
    """A line between bounds times its operand."""
    x = p.x(rank=1)
    if p.chance(0.3):
        alpha = p.other(1 / 6, 0.2, 0.1666)
        return p.op("Mul", x, p.op("HardSigmoid", x, alpha=alpha, beta=p.other(0.5, 0.0)))
    line = _clip(p, p.op("Add", x, p.number(3, x)), 0, 6)
    if p.chance():
        return _sixth(p, p.op("Mul", x, line))
    return p.op("Mul", x, _sixth(p, line))


def _sixth(p: Plant, x: KnownValue) -> KnownValue:
    if p.chance():
        return p.op("Div", x, p.number(6, x))
    return p.op("Mul", x, p.number(1 / 6, x))


def leaky_relu(p: Plant) -> KnownValue:
    """The greater of a value and a part of it."""
    x = p.x(rank=1)
    slope = p.number(p.other(0.1, 1.5, -0.1), x)
    return p.op("Max", x, p.op("Mul", x, slope))


def prelu(p: Plant) -> KnownValue:
    """A PRelu of one slope, or of one for each channel."""
    x = p.x(shape=(p.batch(), 3, 4))
    slope = p.weights(*p.choose((1,), (3, 1), (4,), (3, 4)), dtype=x.dtype)
    return p.op("PRelu", x, slope)


def min_max(p: Plant) -> KnownValue:
    """A Min and a Max with constants, of any type."""
    x = p.x(p.choose(*FLOATS, *FLOATS, *INTS), rank=1)
    low, high = p.other((0, 6), (6, 0), (3, 3))
    if p.chance():
        return p.op("Min", p.op("Max", x, p.number(low, x)), p.number(high, x))
    return p.op("Max", p.op("Min", x, p.number(high, x)), p.number(low, x))


def clips(p: Plant) -> KnownValue:
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


def _clip(p: Plant, x: KnownValue, low: float | None, high: float | None) -> KnownValue:
    if p.scope.has_attribute("Clip", "min"):
        return p.op("Clip", x, min=low, max=high)
    # A bound is a scalar: engines take no other.
    bounds = [None if n is None else p.scalar(n, x) for n in (low, high)]
    return p.op("Clip", x, *bounds)


def parametric(p: Plant) -> KnownValue:
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


STEPS = tuple(
    planted(form, sealed=True)
    for form in (
        gelu, gelu, silu, swish, mish, hard_sigmoid, hard_swish, leaky_relu, prelu, min_max,
        clips, parametric,
    )
)  # fmt: skip
"""Steps of this file."""
