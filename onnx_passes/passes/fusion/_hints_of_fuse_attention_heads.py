"""Hints for the certificate of fuse-attention-heads: operands that its guards admit."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.fusion._hints_of_heads import HEADS
from onnx_passes.passes.hints import Hint, data

_SIDE_BY_SIDE = {
    "q": data("b s h*r 2*d"),
    "k": data("b t h 2*d"),
    "v": data("b t h e"),
    "Attention.3": data("s t"),
}
HINTS: dict[str, Hint] = {
    "fuse-attention-heads[0]": Hint(_SIDE_BY_SIDE, HEADS, (ir.DataType.FLOAT,), 23),
    "fuse-attention-heads[1]": Hint(
        {
            **_SIDE_BY_SIDE,
            **dict.fromkeys(("q_rotated.1", "q_rotated.2"), data("b s d")),
            **dict.fromkeys(("k_rotated.1", "k_rotated.2"), data("b t d")),
        },
        {
            **HEADS,
            "RotaryEmbedding.num_heads": (None,),
            "RotaryEmbedding.rotary_embedding_dim": (None,),
        },
        (ir.DataType.FLOAT,),
        23,
    ),
}
