"""To an older version of an operator."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.passes.convert._edit import Array, Edit, Registry
from onnx_passes.passes.convert._up import REDUCTIONS

DOWN = Registry()
"""Adapters by the version that they leave: the one at 13 goes from 13 to 12."""


def _numbers(array: Array | None) -> list[int] | None:
    return None if array is None else [int(number) for number in array.reshape(-1)]


def _to_attribute(edit: Edit, attribute: str, index: int) -> None:
    """Make a list attribute of an input, if the node has it."""
    numbers = _numbers(edit.constant_input(index, attribute))
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
    axis = _numbers(edit.constant_input(2, "axes"))
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
    axes, rank = _numbers(edit.constant_input(3, "axes")), edit.rank()
    if axes is None:
        return
    pads = _numbers(edit.constant_input(1, "pads"))
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


@DOWN.register(12, "Constant")
def constant_12(edit: Edit) -> None:
    """Holds tensors only."""
    for name, dtype in (("float", np.float32), ("int", np.int64), ("string", np.str_)):
        for attribute in (f"value_{name}", f"value_{name}s"):
            value = edit.take(attribute)
            if value is not None:
                edit.set(value=ir.tensor(np.array(value, dtype=dtype)))


@DOWN.register(12, "Dropout")
def dropout_12(edit: Edit) -> None:
    """Takes the ratio as attribute, and is for inference."""
    if edit.output_used(1):
        raise edit.fail("its mask is read, which opset 12 defines differently")
    training = edit.constant_input(2, "modes")
    if training is not None and training.any():
        raise edit.fail("it is in training")
    ratio = edit.constant_input(1, "ratios")
    edit.take("seed")
    edit.set_inputs(edit.input(0))
    if ratio is not None:
        edit.set(ratio=float(ratio.item()))


@DOWN.register(11, "Clip")
def clip_11(edit: Edit) -> None:
    """Takes bounds as attributes."""
    bounds = {"min": edit.constant_input(1, "bounds"), "max": edit.constant_input(2, "bounds")}
    if any(bound is None for bound in bounds.values()):
        raise edit.fail("a bound is left out, which means the extreme of float32 there")
    edit.set(**{name: float(b.item()) for name, b in bounds.items() if b is not None})
    edit.set_inputs(edit.input(0))


@DOWN.register(11, "Pad")
def pad_11(edit: Edit) -> None:
    """Takes pads and the value as attributes."""
    pads, value = edit.constant_input(1, "pads"), edit.constant_input(2, "values")
    edit.set(pads=_numbers(pads) or [])
    if value is not None and value.size:
        edit.set(value=float(value.item()))
    edit.set_inputs(edit.input(0))


@DOWN.register(11, "Resize")
def resize_11(edit: Edit) -> None:
    """Has one rule for coordinates and one for nearest pixels."""
    rule = edit.take("coordinate_transformation_mode", "half_pixel")
    nearest = edit.take("nearest_mode", "round_prefer_floor")
    scales = edit.constant_input(2, "scales")
    if rule != "asymmetric" or scales is None or scales.size == 0 or edit.input(3) is not None:
        raise edit.fail("it is not asymmetric, or does not give scales")
    enlarges, reduces = (scales >= 1).all(), (scales <= 1).all()
    agrees = (nearest == "floor" and enlarges) or (nearest == "ceil" and reduces)
    mode = edit.attribute("mode", "nearest")
    if mode == "cubic" or (mode == "nearest" and not agrees):
        raise edit.fail(f"its mode is {mode} with {nearest}")
    edit.set_inputs(edit.input(0), edit.input(2))


@DOWN.register(11, "Gemm")
def gemm_11(edit: Edit) -> None:
    """Demands its third input."""
    dtype = edit.data().dtype
    if edit.input(2) is None:
        if dtype is None:
            raise edit.fail("the type of its inputs is not known")
        zero = edit.constant("zero", [0], dtype.numpy())
        edit.set_inputs(edit.input(0), edit.input(1), zero)


@DOWN.register(10, "Slice")
def slice_10(edit: Edit) -> None:
    """Takes its bounds as attributes, and has no steps."""
    steps = _numbers(edit.constant_input(4, "steps"))
    if steps is not None and any(step != 1 for step in steps):
        raise edit.fail("it has steps")
    names = ("starts", "ends", "axes")
    found = {n: _numbers(edit.constant_input(i, n)) for i, n in enumerate(names, start=1)}
    edit.set(**{name: numbers for name, numbers in found.items() if numbers is not None})
    _axes_from_the_front(edit)
    edit.set_inputs(edit.input(0))


@DOWN.register(10, "TopK")
def top_k_10(edit: Edit) -> None:
    """Takes k as attribute."""
    k = _numbers(edit.constant_input(1, "numbers"))
    edit.set(k=(k or [0])[0])
    edit.set_inputs(edit.input(0))


@DOWN.register(9, "Upsample")
def upsample_9(edit: Edit) -> None:
    """Takes scales as attribute."""
    scales = edit.constant_input(1, "scales")
    if scales is not None:
        edit.set(scales=[float(scale) for scale in scales])
    edit.set_inputs(edit.input(0))


@DOWN.register(11, "ScatterElements")
def scatter_elements_11(edit: Edit) -> None:
    """Was called Scatter."""
    edit.node.op_type = "Scatter"
    _axes_from_the_front(edit)


@DOWN.register(
    11,
    *("ArgMax", "ArgMin", "Compress", "Concat", "Flatten", "Gather", "Hardmax", "LogSoftmax"),
    *("OneHot", "ReduceSum", "Softmax", "Split", "Squeeze", "TopK", "Unsqueeze"),
    *REDUCTIONS,
)
def axes_11(edit: Edit) -> None:
    """Count axes from the front."""
    _axes_from_the_front(edit)


def _axes_from_the_front(edit: Edit) -> None:
    single, several = edit.attribute("axis"), edit.attribute("axes", ())
    axes = [*several, *([] if single is None else [single])]
    if all(axis >= 0 for axis in axes):
        return
    rank = edit.rank()
    if rank is None:
        raise edit.fail("the rank of its input is not known")
    if edit.node.op_type == "Unsqueeze":
        rank += len(axes)
    if edit.node.op_type == "OneHot":
        rank += 1
    if single is not None:
        edit.set(axis=single % rank)
    if several:
        edit.set(axes=[axis % rank for axis in several])
