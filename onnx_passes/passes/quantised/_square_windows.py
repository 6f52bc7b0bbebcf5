"""Means and truncated sums of square windows."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.bodies.attach import BodyCall
from onnx_passes.ops.bodies.operator_bodies import dropped_bits
from onnx_passes.passes._support.shapes import ints_of
from onnx_passes.passes.streamline._products import IntegerRange, size_of

MEANS = ("AveragePool", "GlobalAveragePool", "ReduceMean")
"""Operators that make means of windows, or of whole images."""

_EXACT = 2.0**22
"""Up to here a sum is the integer next to its mean times the number of elements."""


def plain_call(node: ir.Node) -> BodyCall | None:
    """Read a node's attributes; None if one of them is a parameter of a function."""
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return None
    attributes = {a.name: a.value for a in node.attributes.values()}
    return BodyCall(node.domain, node.op_type, 1, attributes, 0)


def square_window(mean: ir.Node) -> tuple[int, int] | None:
    """Return the sides of the window and of the step of a mean over images ``[N, C, H, W]``.

    Args:
        mean: One of ``MEANS``.

    Returns:
        Both sides; None if they are not square or not known, or if there is padding.
    """
    x = mean.inputs[0]
    if x is None or x.shape is None or len(x.shape) != 4:
        return None
    if mean.op_type != "AveragePool":
        side = size_of(x, -1)
        whole = mean.op_type == "GlobalAveragePool" or _is_over_images(mean)
        return (side, side) if whole and side and side == size_of(x, -2) else None
    attributes = mean.attributes
    kernel = attributes.get_ints("kernel_shape") or ()
    strides = attributes.get_ints("strides") or (1,) * len(kernel)
    plain = (
        not any(attributes.get_ints("pads") or ())
        and attributes.get_string("auto_pad", "NOTSET") in ("NOTSET", "VALID")
        and not attributes.get_int("ceil_mode", 0)
        and all(size == 1 for size in attributes.get_ints("dilations") or ())
    )
    square = len(kernel) == len(strides) == 2 and len({*kernel}) == len({*strides}) == 1
    return (kernel[0], strides[0]) if plain and square else None


def _is_over_images(mean: ir.Node) -> bool:
    """Whether a ReduceMean is over rows and columns, and keeps their axes."""
    axes = mean.attributes.get_ints("axes")
    given = axes if len(mean.inputs) == 1 else ints_of(mean.inputs[1])
    kept = mean.attributes.get_int("keepdims", 1)
    return given is not None and bool(kept) and sorted(axis % 4 for axis in given) == [2, 3]


def range_of_sums(node: ir.Node, data: IntegerRange | None) -> IntegerRange | None:
    """Bound what QuantAvgPool2d makes: sums of windows without their lowest bits.

    Args:
        node: The pooling.
        data: Bounds of what it reads; None if they are not known.
    """
    call = plain_call(node)
    if data is None or call is None:
        return None
    sums = sums_of_windows(data, call.integer("kernel", 1))
    if sums is None:
        return None
    step = 2.0 ** dropped_bits(call)
    return IntegerRange(float(np.floor(sums.low / step)), float(np.floor(sums.high / step)))


def sums_of_windows(data: IntegerRange, kernel: int) -> IntegerRange | None:
    """Bound sums of square windows; None if float32 may not find them from the mean.

    Args:
        data: Bounds of what is summed up.
        kernel: Side of the window.
    """
    low, high = data.low * kernel * kernel, data.high * kernel * kernel
    return IntegerRange(low, high) if max(abs(low), abs(high)) <= _EXACT else None


__all__ = ["MEANS", "plain_call", "range_of_sums", "square_window", "sums_of_windows"]
