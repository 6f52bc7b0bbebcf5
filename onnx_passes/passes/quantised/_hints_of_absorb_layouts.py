"""Hints for the certificate of absorb-layouts: operands that its guards admit."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, data

_TURNS = ([0, 2, 1], [2, 0, 1], [1, 0, 2], [2, 1, 0])
_LAYOUT = Hint(
    {"x": data("a b c")},
    {
        "LayoutConverter.assumes": (["N", "C", "W"],),
        "LayoutConverter.perm": _TURNS,
        "Transpose.perm": _TURNS,
    },
    (ir.DataType.FLOAT,),
    13,
)
HINTS: dict[str, Hint] = {
    "absorb-layouts[0]": _LAYOUT,
    "absorb-layouts[1]": _LAYOUT,
}
