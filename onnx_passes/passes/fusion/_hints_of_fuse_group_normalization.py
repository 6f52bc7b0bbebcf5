"""Hints for the certificate of fuse-group-normalization: operands that its guards admit."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, Spec, data, filled, ints

HINTS: dict[str, Hint] = {
    "fuse-group-normalization[0]": Hint(
        {
            "x": data("n g*p h w", "n g*p h"),
            "groups.1": ints("0 g -1", "n g -1"),
            "s": filled("g", 1.0),
            "b": filled("g", 0.0),
            "y.1": (Spec(node="Shape", of=("x",)),),
        },
        {"Reshape.allowzero": (None,)},
        (ir.DataType.FLOAT,),
        21,
    ),
    "fuse-group-normalization": Hint(
        {
            "x": data("n 2*p h w", "n 2*p h"),
            "s": filled("2*p", 1.0),
            "b": filled("2*p", 0.0),
            "w": data("2*p 1 1", "2*p 1", "1 2*p 1 1", ""),
        },
        {"GroupNormalization.num_groups": (1, 2)},
        (ir.DataType.FLOAT,),
    ),
}
