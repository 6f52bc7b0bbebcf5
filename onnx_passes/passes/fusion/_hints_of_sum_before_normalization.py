"""Hints for the certificate of sum-before-normalization: operands that its guards admit."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, data

HINTS: dict[str, Hint] = {
    "sum-before-normalization": Hint(
        {
            "x": data("b s d", "b s d", "1 s d"),
            "y": data("b s d"),
            "normal.1": data("d"),
            "normal.2": data("d"),
        },
        {
            **dict.fromkeys(("LayerNormalization.axis", "RMSNormalization.axis"), (-1, 2)),
            **dict.fromkeys(
                ("LayerNormalization.stash_type", "RMSNormalization.stash_type"), (None,)
            ),
        },
        (ir.DataType.FLOAT,),
        23,
    ),
}
