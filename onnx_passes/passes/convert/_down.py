"""To an older version of an operator, down to opset 12."""

from __future__ import annotations

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.passes.convert._edit import Edit, Registry
from onnx_passes.passes.convert._up import REDUCTIONS

DOWN = Registry()
"""Adapters by the version that they leave: the one at 13 goes from 13 to 12."""


def numbers_of(array: Array | None) -> list[int] | None:
    return None if array is None else [int(number) for number in array.reshape(-1)]


def _to_attribute(edit: Edit, attribute: str, index: int) -> None:
    """Make a list attribute of an input, if the node has it."""
    numbers = numbers_of(edit.constant_input(index, attribute))
    edit.set_inputs(*(edit.input(i) for i in range(index)))
    if numbers is not None:
        edit.set(**{attribute: numbers})


@DOWN.register(20, "GridSample")
def grid_sample_20(edit: Edit) -> None:
    """Names its modes for two dimensions."""
    mode = edit.attribute("mode", "linear")
    if edit.rank() != 4:
        raise edit.fail("before opset 20 it takes images only")
    edit.set(mode={"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode))


@DOWN.register(20, "DFT")
def dft_20(edit: Edit) -> None:
    """Takes the axis as attribute."""
    axis = numbers_of(edit.constant_input(2, "axes"))
    edit.set_inputs(edit.input(0), edit.input(1))
    edit.set(axis=-2 if axis is None else axis[0])


@DOWN.register(19, "Pad")
def pad_19(edit: Edit) -> None:
    """Has no mode wrap."""
    if edit.attribute("mode", "constant") == "wrap":
        raise edit.fail("its mode is wrap")


@DOWN.register(19, "Resize")
def resize_19(edit: Edit) -> None:
    """Has no symmetric half pixels."""
    if edit.attribute("coordinate_transformation_mode", "") == "half_pixel_symmetric":
        raise edit.fail("its coordinates are half_pixel_symmetric")


@DOWN.register(18, "Pad")
def pad_18(edit: Edit) -> None:
    """Pads all axes."""
    axes, rank = numbers_of(edit.constant_input(3, "axes")), edit.rank()
    if axes is None:
        return
    pads = numbers_of(edit.constant_input(1, "pads"))
    if rank is None or pads is None:
        raise edit.fail("the rank of its input is not known")
    wide = [0] * (2 * rank)
    for index, axis in enumerate(axes):
        wide[axis % rank] = pads[index]
        wide[axis % rank + rank] = pads[index + len(axes)]
    edit.set_inputs(edit.input(0), edit.constant("pads", wide), edit.input(2))


@DOWN.register(18, "Split")
def split_18(edit: Edit) -> None:
    """Cuts into equal parts if it does not say how big they are."""
    count, shape = edit.take("num_outputs"), edit.data().shape
    if count is None:
        return
    size = shape[edit.attribute("axis", 0)] if shape is not None else None
    if not isinstance(size, int):
        raise edit.fail("it is not known whether its parts are equal")
    part = -(-size // count)
    if size % count:
        sizes = [max(0, min(part, size - i * part)) for i in range(count)]
        edit.set_inputs(edit.input(0), edit.constant("split", sizes))


def _reduction_axes(edit: Edit) -> None:
    keep_all = edit.take("noop_with_empty_axes", 0)
    _to_attribute(edit, "axes", 1)
    if edit.attribute("axes") == ():
        edit.take("axes")
    if keep_all and edit.attribute("axes") is None:
        raise edit.fail("it reduces no axis, which means all of them there")


@DOWN.register(18, *REDUCTIONS)
def reduction_18(edit: Edit) -> None:
    """Take axes as attribute."""
    _reduction_axes(edit)


@DOWN.register(16, "RoiAlign")
def roi_align_16(edit: Edit) -> None:
    """Does not shift coordinates."""
    mode = edit.take("coordinate_transformation_mode", "half_pixel")
    if mode != "output_half_pixel":
        raise edit.fail(f"its coordinates are {mode}")


@DOWN.register(15, "Shape")
def shape_15(edit: Edit) -> None:
    """Gives the whole shape."""
    start, end = edit.take("start", 0), edit.take("end")
    if start == 0 and end is None:
        return
    last = np.iinfo(np.int64).max if end is None else end
    whole = edit.add("Shape", [edit.data()], "whole")
    bounds = (edit.constant("start", [start]), edit.constant("end", [last]))
    edit.become("Slice", whole, *bounds, edit.constant("axis", [0]))


@DOWN.register(14, "Reshape")
def reshape_14(edit: Edit) -> None:
    """Copies a dimension where the target has a 0."""
    if edit.take("allowzero", 0):
        target = edit.constant_input(1, "targets with allowzero")
        if target is None or (target == 0).any():
            raise edit.fail("its target has a 0 that means 0")


@DOWN.register(13, "ReduceSum")
def reduce_sum_13(edit: Edit) -> None:
    """Takes axes as attribute."""
    _reduction_axes(edit)


@DOWN.register(13, "Squeeze", "Unsqueeze")
def axes_13(edit: Edit) -> None:
    """Take axes as attribute."""
    _to_attribute(edit, "axes", 1)


@DOWN.register(13, "Split")
def split_13(edit: Edit) -> None:
    """Takes sizes as attribute."""
    _to_attribute(edit, "split", 1)


@DOWN.register(13, "Hardmax", "LogSoftmax", "Softmax")
def softmax_13(edit: Edit) -> None:
    """Act along all axes from one on, as if they were one."""
    rank, axis = edit.rank(), edit.take("axis", -1)
    if rank is None:
        raise edit.fail("the rank of its input is not known")
    axis %= max(rank, 1)
    if axis == rank - 1:
        edit.set(axis=axis)
        return
    # Its own axis goes last, and back again.
    order = [*range(axis), rank - 1, *range(axis + 1, rank - 1), axis]
    turned = edit.add("Transpose", [edit.data()], "turned", perm=order)
    result = edit.add(edit.node.op_type, [turned], "result", axis=rank - 1)
    edit.become("Transpose", result, perm=order)


@DOWN.register(13, "Resize")
def resize_13(edit: Edit) -> None:
    """Demands a region of interest and scales, empty or not."""
    roi = edit.input(1) or edit.constant("roi", [], np.float32)
    scales = edit.input(2) or edit.constant("scales", [], np.float32)
    edit.set_inputs(edit.input(0), roi, scales, edit.input(3))


@DOWN.register(13, "DequantizeLinear", "QuantizeLinear")
def quantize_13(edit: Edit) -> None:
    """Have one scale for the whole tensor."""
    edit.take("axis")
    scale = edit.input(1)
    if scale is None or scale.shape is None or len(scale.shape) > 0:
        raise edit.fail("it is not known to have one scale for the whole tensor")
