"""Hints for the certificate of fuse-rotary-embedding: operands that its guards admit."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, Spec, data, ints

_TABLE = tuple(
    Spec(dims, doubled=True) for dims in ("s 2*e", "1 1 s 2*e", "1 s 2*e", "b 1 s 2*e")
)
_JOINED = Spec(node="Concat", of=("half", "half"), attributes={"axis": -1})
HINTS: dict[str, Hint] = {
    "fuse-rotary-embedding": Hint(
        {
            "x": data("b h s 2*e"),
            "half": data("s e", "1 1 s e", "b 1 s e"),
            "cos": (*_TABLE, _JOINED),
            "sin": (*_TABLE, _JOINED),
            "low.1": ints("0"),
            "low.2": ints("e"),
            "low.3": ints("3", "-1"),
            "high.1": ints("e"),
            "high.2": ints("2*e", str(2**63 - 1)),
            "high.3": ints("3", "-1"),
            "low.4": ints("1"),
            "high.4": ints("1"),
            "first.1": ints("e e"),
        },
        {"Concat.axis": (-1, 3), "Split.axis": (-1, 3), "Split.num_outputs": (2, None)},
        (ir.DataType.FLOAT, ir.DataType.FLOAT16),
        23,
    ),
}
