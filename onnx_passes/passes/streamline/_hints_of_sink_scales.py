"""Hints for the certificate of sink-scales: operands that its guards admit."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, data, filled

_EQUAL = tuple(
    Hint({"x": data("a b"), "y": data("a b", "b"), "s": filled("", n), "t": filled("", n)})
    for n in (0.5, 3.0, -0.25)
)
HINTS: dict[str, Hint] = {
    "sink-scales[9]": Hint({}, cases=_EQUAL, types=(ir.DataType.FLOAT,)),
    "sink-scales[10]": Hint({}, cases=_EQUAL, types=(ir.DataType.FLOAT,)),
}
