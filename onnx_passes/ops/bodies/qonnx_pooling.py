"""QONNX's pooling operators."""

from __future__ import annotations

from onnx_passes.ops.bodies.attach import body
from onnx_passes.ops.bodies.domains import QONNX_ALIASES
from onnx_passes.ops.bodies.rounding_modes import round_by
from onnx_passes.ops.bodies.writer import BodyCall, Writer

_TO_FIRST, _TO_LAST = [0, 3, 1, 2], [0, 2, 3, 1]


@body("MaxPoolNHWC", *QONNX_ALIASES)
def max_pool_nhwc(to: Writer) -> str:
    """MaxPool of an image ``[N, H, W, C]``."""
    (x,) = to.inputs
    x = to.MaxPool(to.Transpose(x, perm=_TO_FIRST), **to.call.attributes)
    return to.Transpose(x, perm=_TO_LAST)


@body("QuantAvgPool2d", *QONNX_ALIASES)
def quant_avg_pool(to: Writer) -> str:
    """Sum the integers of each window and drop the lowest bits of the sum."""
    (x,) = to.inputs
    call = to.call
    last = call.text("data_layout", "NCHW") == "NHWC"
    kernel, stride = call.integer("kernel", 1), call.integer("stride", 1)
    x = to.Transpose(x, perm=_TO_FIRST) if last else x
    mean = to.AveragePool(x, kernel_shape=[kernel, kernel], strides=[stride, stride])
    total = to.Mul(mean, to.number(float(kernel * kernel), x))
    # The quotient by a power of two is exact, and its floor is a shift to the right.
    step = to.number(2.0 ** dropped_bits(call), x)
    result = to.Floor(to.Div(round_by("ROUND", to, total), step))
    return to.Transpose(result, perm=_TO_LAST) if last else result


def dropped_bits(call: BodyCall) -> int:
    """Return how many of the lowest bits of the sum QuantAvgPool2d drops."""
    kernel = call.integer("kernel", 1)
    largest: int = (2 ** call.integer("ibits", 1) - 1) * kernel * kernel
    return max(largest.bit_length() - call.integer("obits", 1), 0)
