"""Hints of quantised passes: quantisers, thresholds, windows and what they stand behind."""

from dataclasses import replace

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, Hints, Spec, Specs, data, filled, ints

_FLOAT = (ir.DataType.FLOAT,)

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


def quantiser(scale: str, zero: str, bits: str, x: Specs = _X) -> Hint:
    """Return the operands of a quantiser, by the names that a pattern has for them.

    Arguments are the pattern's names; ``x`` is what is quantised.
    """
    operands = {"x": x, scale: _SCALE, zero: _ZERO, bits: _BITS}
    return Hint(operands, _FLAGS, _FLOAT, 13)


SMALL = filled("", 0.0, -4.0, 2.0, dtype=ir.DataType.INT8)
"""Zero points of 8 bits."""
INT8_LEVELS = (Spec("a b", mixed=(-8.0, 3.0, 0.0, 7.0), dtype=ir.DataType.INT8),)
"""Constants of 8 bits."""
PAIR = Hint(
    {"x": data("a b", "b")},
    {"QuantizeLinear.axis": (None,), "DequantizeLinear.axis": (None,)},
    _FLOAT,
    13,
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
"""A quantiser of the standard: QuantizeLinear, Clip and DequantizeLinear on one grid."""

_STEPS = (Spec("3", mixed=(-1.0, 0.5, 2.0, 0.25, 1.5)), Spec("b 3", mixed=(-1.0, 0.5, 2.0)))
_WEIGHTS = (*filled("", 1.0, 2.0, -1.0), Spec("3", mixed=(1.0, -1.0, 2.0)))
THRESHOLDS = Hint(
    {"x": data("a b"), "s": _STEPS, "v": _WEIGHTS, "t": _STEPS, "w": _WEIGHTS}, {}, _FLOAT, 13
)
"""One or two MultiThresholds."""

_BOUNDED = {"x": (Spec(node="HardSigmoid", of=("u",)),), "u": _X}
_ROUNDED = Hint(_BOUNDED, {}, _FLOAT, 13)
INFERRED_THRESHOLDS: Hints = {
    **dict.fromkeys(("Round", "Ceil", "Floor", "Sign"), _ROUNDED),
    "*": quantiser("a", "b", "c"),
    "MultiThreshold": Hint(
        {**_BOUNDED, "a": (Spec("3", mixed=(0.25, 0.5, 0.75)),), "b": filled("", 1.0)},
        {},
        _FLOAT,
        13,
    ),
    "Where": Hint(
        {
            "x": (Spec(node="GreaterOrEqual", of=("u", "c")),),
            "u": _X,
            "c": filled("", 0.5, 0.0),
            "a": filled("", 1.0, 2.0),
            "b": filled("", -1.0, 0.0),
        },
        {},
        _FLOAT,
        13,
    ),
    "Trunc": Hint(
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
        13,
    ),
    "pair": PAIR,
    "pair-with-clip": PAIR,
    "pair-without-zero-point": replace(
        PAIR,
        cases=tuple(
            Hint(dict.fromkeys(("s", "t"), filled("", scale))) for scale in (0.5, 0.25, 0.3)
        ),
    ),
}


def _image(kind: str, inputs: str, weights: str, pads: tuple[object, ...]) -> Hint:
    """Return what a window over one or two axes needs."""
    spatial = len(inputs.split()) - 2
    kernel = tuple(int(size) for size in weights.split()[2:])
    pooled = kind == "MaxPool"
    attributes = {
        "auto_pad": (None, "NOTSET"),
        "kernel_shape": (kernel,) if pooled else (kernel, None),
        "strides": ((1,) * spatial, (2,) * spatial, None),
        "dilations": (None, (1,) * spatial),
        "pads": pads,
        "group": (None, 1),
        "ceil_mode": (None, 0),
        "storage_order": (None,),
    }
    known = ("group",) if pooled else ("ceil_mode", "storage_order")
    parameters = {"w": data(weights), "b": data(weights.split()[0])}
    return Hint(
        {"x": data(inputs), **({} if pooled else parameters)},
        {f"{kind}.{name}": value for name, value in attributes.items() if name not in known},
    )


def _images(kind: str) -> Hint:
    cases = (
        _image(kind, "1 2 5 4", "3 2 2 3", (None, (0, 0, 0, 0), (1, 1, 1, 1))),
        _image(kind, "2 3 6 5", "2 3 3 3", (None, (1, 0, 1, 0))),
        _image(kind, "2 3 7", "4 3 3", (None, (1, 1))),
    )
    return Hint({}, {}, _FLOAT, 11, cases=cases)


CHANNELS_LAST_OPERATORS: Hints = {
    "Conv": _images("Conv"),
    "Conv-with-bias": _images("Conv"),
    "MaxPool": _images("MaxPool"),
    "BatchNormalization": Hint(
        {
            **dict.fromkeys("bcd", data("3")),
            "e": filled("3", 0.5, 2.0),
            "x": data("2 3 4 5", "1 3 4"),
        },
        {
            "BatchNormalization.epsilon": (None, 0.001),
            "BatchNormalization.momentum": (None, 0.8),
            "BatchNormalization.training_mode": (None,),
        },
        _FLOAT,
        13,
    ),
    "QuantAvgPool2d": Hint(
        {"x": (*filled("1 2 4 4", 3.0, -2.0), *filled("2 3 5 6", 7.0))},
        {
            "QuantAvgPool2d.kernel": (2, 3),
            "QuantAvgPool2d.stride": (1, 2),
            "QuantAvgPool2d.ibits": (4,),
            "QuantAvgPool2d.obits": (4,),
            "QuantAvgPool2d.signed": (0, 1),
            "QuantAvgPool2d.data_layout": ("NCHW", None),
        },
        _FLOAT,
        13,
    ),
}

_STEP = 0.5


def _window(side: int, bits: int, *, version: int, zero: str, mean: str) -> Hint:
    """Return what a window of bytes needs, whose sums have so many bits."""
    area, left = side * side, 4
    scale = _STEP if version == 1 else _STEP / area
    image = f"1 2 {side}*a {side}*b" if mean == "AveragePool" else f"2 3 {side} {side}"
    # Of the two versions one multiplies by the area, and one has a scale of its result.
    target = {"t": filled("", scale * 2 ** (bits - left))}
    own = {"m": filled("", area)} if version == 1 else target
    return Hint(
        {
            "x": (Spec(node="DequantizeLinear", of=("q", "r", zero)),),
            "q": (Spec(node="QuantizeLinear", of=("u", "r", zero)),),
            "u": data(image),
            "r": filled("", _STEP),
            "p": filled("", 0.0, dtype=ir.DataType.UINT8),
            "n": filled("", 0.0, dtype=ir.DataType.INT8),
            "s": filled("", scale),
            "z": filled("", 0.0),
            "i": filled("", bits),
            "o": filled("", left),
            **own,
            **({"axes": ints("2 3", "-2 -1")} if mean == "ReduceMean-axes" else {}),
        },
        {
            "AveragePool.kernel_shape": ((side, side),),
            "AveragePool.strides": ((side, side), (1, 1)),
            **dict.fromkeys(
                (f"AveragePool.{name}" for name in ("pads", "auto_pad", "ceil_mode")), (None,)
            ),
            "AveragePool.dilations": (None,),
            "ReduceMean.axes": ((2, 3), (-1, -2)),
            "ReduceMean.keepdims": (1, None),
            "Trunc.rounding_mode": ("FLOOR", "floor", None),
            "Trunc.signed": (int(zero == "n"),),
            "Trunc.narrow": (0, None),
        },
    )


def _windows(version: int, mean: str) -> Hint:
    cases = tuple(
        _window(side, bits, version=version, zero=zero, mean=mean)
        for side, bits in ((2, 10), (3, 12))
        for zero in ("p", "n")
    )
    return Hint({}, {}, _FLOAT, 13, cases=cases)


QUANT_AVG_POOL: Hints = {
    f"{mean}-version-{version}": _windows(version, mean)
    for mean in ("AveragePool", "GlobalAveragePool", "ReduceMean", "ReduceMean-axes")
    for version in (1, 2)
}
