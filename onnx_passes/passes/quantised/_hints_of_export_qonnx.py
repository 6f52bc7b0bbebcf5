"""Hints for the certificate of export-qonnx: operands that its guards admit."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, Spec, data, filled
from onnx_passes.passes.quantised._hints_of_quantisers import quantiser

_TABLES = (Spec("3", mixed=(-1.0, 0.5, 2.0)), Spec("c 1 3", mixed=(-1.0, 0.5, 2.0)))
_X = data("a c d", "a c")
HINTS: dict[str, Hint] = {
    "export-qonnx[0]": quantiser("s", "z", "b"),
    "export-qonnx[1]": Hint(
        {"x": data("a c d"), "t": _TABLES, "w": filled("", 1.0, 2.0)},
        {},
        (ir.DataType.FLOAT,),
        13,
    ),
    "export-qonnx[2]": Hint(
        {"x": _X, "t": (Spec("c 3", mixed=(-1.0, 0.5, 2.0)),), "a": filled("", 1.0, -2.0)},
        {
            "MultiThreshold.out_scale": (1.0, 2.0),
            "MultiThreshold.out_bias": (0.0,),
            "MultiThreshold.out_dtype": ("UINT4",),
            "MultiThreshold.data_layout": ("NC", "NCW"),
        },
        (ir.DataType.FLOAT,),
        13,
    ),
}
