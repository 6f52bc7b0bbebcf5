"""Hints for the certificate of import-qonnx: operands that its guards admit."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, Spec, data
from onnx_passes.passes.quantised._hints_of_quantisers import quantiser

_TABLE = Hint(
    {"x": data("a c", "a c d"), "a": (Spec("c 3", mixed=(-1.0, 0.5, 2.0)),)},
    {
        "MultiThreshold.out_scale": (1.0, 0.5, None),
        "MultiThreshold.out_bias": (0.0, -2.0, None),
        "MultiThreshold.out_dtype": ("INT8",),
        "MultiThreshold.data_layout": ("NC", "NCW", None),
    },
    (ir.DataType.FLOAT,),
    13,
)
HINTS: dict[str, Hint] = {
    **{
        f"import-qonnx[{i}]": _TABLE if i % 3 == 2 else quantiser("a", "b", "c")
        for i in range(6)
    },
}
