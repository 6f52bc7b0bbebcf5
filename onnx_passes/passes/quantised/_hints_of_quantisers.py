"""Hints of quantisers, by the names that patterns have for their operands."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, Spec, data, filled

MODES = ("ROUND", "half_even", "CEIL", "FLOOR", "UP", "DOWN", "HALF_UP", "HALF_DOWN")
FLAGS = {
    f"{kind}.{name}": values
    for kind in ("Quant", "IntQuant")
    for name, values in (
        ("signed", (0, 1)),
        ("narrow", (0, 1, None)),
        ("rounding_mode", MODES),
    )
}
X = data("a b", "a b c", "b")
SCALE = (*filled("", 0.5, 0.3, 2.0), *filled("1", 0.25))
ZERO = filled("", 0.0, 0.0, 1.0, -2.0)
BITS = filled("", 1.0, 2.0, 3.0, 4.0)


def quantiser(scale: str, zero: str, bits: str, x: tuple[Spec, ...] = X) -> Hint:
    """Return the operands of a quantiser, by the names that a pattern has for them.

    Args:
        scale: The pattern's name of the scale.
        zero: The pattern's name of the zero point.
        bits: The pattern's name of the bits.
        x: What is quantised.
    """
    operands = {"x": x, scale: SCALE, zero: ZERO, bits: BITS}
    return Hint(operands, FLAGS, (ir.DataType.FLOAT,), 13)


SMALL = filled("", 0.0, -4.0, 2.0, dtype=ir.DataType.INT8)
PAIR = Hint(
    {"x": data("a b", "b")},
    {"QuantizeLinear.axis": (None,), "DequantizeLinear.axis": (None,)},
    (ir.DataType.FLOAT,),
    13,
    cases=tuple(
        Hint(
            {
                **dict.fromkeys(("s", "t"), filled("", scale)),
                **dict.fromkeys(("z", "w"), filled("", zero, dtype=ir.DataType.INT8)),
                "a": filled("", -7.0, -8.0, dtype=ir.DataType.INT8),
                "b": filled("", 7.0, dtype=ir.DataType.INT8),
            }
        )
        for scale in (0.5, 0.25)
        for zero in (0.0, 2.0)
    ),
)
