"""Hints for the certificate of fuse-attention-cache: operands that its guards admit."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.fusion._hints_of_heads import HEADS
from onnx_passes.passes.hints import Hint, data

HINTS: dict[str, Hint] = {
    "fuse-attention-cache": Hint(
        {
            "q": data("b h*r s d"),
            "k": data("b h t d"),
            "v": data("b h t e"),
            "past_k": data("b h p d"),
            "past_v": data("b h p e"),
            "Attention.3": data("1", "1 1"),
        },
        {**HEADS, "Concat.axis": (2, -2), "Attention.is_causal": (None, 0)},
        (ir.DataType.FLOAT,),
        23,
    ),
}
