"""Hints for the passes over quantisers, thresholds and what streamlining moves."""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir

from onnx_passes.verify.rules.hints import Hint, Spec, data, filled, ints

_FLOAT = (ir.DataType.FLOAT,)
_OPSET = 13
_MODES = ("ROUND", "half_even", "CEIL", "FLOOR", "UP", "DOWN", "HALF_UP", "HALF_DOWN")

_FLAGS = {
    f"{kind}.{name}": values
    for kind in ("Quant", "IntQuant")
    for name, values in (
        ("signed", (0, 1)),
        ("narrow", (0, 1, None)),
        ("rounding_mode", _MODES),
    )
}
_X = data("a b", "a b c", "b")
_SCALE = (*filled("", 0.5, 0.3, 2.0), *filled("1", 0.25))
_ZERO = filled("", 0.0, 0.0, 1.0, -2.0)
_BITS = filled("", 1.0, 2.0, 3.0, 4.0)


def _quantiser(scale: str, zero: str, bits: str, x: tuple[Spec, ...] = _X) -> Hint:
    """Return the operands of a quantiser, by the names that a pattern has for them."""
    operands = {"x": x, scale: _SCALE, zero: _ZERO, bits: _BITS}
    return Hint(operands, _FLAGS, _FLOAT, _OPSET)


_STEPS = (Spec("3", mixed=(-1.0, 0.5, 2.0, 0.25, 1.5)), Spec("b 3", mixed=(-1.0, 0.5, 2.0)))
_WEIGHTS = (*filled("", 1.0, 2.0, -1.0), Spec("3", mixed=(1.0, -1.0, 2.0)))
_THRESHOLDS = Hint(
    {"x": data("a b"), "s": _STEPS, "v": _WEIGHTS, "t": _STEPS, "w": _WEIGHTS},
    {},
    _FLOAT,
    _OPSET,
)
_BOUNDED = {"x": (Spec(node="HardSigmoid", of=("u",)),), "u": _X}
_ROUNDED = Hint(_BOUNDED, {}, _FLOAT, _OPSET)
_TABLE = Hint(
    {"x": data("a c", "a c d"), "a": (Spec("c 3", mixed=(-1.0, 0.5, 2.0)),)},
    {
        "MultiThreshold.out_scale": (1.0, 0.5, None),
        "MultiThreshold.out_bias": (0.0, -2.0, None),
        "MultiThreshold.out_dtype": ("INT8",),
        "MultiThreshold.data_layout": ("NC", "NCW", None),
    },
    _FLOAT,
    _OPSET,
)
_ENDS_TABLE = Hint(
    {**_BOUNDED, "a": (Spec("3", mixed=(0.25, 0.5, 0.75)),), "b": filled("", 1.0)},
    {},
    _FLOAT,
    _OPSET,
)
_TURNS = ([0, 2, 1], [2, 0, 1], [1, 0, 2], [2, 1, 0])
_LAYOUT = Hint(
    {"x": data("a b c")},
    {
        "LayoutConverter.assumes": (["N", "C", "W"],),
        "LayoutConverter.perm": _TURNS,
        "Transpose.perm": _TURNS,
    },
    _FLOAT,
    _OPSET,
)
_EQUAL = tuple(
    Hint({"x": data("a b"), "y": data("a b", "b"), "s": filled("", n), "t": filled("", n)})
    for n in (0.5, 3.0, -0.25)
)
_GRIDS = {
    zeros: tuple(
        Hint(
            {
                "q": (Spec("a b", dtype=kind), Spec("b", dtype=kind)),
                **{name: filled("", scale) for name in "st"},
                **{name: filled("", zero, dtype=kind) for name in "zu"},
            }
        )
        for kind in (ir.DataType.UINT8, ir.DataType.INT8)
        for scale in (0.5, 0.013, 3.0)
        for zero in zeros
    )
    for zeros in ((0.0, 7.0), (0.0,))
}
_CONSTANT = (Spec("a b", mixed=(0.5, -0.25, 1.0, 3.0)),)

_CHOICE = Hint(
    {
        "x": (Spec(node="GreaterOrEqual", of=("u", "c")),),
        "u": _X,
        "c": filled("", 0.5, 0.0),
        "a": filled("", 1.0, 2.0),
        "b": filled("", -1.0, 0.0),
    },
    {},
    _FLOAT,
    _OPSET,
)
_SMALL = filled("", 0.0, -4.0, 2.0, dtype=ir.DataType.INT8)
_PAIR = Hint(
    {"x": data("a b", "b")},
    {"QuantizeLinear.axis": (None,), "DequantizeLinear.axis": (None,)},
    _FLOAT,
    _OPSET,
    cases=tuple(
        Hint(
            {
                **dict.fromkeys(("s", "t"), filled("", scale)),
                **dict.fromkeys(("z", "w"), filled("", zero, dtype=ir.DataType.INT8)),
                "a": filled("", -7.0, -8.0, dtype=ir.DataType.INT8),
                "b": filled("", 7.0, dtype=ir.DataType.INT8),
            }
        )
        for scale in (0.5, 0.25)
        for zero in (0.0, 2.0)
    ),
)
_INTEGERS = Hint(
    {
        "x": (Spec("a b", mixed=(-8.0, 3.0, 0.0, 7.0), dtype=ir.DataType.INT8),),
        "t": filled("", 0.5, 0.25),
        "w": _SMALL,
    },
    {"DequantizeLinear.axis": (None,)},
    _FLOAT,
    _OPSET,
)
_LEVELS = Hint(
    {
        "x": (Spec("a b", mixed=(-8.0, 3.0, 0.0, 7.0), dtype=ir.DataType.INT8),),
        "s": filled("", 0.5, 0.3, 2.0),
        "z": _SMALL,
    },
    {"DequantizeLinear.axis": (None,)},
    _FLOAT,
    _OPSET,
)
_PAIR_FROM_ZERO = replace(
    _PAIR,
    cases=tuple(
        Hint(dict.fromkeys(("s", "t"), filled("", scale))) for scale in (0.5, 0.25, 0.3)
    ),
)
_TRUNCATION = Hint(
    {
        "x": _X,
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
    _FLOAT,
    _OPSET,
)
_BITS_OF_TWO = Hint(
    {
        "x": data("a b"),
        "t": (Spec("1", mixed=(-1.0, 0.5, 0.0)),),
        "v": filled("", 2.0),
        "a": filled("", -1.0),
        "w": (Spec("b 3", mixed=(-1.0, 1.0)),),
    },
    {},
    _FLOAT,
    _OPSET,
)

HINTS: dict[str, Hint] = {
    **{
        f"import-qonnx[{i}]": _TABLE if i % 3 == 2 else _quantiser("a", "b", "c")
        for i in range(6)
    },
    **{f"inline-qonnx[{i}]": _quantiser("s", "z", "b") for i in range(7)},
    **{f"extract-weight-scales[{i}]": _quantiser("s", "z", "b", _CONSTANT) for i in range(7)},
    **{f"infer-thresholds[{i}]": _ROUNDED for i in range(4)},
    **{f"infer-thresholds[{i}]": _quantiser("a", "b", "c") for i in range(4, 11)},
    "infer-thresholds[11]": _ENDS_TABLE,
    "infer-thresholds[12]": _CHOICE,
    "infer-thresholds[13]": _TRUNCATION,
    "infer-thresholds[14]": _TRUNCATION,
    "infer-thresholds[15]": _PAIR,
    "infer-thresholds[16]": _PAIR,
    "infer-thresholds[17]": _PAIR_FROM_ZERO,
    "extract-weight-scales[7]": _LEVELS,
    "extract-weight-scales[8]": _LEVELS,
    **{f"convert-to-qcdq[{i}]": _quantiser("s", "z", "b") for i in range(5)},
    "convert-from-qcdq[0]": _PAIR,
    "convert-from-qcdq[1]": _PAIR,
    "convert-from-qcdq[2]": _INTEGERS,
    "convert-to-xnor-popcount": _BITS_OF_TWO,
    **dict.fromkeys(
        (
            *("sort-thresholds", "inline-thresholds", "decompose-thresholds"),
            *("fuse-thresholds[0]", "fuse-thresholds[1]"),
        ),
        _THRESHOLDS,
    ),
    "fold-qdq[0]": Hint({}, cases=_GRIDS[0.0, 7.0], types=_FLOAT, since=_OPSET),
    "fold-qdq[1]": Hint({}, cases=_GRIDS[0.0,], types=_FLOAT, since=_OPSET),
    "absorb-layouts[0]": _LAYOUT,
    "absorb-layouts[1]": _LAYOUT,
    "factorize[2]": Hint(
        {"w": (Spec("4 b", mixed=(0.25, -0.5, 0.75)),), "x": ints("0 1", "3 0 2")},
        {"Gather.axis": (0, None)},
        _FLOAT,
    ),
    "sink-scales[9]": Hint({}, cases=_EQUAL, types=_FLOAT),
    "sink-scales[10]": Hint({}, cases=_EQUAL, types=_FLOAT),
}
