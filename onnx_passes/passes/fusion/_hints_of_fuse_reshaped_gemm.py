"""Hints for the certificate of fuse-reshaped-gemm: operands that its guards admit."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, data, ints

HINTS: dict[str, Hint] = {
    "fuse-reshaped-gemm": Hint(
        {
            "x": data("a b d"),
            "rows.1": ints("a*b d", "-1 d"),
            "w": data("d e"),
            "t.2": data("e", "1 e", "1"),
            "y.1": ints("a b e", "-1 b e", "a b -1"),
        },
        {
            "Flatten.axis": (2, -1),
            "Gemm.transA": (None,),
            "Gemm.transB": (None, 0),
            "Gemm.alpha": (None, 1.0),
            "Gemm.beta": (None, 1.0),
            "Reshape.allowzero": (None,),
        },
        (ir.DataType.FLOAT, ir.DataType.DOUBLE),
    ),
}
