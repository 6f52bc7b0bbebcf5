"""Hints for the certificate of widen-rotary-embedding: operands that its guards admit."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, data, ints

_ATTRIBUTES = {
    "Concat.axis": (-1, 3),
    "Split.axis": (-1, 3),
    "Split.num_outputs": (None,),
    "RotaryEmbedding.num_heads": (None, 0),
    "RotaryEmbedding.rotary_embedding_dim": (None, 0),
    "RotaryEmbedding.interleaved": (None, 0, 1),
}
_TYPES = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
_TABLES = dict.fromkeys(("turned.1", "turned.2"), data("b s 2"))
HINTS: dict[str, Hint] = {
    "widen-rotary-embedding[0]": Hint(
        {
            "x": data("b h s 6"),
            **_TABLES,
            "low.1": ints("0"),
            "low.2": ints("4"),
            "low.3": ints("3", "-1"),
            "low.4": ints("1"),
            "high.1": ints("4"),
            "high.2": ints("6", "5", str(2**63 - 1)),
            "high.3": ints("3", "-1"),
            "high.4": ints("1"),
        },
        _ATTRIBUTES,
        _TYPES,
        23,
    ),
    "widen-rotary-embedding[1]": Hint(
        {"x": data("b h s 6"), **_TABLES, "low.1": ints("4 2")}, _ATTRIBUTES, _TYPES, 23
    ),
}
