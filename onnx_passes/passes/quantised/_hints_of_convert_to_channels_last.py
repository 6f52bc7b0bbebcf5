"""Hints for the certificate of convert-to-channels-last: operands that its guards admit."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, data, filled

_FLOATS = (ir.DataType.FLOAT,)
_NO_PADDING = (None, "NOTSET")


def _image(kind: str, inputs: str, weights: str, pads: tuple[object, ...]) -> Hint:
    """Return what a window over one or two axes needs."""
    spatial = len(inputs.split()) - 2
    kernel = tuple(int(size) for size in weights.split()[2:])
    pooled = kind == "MaxPool"
    attributes = {
        "auto_pad": _NO_PADDING,
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
    return Hint({}, {}, _FLOATS, 11, cases=cases)


_NORMALIZED = Hint(
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
    _FLOATS,
    13,
)
_POOLED = Hint(
    {"x": (*filled("1 2 4 4", 3.0, -2.0), *filled("2 3 5 6", 7.0))},
    {
        "QuantAvgPool2d.kernel": (2, 3),
        "QuantAvgPool2d.stride": (1, 2),
        "QuantAvgPool2d.ibits": (4,),
        "QuantAvgPool2d.obits": (4,),
        "QuantAvgPool2d.signed": (0, 1),
        "QuantAvgPool2d.data_layout": ("NCHW", None),
    },
    _FLOATS,
    13,
)

HINTS = {
    "convert-to-channels-last[0]": _images("Conv"),
    "convert-to-channels-last[1]": _images("Conv"),
    "convert-to-channels-last[2]": _images("MaxPool"),
    "convert-to-channels-last[3]": _NORMALIZED,
    "convert-to-channels-last[4]": _POOLED,
    "convert-to-channels-last[5]": _POOLED,
}
