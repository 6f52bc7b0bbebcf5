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
_TABLES = {
    **dict.fromkeys(("q_rotated.1", "q_rotated.2"), data("b s d")),
    **dict.fromkeys(("k_rotated.1", "k_rotated.2"), data("b t d")),
}
_ROTARY = {
    "RotaryEmbedding.num_heads": (None,),
    "RotaryEmbedding.rotary_embedding_dim": (None,),
}
_CACHE = {
    "Attention.3": data("1", "1 1"),
    "Attention.4": data("b h p 2*d"),
    "Attention.5": data("b h p e"),
}
_CACHED = {**HEADS, "Attention.is_causal": (None, 0)}
_FLOAT = (ir.DataType.FLOAT,)
HINTS: dict[str, Hint] = {
    "fuse-attention-heads[0]": Hint(_SIDE_BY_SIDE, HEADS, _FLOAT, 23),
    "fuse-attention-heads[1]": Hint(
        {**_SIDE_BY_SIDE, **_TABLES}, {**HEADS, **_ROTARY}, _FLOAT, 23
    ),
    "fuse-attention-heads[2]": Hint({**_SIDE_BY_SIDE, **_CACHE}, _CACHED, _FLOAT, 23),
    "fuse-attention-heads[3]": Hint(
        {**_SIDE_BY_SIDE, **_TABLES, **_CACHE}, {**_CACHED, **_ROTARY}, _FLOAT, 23
    ),
}
