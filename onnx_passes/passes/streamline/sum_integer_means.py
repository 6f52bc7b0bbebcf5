"""Replace the mean of integers by their sum."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.ops.bodies.operator_bodies import QONNX
from onnx_passes.passes.base import Transformation
from onnx_passes.passes.streamline._integer_ranges import (
    IntegerRange,
    integer_ranges,
    square_window,
    sums_of_windows,
)
from onnx_passes.passes.streamline._moves import Mover

_MEANS = ("AveragePool", "ReduceMean")


@passes.verify.equality
@passes.register()
class SumIntegerMeans(Transformation):
    """Replace the mean of integers by their sum.

    Before: ``AveragePool(x)`` or ``ReduceMean(x)`` over square windows, where ``x`` holds
            integers
    After:  ``Div(QuantAvgPool2d(x), k * k)``, with bits that hold the sum of a window, so
            that no bit of it is dropped

    So sums of integers reach the thresholds behind a mean, which take in the divisor. A mean
    whose result is truncated to fewer bits becomes one operator beforehand, with
    ``convert-to-quant-avg-pool``.

    Whether a value holds integers, and which, follows from the thresholds before it, the
    integers of weights and the operators between.

    Sound because float32 holds the sum of a window, and the mean is that sum divided by the
    number of elements. The sum is the integer next to the product of mean and number, up to
    2 ** 22.

    Leaves alone: GlobalAveragePool, which hardware compilers know; windows and strides that
    are not square, pads and dilations; sums that may be greater; other types than float32.
    """

    needs = ("shape-inference",)
    tested_on = ("mean",)
    tested_after = (
        *("raise-opset", "extract-weight-scales", "infer-thresholds", "sink-scales"),
        "sink-past-movement",
    )

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Replace the means of the main graph."""
        ranges, mover, changed = integer_ranges(model.graph), Mover(model), False
        for node in list(model.graph):
            data = node.inputs[0] if node.inputs else None
            if node.domain == "" and node.op_type in _MEANS and data is not None:
                changed |= _replace(node, ranges.get(data), model, mover)
        return ir.passes.PassResult(model, modified=changed)


def _replace(node: ir.Node, data: IntegerRange | None, model: ir.Model, mover: Mover) -> bool:
    window, x = square_window(node), node.inputs[0]
    if data is None or window is None or x is None or x.dtype != ir.DataType.FLOAT:
        return False
    kernel, stride = window
    sums = sums_of_windows(data, kernel)
    if sums is None:
        return False
    signed = int(data.low < 0)
    bits = _bits(data, signed)
    whole = ((2**bits - 1) * kernel * kernel).bit_length()
    attributes = {
        "kernel": kernel,
        "stride": stride,
        "ibits": bits,
        "obits": max(whole, _bits(sums, signed), 2),
        "signed": signed,
        "data_layout": "NCHW",
    }
    out, names = node.outputs[0], mover.names
    count = mover.constant(model.graph, ir.tensor(np.array(kernel * kernel, np.float32)))
    total = ir.node("QuantAvgPool2d", [x], attributes, domain=QONNX)
    mean = ir.node("Div", [total.outputs[0], count])
    for made in (total, mean):
        made.name = names.node(made.op_type)
        made.outputs[0].name = names.value(f"{made.op_type}_out")
        made.outputs[0].type, made.outputs[0].shape = out.type, out.shape
    model.opset_imports.setdefault(QONNX, 1)
    mover.swap(node, total, mean)
    return True


def _bits(data: IntegerRange, signed: int) -> int:
    """Return the bits of the smallest integer type, signed or not, that holds a range."""
    low, high = int(data.low), int(data.high)
    return max(high.bit_length(), (-low - 1).bit_length() if signed else 0, 1) + signed
