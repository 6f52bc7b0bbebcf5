"""Replace a mean whose sum is truncated by QuantAvgPool2d."""

from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.ops.bodies.operator_bodies import QONNX_ALIASES
from onnx_passes.passes.base import Op, Value
from onnx_passes.passes.common.matches import node_of
from onnx_passes.passes.common.rules import RulePass, TermRule, Values, call
from onnx_passes.passes.hints import Hints
from onnx_passes.passes.quantised._quantised_hints import QUANT_AVG_POOL
from onnx_passes.passes.quantised._quantisers import Quantiser, pair_of, quantiser_of
from onnx_passes.passes.streamline._integer_ranges import MEANS, square_window
from onnx_passes.passes.streamline._rule_constants import constant, is_single, rank_of, scalar
from onnx_passes.plain import PlainDict

_MOST = 32
"""Bits of an accumulator."""


@passes.verify.equality
@passes.register()
class ConvertToQuantAvgPool(RulePass):
    """Replace a mean whose sum is truncated by QuantAvgPool2d.

    Before: ``Trunc(Mul(AveragePool(x), k * k), s, 0, in_bits, out_bits)``, and version 2,
            ``Trunc(AveragePool(x), s / (k * k), 0, in_bits, out_scale, out_bits)``, where
            ``x`` is what a quantiser with the scale ``s`` and the zero point 0 makes (Quant,
            or QuantizeLinear and DequantizeLinear). The mean may also be a
            GlobalAveragePool or ReduceMean over as many rows as columns
    After:  ``Mul(QuantAvgPool2d(Div(x, s)), s)``; with version 2 the last factor is
            ``out_scale``

    Sound because both sum up the integers of a window, which float32 holds, and drop the same
    lowest bits. How many bits QuantAvgPool2d drops follows from its bits and its window; the
    bits are those with which it drops as many as Trunc does.

    Leaves alone: windows and strides that are not square, pads and dilations; other rounding
    modes than FLOOR; sums for which no number of bits drops as many, or that Trunc clamps;
    parameters that are computed; ``x`` that something else makes.
    """

    needs = ("shape-inference",)
    hints: ClassVar[Hints] = QUANT_AVG_POOL

    def table(self) -> list[TermRule]:
        return _RULES


_Pool = tuple[PlainDict, float, float]


def _make_pool(op: Op, v: Values, found: _Pool) -> Value:
    attributes, scale, factor = found
    whole = op.Div(v["x"], constant(op, scale))
    made = op.QuantAvgPool2d(whole, _domain=node_of(v["y"]).domain, **attributes)
    return op.Mul(made, constant(op, factor))


def _pool(v: Values) -> _Pool | None:
    """Return the attributes of the pooling, the divisor before it and the factor behind."""
    window, source, node = square_window(node_of(v["mean"])), _source(v["x"]), node_of(v["y"])
    t = v.get("t")
    scale, zero, before, after = (scalar(v[name]) for name in "szio")
    mode = (node.attributes.get_string("rounding_mode", "FLOOR") or "").upper()
    if window is None or source is None or mode != "FLOOR" or zero != 0:
        return None
    if not all(_is_narrow(v[name]) for name in (*"szio", "m" if t is None else "t")):
        return None
    if scale is None or before is None or after is None or scale <= 0 or after % 1:
        return None
    kernel, stride = window
    factor = scale
    if t is None:
        dropped = before - after
        if scalar(v["m"]) != kernel * kernel:
            return None
    else:
        wanted = scalar(t)
        if wanted is None or wanted <= 0:
            return None
        dropped, factor = float(np.rint(np.log2(wanted / scale))), wanted
        scale = float(np.float32(scale) * np.float32(kernel * kernel))
    if (source.scale != np.float32(scale)).any() or source.zero.any() or source.bipolar:
        return None
    bits = _bits(kernel, dropped, after)
    if bits is None or not _fits(source, bits):
        return None
    if t is not None and not _is_unclamped(node, source, kernel, dropped, after):
        return None
    attributes = {
        "kernel": kernel,
        "stride": stride,
        "ibits": bits,
        "obits": int(after),
        "signed": int(source.low < 0),
        "data_layout": "NCHW",
    }
    return attributes, scale, factor


def _is_narrow(parameter: Value) -> bool:
    """Whether a parameter is one number, which does not widen what it is combined with."""
    rank = rank_of(parameter)
    return is_single(parameter) and rank is not None and rank <= 4


def _source(x: Value) -> Quantiser | None:
    """Return the quantiser that makes a value: one of QONNX, or a pair of the standard."""
    pair = pair_of(x.producer())
    return quantiser_of(x.producer()) if pair is None else pair.quantiser


def _bits(kernel: int, dropped: float, after: float) -> int | None:
    """Return the bits of what is pooled with which as many bits of the sum are dropped."""
    for bits in range(1, _MOST + 1):
        sums = ((2**bits - 1) * kernel * kernel).bit_length()
        if sums - after == dropped >= 0 and sums <= _MOST:
            return bits
    return None


def _fits(source: Quantiser, bits: int) -> bool:
    """Whether integers with this number of bits hold the levels of a quantiser."""
    low, high = (
        (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if source.low < 0 else (0, 2**bits - 1)
    )
    return low <= source.low and source.high <= high


def _is_unclamped(
    node: ir.Node, source: Quantiser, kernel: int, dropped: float, after: float
) -> bool:
    """Whether no truncated sum is outside of what Trunc clamps to."""
    signed = node.attributes.get_int("signed", 1)
    narrow = node.attributes.get_int("narrow", 0) or 0
    low = -(2.0 ** (after - 1)) + narrow if signed else 0.0
    high = 2.0 ** (after - 1) - 1 if signed else 2.0**after - 1 - narrow
    least, most = (level * kernel * kernel / 2**dropped for level in (source.low, source.high))
    return low <= least and most < high + 1


_RULES = [
    TermRule(
        call("Trunc", *operands, result="y", domain=domain),
        _pool,
        _make_pool,
        name=f"{name}-version-{version}",
    )
    for name, mean in (
        *((kind, call(kind, "x", result="mean")) for kind in MEANS),
        (f"{MEANS[-1]}-axes", call(MEANS[-1], "x", "axes", result="mean")),
    )
    for domain in QONNX_ALIASES
    for version, operands in ((1, (call("Mul", mean, "m"), *"szio")), (2, (mean, *"szito")))
]
