"""Hints for the certificate of infer-thresholds: operands that its guards admit."""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, Spec, filled
from onnx_passes.passes.quantised._hints_of_quantisers import PAIR, X, quantiser

_BOUNDED = {"x": (Spec(node="HardSigmoid", of=("u",)),), "u": X}
_ROUNDED = Hint(_BOUNDED, {}, (ir.DataType.FLOAT,), 13)
_ENDS_TABLE = Hint(
    {**_BOUNDED, "a": (Spec("3", mixed=(0.25, 0.5, 0.75)),), "b": filled("", 1.0)},
    {},
    (ir.DataType.FLOAT,),
    13,
)
_CHOICE = Hint(
    {
        "x": (Spec(node="GreaterOrEqual", of=("u", "c")),),
        "u": X,
        "c": filled("", 0.5, 0.0),
        "a": filled("", 1.0, 2.0),
        "b": filled("", -1.0, 0.0),
    },
    {},
    (ir.DataType.FLOAT,),
    13,
)
_PAIR_FROM_ZERO = replace(
    PAIR,
    cases=tuple(
        Hint(dict.fromkeys(("s", "t"), filled("", scale))) for scale in (0.5, 0.25, 0.3)
    ),
)
_TRUNCATION = Hint(
    {
        "x": X,
        "a": filled("", 0.5, 0.25),
        "b": filled("", 0.0, 4.0),
        "c": filled("", 8.0),
        "d": filled("", 1.0, 2.0),
        "e": filled("", 2.0, 4.0),
    },
    {
        "Trunc.signed": (0, 1),
        "Trunc.narrow": (0, 1, None),
        "Trunc.rounding_mode": ("ROUND", "FLOOR", "CEIL", None),
    },
    (ir.DataType.FLOAT,),
    13,
)
HINTS: dict[str, Hint] = {
    **{f"infer-thresholds[{i}]": _ROUNDED for i in range(4)},
    **{f"infer-thresholds[{i}]": quantiser("a", "b", "c") for i in range(4, 11)},
    "infer-thresholds[11]": _ENDS_TABLE,
    "infer-thresholds[12]": _CHOICE,
    "infer-thresholds[13]": _TRUNCATION,
    "infer-thresholds[14]": _TRUNCATION,
    "infer-thresholds[15]": PAIR,
    "infer-thresholds[16]": PAIR,
    "infer-thresholds[17]": _PAIR_FROM_ZERO,
}
