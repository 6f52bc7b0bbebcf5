"""Hints for the certificate of convert-to-channels-last: operands that its guards admit."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, data

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
        {f"{kind}.{name}": told for name, told in attributes.items() if name not in known},
    )


def _images(kind: str) -> Hint:
    cases = (
        _image(kind, "1 2 5 4", "3 2 2 3", (None, (0, 0, 0, 0), (1, 1, 1, 1))),
        _image(kind, "2 3 6 5", "2 3 3 3", (None, (1, 0, 1, 0))),
        _image(kind, "2 3 7", "4 3 3", (None, (1, 1))),
    )
    return Hint({}, {}, _FLOATS, 11, cases=cases)


HINTS = {
    "convert-to-channels-last[0]": _images("Conv"),
    "convert-to-channels-last[1]": _images("Conv"),
    "convert-to-channels-last[2]": _images("MaxPool"),
}
