"""Hints for the certificate of convert-to-quant-avg-pool: operands that its guards admit."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, Spec, data, filled, ints

_STEP = 0.5
_LAST = 3
"""Of the four kinds of means that which reads its axes; only the first has a window."""
_ZERO = {
    "p": filled("", 0.0, dtype=ir.DataType.UINT8),
    "n": filled("", 0.0, dtype=ir.DataType.INT8),
}


def _window(side: int, bits: int, *, version: int, zero: str, mean: int) -> Hint:
    """Return what a window of bytes needs, whose sums have so many bits."""
    area, left = side * side, 4
    scale = _STEP if version == 1 else _STEP / area
    image = f"2 3 {side} {side}" if mean else f"1 2 {side}*a {side}*b"
    # Of the two versions one multiplies by the area, and one has a scale of its result.
    target = {"t": filled("", scale * 2 ** (bits - left))}
    own = {"m": filled("", area)} if version == 1 else target
    return Hint(
        {
            "x": (Spec(node="DequantizeLinear", of=("q", "r", zero)),),
            "q": (Spec(node="QuantizeLinear", of=("u", "r", zero)),),
            "u": data(image),
            "r": filled("", _STEP),
            **_ZERO,
            "s": filled("", scale),
            "z": filled("", 0.0),
            "i": filled("", bits),
            "o": filled("", left),
            **own,
            **({"axes": ints("2 3", "-2 -1")} if mean == _LAST else {}),
        },
        {
            "AveragePool.kernel_shape": ((side, side),),
            "AveragePool.strides": ((side, side), (1, 1)),
            **dict.fromkeys(
                (f"AveragePool.{name}" for name in ("pads", "auto_pad", "ceil_mode")), (None,)
            ),
            "AveragePool.dilations": (None,),
            "ReduceMean.axes": ((2, 3), (-1, -2)),
            "ReduceMean.keepdims": (1, None),
            "Trunc.rounding_mode": ("FLOOR", "floor", None),
            "Trunc.signed": (int(zero == "n"),),
            "Trunc.narrow": (0, None),
        },
    )


def _windows(version: int, mean: int) -> Hint:
    cases = tuple(
        _window(side, bits, version=version, zero=zero, mean=mean)
        for side, bits in ((2, 10), (3, 12))
        for zero in ("p", "n")
    )
    return Hint({}, {}, (ir.DataType.FLOAT,), 13, cases=cases)


HINTS = {
    f"convert-to-quant-avg-pool[{i}]": _windows(1 + i % 2, i // 4)
    for i in range(4 * (_LAST + 1))
}
