"""Im2Col, and QONNX's operators over channels-last data."""

from __future__ import annotations

import numpy as np

from onnx_passes.ops.bodies.attach import body
from onnx_passes.ops.bodies.domains import CHANNELS_LAST, CUSTOM, QONNX_ALIASES
from onnx_passes.ops.bodies.writer import BodyCall, Writer


@body("Im2Col", *QONNX_ALIASES)
def im2col(to: Writer) -> str:
    """Gather the windows of an image ``[N, H, W, C]``: ``[N, oh, ow, kh * kw * C]``.

    qonnx mixes up the images of a batch; here each image has its own rows.
    """
    (x,) = to.inputs
    _, height, width, channels = image_shape(to.call)
    pads = to.call.integers("pad_amount", (0, 0, 0, 0))
    top, left, bottom, right = pads
    if any(pads):
        ends = to.shape(0, top, left, 0, 0, bottom, right, 0)
        x = _padded(to, x, ends, float(to.call.integer("pad_value", 0)))
    rows = _indices(to.call, 0, height + top + bottom)
    columns = _indices(to.call, 1, width + left + right)
    x = to.Gather(x, to.tensor(rows), axis=1)  # [N, oh, kh, W, C]
    x = to.Gather(x, to.tensor(columns), axis=3)  # [N, oh, kh, ow, kw, C]
    x = to.Transpose(x, perm=[0, 1, 3, 2, 4, 5])
    size = rows.shape[1] * columns.shape[1] * channels
    return to.Reshape(x, to.shape(0, rows.shape[0], columns.shape[0], size))


def image_shape(call: BodyCall) -> tuple[int | None, int, int, int]:
    """Return the shape of an Im2Col's input, from its attribute or as declared.

    Raises:
        ValueError: Height, width or channels are not known.
    """
    text = call.text("input_shape", "").strip("() ")
    dims = [int(d) for d in text.split(",") if d.strip()] if text else call.shape(0)
    if dims is None or len(dims) != 4:
        raise ValueError("the shape of the image is not known")
    batch, height, width, channels = dims
    if height is None or width is None or channels is None:
        raise ValueError("the shape of the image is not known")
    return batch, height, width, channels


def _indices(call: BodyCall, axis: int, length: int) -> np.ndarray[tuple[int, ...], np.dtype]:
    """Return the positions of each window's elements, ``[windows, kernel]``."""
    kernel = call.integers("kernel_size", ())[axis]
    stride = call.integers("stride", (1, 1))[axis]
    dilation = call.integers("dilations", (1, 1))[axis]
    count = (length - dilation * (kernel - 1) - 1) // stride + 1
    starts = stride * np.arange(count, dtype=np.int64)
    return starts[:, None] + dilation * np.arange(kernel, dtype=np.int64)[None, :]


def _padded(to: Writer, x: str, ends: str, value: float) -> str:
    if to.opset >= 11:
        return to.Pad(x, ends, to.number(value, x))
    raise ValueError("opsets before 11 pad by an attribute")


@body("Im2Col", CUSTOM)
def gather_windows(to: Writer) -> str:
    """Gather elements of flattened images by indices that were computed before."""
    x, indices = to.inputs
    return to.Gather(to.Flatten(x, axis=1), indices, axis=1)


@body("XnorPopcountMatMul", *QONNX_ALIASES)
def xnor_popcount(to: Writer) -> str:
    """Count equal bits: ``(MatMul(2 a - 1, 2 b - 1) + K) / 2``."""
    one, two = to.number(1), to.number(2)
    a, b = (to.Sub(to.Mul(two, x), one) for x in to.inputs)
    depth = to.Cast(to.Gather(to.Shape(to.inputs[0]), to.integer(-1)), to=1)
    return to.Mul(to.Add(to.MatMul(a, b), depth), to.number(0.5))


@body("Conv", CHANNELS_LAST)
@body("MaxPool", CHANNELS_LAST)
@body("BatchNormalization", CHANNELS_LAST)
def channels_last(to: Writer) -> str:
    """Apply the standard operator between two transpositions.

    The weights of a Conv have their channels last, too.
    """
    rank = _rank(to.call)
    first = [0, rank - 1, *range(1, rank - 1)]
    last = [0, *range(2, rank), 1]
    moved = 2 if to.call.op_type == "Conv" else 1
    inputs = [
        to.Transpose(x, perm=first) if index < moved else x
        for index, x in enumerate(to.inputs)
    ]
    add = getattr(to, to.call.op_type)
    return to.Transpose(add(*inputs, **to.call.attributes), perm=last)


def _rank(call: BodyCall) -> int:
    shapes = [call.shape(i) for i in range(2 if call.op_type == "Conv" else 1)]
    known = next((len(shape) for shape in shapes if shape is not None), None)
    if known is None and "kernel_shape" in call.attributes:
        known = len(call.integers("kernel_shape", ())) + 2
    if known is None:
        raise ValueError("the rank of the data is not known")
    return known
