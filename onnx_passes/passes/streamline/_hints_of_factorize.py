"""Hints for the certificate of factorize: operands that its guards admit."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, Spec, ints

HINTS: dict[str, Hint] = {
    "factorize[2]": Hint(
        {"w": (Spec("4 b", mixed=(0.25, -0.5, 0.75)),), "x": ints("0 1", "3 0 2")},
        {"Gather.axis": (0, None)},
        (ir.DataType.FLOAT,),
    ),
}
