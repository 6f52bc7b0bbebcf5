"""Replace the mean of integers by their sum."""

from math import prod

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.ops.bodies.operator_bodies import QONNX
from onnx_passes.passes.streamline._integer_ranges import (
    MEANS,
    IntegerRange,
    feeds_product,
    integer_ranges,
    plain_window,
    reduced_axes,
    reduced_elements,
    size_of,
    square_window,
    sums_of_elements,
)
from onnx_passes.passes.streamline._moves import Mover


@passes.verify.equality
@passes.register()
class SumIntegerMeans(passes.Transformation):
    """Replace the mean of integers by their sum.

    Before: ``AveragePool(x)``, ``GlobalAveragePool(x)`` or ``ReduceMean(x, axes)``, where
            ``x`` holds integers
    After:  ``Div(QuantAvgPool2d(x), k * k)`` for square windows of images, with bits that
            hold the sum of a window. Otherwise ``Div(ReduceSum(x, axes), n)``, or
            ``Div(Conv(x, ones), n)`` with a group for each channel.

    So sums of integers reach the products and thresholds behind a mean: the divisor moves
    behind products, and thresholds take it in. A mean whose result is truncated to fewer bits
    becomes one operator beforehand, with ``convert-to-quant-avg-pool``.

    Whether a value holds integers, and which, follows from the thresholds before it, the
    integers of weights and the operators between.

    Sound because float32 holds the sum of a window, and the mean is that sum divided by the
    number of elements. The sum is the integer next to the product of mean and number, up to
    2 ** 22.

    Leaves alone: GlobalAveragePool that no product reads, which hardware compilers know;
    windows with padding or ``ceil_mode``; sizes that are not known; sums that may be greater;
    other types than float32.
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
            if node.domain == "" and node.op_type in MEANS and data is not None:
                changed |= _replace(node, ranges.get(data), model, mover)
        return ir.passes.PassResult(model, modified=changed)


def _replace(node: ir.Node, data: IntegerRange | None, model: ir.Model, mover: Mover) -> bool:
    x, out = node.inputs[0], node.outputs[0]
    if data is None or x is None or x.dtype != ir.DataType.FLOAT:
        return False
    if node.op_type == "GlobalAveragePool" and not feeds_product(out):
        return False
    found = _sum(node, x, data, model, mover)
    if found is None:
        return False
    total, count = found
    divisor = mover.constant(model.graph, ir.tensor(np.array(count, np.float32)))
    mean = ir.node("Div", [total.outputs[0], divisor])
    for made in (total, mean):
        made.name = mover.names.node(made.op_type)
        made.outputs[0].name = mover.names.value(f"{made.op_type}_out")
        made.outputs[0].type, made.outputs[0].shape = out.type, out.shape
    mover.swap(node, total, mean)
    return True


def _sum(
    node: ir.Node, x: ir.Value, data: IntegerRange, model: ir.Model, mover: Mover
) -> tuple[ir.Node, int] | None:
    """Return what makes the sum of a mean, and how many elements are in it."""
    square, window = square_window(node), plain_window(node)
    if square is not None:
        count = square[0] ** 2
    elif node.op_type == "AveragePool":
        count = prod(window.get("kernel_shape", [0])) if window is not None else 0
    else:
        count = reduced_elements(node) or 0
    sums = sums_of_elements(data, count) if count else None
    if sums is None:
        return None
    if square is not None:
        model.opset_imports.setdefault(QONNX, 1)
        return ir.node(
            "QuantAvgPool2d", [x], _pooling(*square, data, sums), domain=QONNX
        ), count
    if window is not None:
        channels = size_of(x, 1)
        if not channels:
            return None
        ones = np.ones([channels, 1, *window["kernel_shape"]], np.float32)
        weights = mover.constant(model.graph, ir.tensor(ones))
        return ir.node("Conv", [x, weights], {**window, "group": channels}), count
    given = mover.constant(model.graph, ir.tensor(np.array(reduced_axes(node), np.int64)))
    kept = {"keepdims": node.attributes.get_int("keepdims", 1)}
    return ir.node("ReduceSum", [x, given], kept), count


def _pooling(
    kernel: int, stride: int, data: IntegerRange, sums: IntegerRange
) -> dict[str, int | str]:
    signed = int(data.low < 0)
    bits = _bits(data, signed)
    whole = ((2**bits - 1) * kernel * kernel).bit_length()
    return {
        "kernel": kernel,
        "stride": stride,
        "ibits": bits,
        "obits": max(whole, _bits(sums, signed), 2),
        "signed": signed,
        "data_layout": "NCHW",
    }


def _bits(data: IntegerRange, signed: int) -> int:
    """Return the bits of the smallest integer type, signed or not, that holds a range."""
    low, high = int(data.low), int(data.high)
    return max(high.bit_length(), (-low - 1).bit_length() if signed else 0, 1) + signed
