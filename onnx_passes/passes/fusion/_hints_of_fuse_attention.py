"""Hints for the certificate of fuse-attention: operands that its guards admit."""

from __future__ import annotations

import math

import onnx_ir as ir

from onnx_passes.passes.fusion._hints_of_heads import HEADS
from onnx_passes.passes.hints import Hint, Spec, data, filled, ints

_FACTOR = Hint(
    {
        "q": data("b h s d"),
        "k": data("b h t d"),
        "v": data("b h t e"),
        "c": filled("", 0.5, 2.0, 8.0, 0.125),
        "Attention.3": data("s t"),
    },
    HEADS,
    (ir.DataType.FLOAT,),
    23,
)
HINTS: dict[str, Hint] = {
    "fuse-attention[0]": Hint(
        {
            "q": data("b h s d"),
            "k": data("b h t d", "b h t d", "b t h d"),
            "v": data("b h t e"),
            "c": filled("", 0.5, 2.0, 8.0, 0.125),
            "f": filled("", 0.5, 2.0),
            "zero": filled("", 0.0),
            "mask": tuple(
                Spec(dims, mixed=(0.0, -1.0, 2.5, *low))
                for dims in ("s t", "1 1 s t", "b h s t", "1 t")
                for low in ((), (-1e9,), (-math.inf,))
            ),
        },
        {
            "Transpose.perm": ([0, 1, 3, 2], [0, 1, 3, 2], [0, 2, 3, 1]),
            "Softmax.axis": (-1, 3, None),
        },
        (ir.DataType.FLOAT,),
        23,
    ),
    "fuse-attention[1]": _FACTOR,
    "fuse-attention[2]": _FACTOR,
    "fuse-attention[3]": Hint(
        {
            "q": data("b h*r s d"),
            "k": data("b h t d"),
            "v": data("b h t e"),
            "k_axes": ints("2"),
            "v_axes": ints("2"),
            "k_sizes": ints("b h r t d"),
            "v_sizes": ints("b h r t e"),
            "k_shape": ints("b h*r t d"),
            "v_shape": ints("b h*r t e"),
            "Attention.3": data("s t"),
        },
        HEADS,
        (ir.DataType.FLOAT,),
        23,
    ),
}
