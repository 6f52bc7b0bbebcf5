"""IntQuant, BipolarQuant, FloatQuant and Trunc, as qonnx 1.0.0 computes them."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_passes.ops.bodies.attach import body
from onnx_passes.ops.bodies.domains import CUSTOM, QONNX_ALIASES
from onnx_passes.ops.bodies.rounding_modes import round_by
from onnx_passes.ops.bodies.writer import Writer

_TRUNC_2_INPUTS = 6


@body("IntQuant", *QONNX_ALIASES)
@body("Quant", *QONNX_ALIASES, CUSTOM)
def int_quant(to: Writer) -> str:
    """``(round(clamp(x / scale + zero)) - zero) * scale``; 1 bit and signed gives -1 or 1.

    The clamp is before the rounding. The number of bits need not be an integer.
    """
    x, scale, zero, bits = to.inputs
    call = to.call
    # The functions of the seed system declare no defaults; QONNX's code has narrow = 1.
    signed, narrow = bool(call.integer("signed", 1)), bool(call.integer("narrow", 1))
    mode = call.text("rounding_mode", "ROUND")
    q = to.Add(to.Div(x, scale), zero)
    level = round_by(mode, to, _clamped(to, q, bits, signed, narrow))
    if signed:
        one = to.number(1, x)
        two_levels = to.Where(to.at_least(q, to.number(0, x)), one, to.Neg(one))
        one_bit = to.Not(to.Or(to.Less(bits, one), to.Less(one, bits)))
        level = to.Where(one_bit, two_levels, level)
    return to.Mul(to.Sub(level, zero), scale)


def _clamped(to: Writer, q: str, bits: str, signed: bool, narrow: bool) -> str:
    """Clamp to the range of an integer; NaN stays, and so does the sign of a zero."""
    one, two = to.number(1, q), to.number(2, q)
    if signed:
        half = to.Pow(two, to.Sub(bits, one))
        high = to.Sub(half, one)
        low = to.Add(to.Neg(half), one) if narrow else to.Neg(half)
    else:
        high = to.Sub(to.Pow(two, bits), two if narrow else one)
        low = to.Mul(to.number(0, q), bits)
    q = to.Where(to.Greater(q, high), high, q)
    return to.Where(to.Less(q, low), low, q)


@body("BipolarQuant", *QONNX_ALIASES)
def bipolar_quant(to: Writer) -> str:
    """``(x >= 0 ? 1 : -1) * scale``."""
    x, scale = to.inputs
    one = to.number(1, x)
    return to.Mul(to.Where(to.at_least(x, to.number(0, x)), one, to.Neg(one)), scale)


@body("FloatQuant", *QONNX_ALIASES)
def float_quant(to: Writer) -> str:
    """Round to a small floating-point format, with or without saturation.

    The grid is ``2 ** max(floor(log2(|x / scale| + tiny)) - mantissa, 1 - bias - mantissa)``.
    The logarithm is rounded to float32: a value an ulp below a power of two has its grid.
    """
    x, scale, exponent, mantissa, bias, largest = to.inputs
    call = to.call
    x = to.Div(x, scale)
    one, two = to.number(1, x), to.number(2, x)
    tiny = to.number(float(np.finfo(np.float32).tiny), x)
    wide = to.Cast(to.Add(to.Abs(x), tiny), to=TensorProto.DOUBLE)
    ln2 = to.tensor(np.float64(np.log(2.0)))
    logarithm = to.Cast(to.Div(to.Log(wide), ln2), to=TensorProto.FLOAT)
    least = to.Sub(to.Sub(one, bias), mantissa)
    power = to.Sub(to.Floor(logarithm), mantissa)
    power = to.Where(to.Less(power, least), least, power)
    grid = to.Pow(two, power)
    rounded = to.Mul(grid, round_by(call.text("rounding_mode", "ROUND"), to, to.Div(x, grid)))
    # The format's largest value: a mantissa of ones at the highest exponent.
    top = to.Sub(to.Sub(to.Pow(two, exponent), one), bias)
    ones = to.Sub(two, to.Pow(two, to.Neg(mantissa)))
    bound = to.Min(to.Mul(ones, to.Pow(two, top)), largest)
    above, below = to.Greater(rounded, bound), to.Less(rounded, to.Neg(bound))
    result = to.Where(above, bound, to.Where(below, to.Neg(bound), rounded))
    if not call.integer("saturation", 1):
        result = _unsaturated(to, rounded, result, above, below)
    return to.Mul(result, scale)


def _unsaturated(to: Writer, rounded: str, clamped: str, above: str, below: str) -> str:
    infinity, nan = to.number(np.inf, rounded), to.number(np.nan, rounded)
    if to.call.integer("has_inf", 0):
        return to.Where(above, infinity, to.Where(below, to.Neg(infinity), clamped))
    if to.call.integer("has_nan", 0):
        return to.Where(to.Or(above, below), nan, clamped)
    raise ValueError("without saturation, a format has infinities or NaN")


@body("Trunc", *QONNX_ALIASES)
def trunc(to: Writer) -> str:
    """Drop the lowest bits of an integer; version 1 has five inputs and version 2 has six."""
    if to.call.inputs == _TRUNC_2_INPUTS:
        return _trunc_2(to)
    x, scale, zero, bits, kept = to.inputs
    y = round_by("ROUND", to, to.Add(to.Div(x, scale), zero))
    y = to.Div(y, to.Pow(to.number(2, x), to.Sub(bits, kept)))
    y = round_by(to.call.text("rounding_mode", "FLOOR"), to, y)
    return to.Mul(to.Sub(y, zero), scale)


def _trunc_2(to: Writer) -> str:
    x, scale, zero, _, out_scale, bits = to.inputs
    call = to.call
    y = round_by("ROUND", to, to.Add(to.Div(x, scale), zero))
    wide = to.Cast(to.Div(out_scale, scale), to=TensorProto.DOUBLE)
    ln2 = to.tensor(np.float64(np.log(2.0)))
    logarithm = to.Cast(to.Div(to.Log(wide), ln2), to=TensorProto.FLOAT)
    step = to.Pow(to.number(2, x), round_by("ROUND", to, logarithm))
    signed, narrow = bool(call.integer("signed", 1)), bool(call.integer("narrow", 0))
    y = _clamped(to, to.Div(y, step), bits, signed, narrow)
    y = round_by(call.text("rounding_mode", "FLOOR"), to, y)
    return to.Mul(to.Sub(y, to.Div(zero, step)), out_scale)
