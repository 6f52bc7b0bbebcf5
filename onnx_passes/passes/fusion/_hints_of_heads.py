"""Hints of attention: what its attributes may be."""

from __future__ import annotations

HEADS = {
    "Attention.scale": (0.5, 0.25, None),
    "Attention.q_num_heads": (None,),
    "Attention.kv_num_heads": (None,),
}
