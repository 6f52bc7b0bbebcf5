"""To a newer version of an operator, from opset 7 on."""

from __future__ import annotations

import numpy as np

from onnx_passes.passes.convert._edit import Edit, Registry

UP = Registry()

REDUCTIONS = (
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSumSquare",
)


def _to_input(edit: Edit, attribute: str, index: int) -> None:
    """Make an input of a list attribute, if the node has it."""
    numbers = edit.take(attribute)
    if numbers is not None:
        inputs = [edit.input(i) for i in range(index)]
        edit.set_inputs(*inputs, edit.constant(attribute, numbers))


@UP.register(9, "BatchNormalization")
def batch_normalization_9(edit: Edit) -> None:
    """Lost the mode with a mean for each activation."""
    if edit.take("spatial", 1) != 1:
        raise edit.fail("spatial=0 has no equivalent from opset 9 on")


@UP.register(9, "Upsample")
def upsample_9(edit: Edit) -> None:
    """Takes scales as input."""
    scales = edit.take("scales")
    edit.set_inputs(edit.input(0), edit.constant("scales", scales, np.float32))


@UP.register(9, "Scan")
def scan_9(edit: Edit) -> None:
    """Lost its batch axis and the lengths of sequences."""
    raise edit.fail("Scan of opset 8 runs over a batch, which it does not from opset 9 on")


@UP.register(10, "Slice")
def slice_10(edit: Edit) -> None:
    """Takes starts, ends and axes as inputs."""
    inputs = [edit.input(0)]
    for name in ("starts", "ends", "axes"):
        numbers = edit.take(name)
        inputs.append(None if numbers is None else edit.constant(name, numbers))
    edit.set_inputs(*inputs)


@UP.register(10, "TopK")
def top_k_10(edit: Edit) -> None:
    """Takes k as input."""
    edit.set_inputs(edit.input(0), edit.constant("k", [edit.take("k")]))


@UP.register(10, "Upsample")
def upsample_10(edit: Edit) -> None:
    """Gave way to Resize."""
    edit.node.op_type = "Resize"
    edit.enlarges = True


@UP.register(11, "Clip")
def clip_11(edit: Edit) -> None:
    """Takes its bounds as inputs; those left out before were the extremes of float32."""
    dtype = edit.data().dtype
    if dtype is None:
        raise edit.fail("the type of its bounds is not known")
    limits = np.finfo(np.float32)
    bounds = {"min": edit.take("min", limits.min), "max": edit.take("max", limits.max)}
    values = [edit.constant(name, bound, dtype.numpy()) for name, bound in bounds.items()]
    edit.set_inputs(edit.input(0), *values)


@UP.register(11, "Pad")
def pad_11(edit: Edit) -> None:
    """Takes pads and the value as inputs."""
    pads, fill = edit.take("pads"), edit.take("value", 0.0)
    dtype = edit.data().dtype
    value = None
    if edit.attribute("mode", "constant") == "constant" and fill != 0.0:
        if dtype is None:
            raise edit.fail("the type of its value is not known")
        value = edit.constant("value", fill, dtype.numpy())
    edit.set_inputs(edit.input(0), edit.constant("pads", pads), value)


@UP.register(11, "Resize")
def resize_11(edit: Edit) -> None:
    """Names the rule by which coordinates and nearest pixels are found."""
    mode = edit.attribute("mode", "nearest")
    if mode == "nearest":
        edit.set(nearest_mode=_nearest_mode(edit))
    edit.set(coordinate_transformation_mode="asymmetric")
    roi = edit.constant("roi", [], np.float32)
    edit.set_inputs(edit.input(0), roi, edit.input(1))


def _nearest_mode(edit: Edit) -> str:
    # Resize-10 rounds down where it enlarges and up where it reduces.
    if edit.enlarges:
        return "floor"
    scales = edit.input(1)
    tensor = edit.constant_of(scales) if scales is not None else None
    if tensor is not None:
        factors = tensor.numpy()
        if (factors >= 1).all():
            return "floor"
        if (factors <= 1).all():
            return "ceil"
    raise edit.fail("its scales are not known to enlarge or to reduce along all axes")


@UP.register(11, "Scatter")
def scatter_11(edit: Edit) -> None:
    """Gave way to ScatterElements."""
    edit.node.op_type = "ScatterElements"


@UP.register(12, "Dropout")
def dropout_12(edit: Edit) -> None:
    """Takes the ratio as input."""
    if edit.output_used(1):
        raise edit.fail("its mask is read, which opset 12 defines differently")
    ratio, dtype = edit.take("ratio"), edit.data().dtype
    if ratio is not None:
        if dtype is None:
            raise edit.fail("the type of its ratio is not known")
        edit.set_inputs(edit.input(0), edit.constant("ratio", ratio, dtype.numpy()))


@UP.register(13, "ReduceSum", "Squeeze", "Unsqueeze")
def axes_13(edit: Edit) -> None:
    """Take axes as input."""
    _to_input(edit, "axes", 1)


@UP.register(13, "Split")
def split_13(edit: Edit) -> None:
    """Takes the sizes as input."""
    _to_input(edit, "split", 1)


@UP.register(13, "Hardmax", "LogSoftmax", "Softmax")
def softmax_13(edit: Edit) -> None:
    """Act along one axis, and before along all from it on as if they were one."""
    axis, data = edit.take("axis", 1), edit.data()
    if data.shape is not None:
        axis += len(data.shape) if axis < 0 else 0
        if axis < len(data.shape) and all(dim == 1 for dim in data.shape[axis + 1 :]):
            edit.set(axis=axis)
            return
    flat = edit.add("Flatten", [data], "flat", axis=axis)
    result = edit.add(edit.node.op_type, [flat], "result", axis=-1)
    edit.become("Reshape", result, edit.add("Shape", [data], "shape"))


@UP.register(14, "BatchNormalization")
def batch_normalization_14(edit: Edit) -> None:
    """Says with an attribute whether it is in training, before with outputs."""
    if any(edit.output_used(index) for index in range(1, 5)):
        raise edit.fail("it is in training, which opset 14 defines differently")
    edit.node.resize_outputs(1)


@UP.register(16, "RoiAlign")
def roi_align_16(edit: Edit) -> None:
    """Shifts coordinates by half a pixel by default."""
    edit.set(coordinate_transformation_mode="output_half_pixel")


@UP.register(18, *REDUCTIONS)
def axes_18(edit: Edit) -> None:
    """Take axes as input."""
    _to_input(edit, "axes", 1)


@UP.register(18, "Split")
def split_18(edit: Edit) -> None:
    """Says how many parts there are if it does not say how big they are."""
    if edit.input(1) is None:
        edit.set(num_outputs=len(edit.node.outputs))


@UP.register(20, "DFT")
def dft_20(edit: Edit) -> None:
    """Takes the axis as input."""
    axis = edit.constant("axis", edit.take("axis", 1))
    edit.set_inputs(edit.input(0), edit.input(1), axis)


@UP.register(20, "GridSample")
def grid_sample_20(edit: Edit) -> None:
    """Names its modes for any number of dimensions."""
    mode = edit.attribute("mode", "bilinear")
    edit.set(mode={"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode))


@UP.register(21, "GroupNormalization")
def group_normalization_21(edit: Edit) -> None:
    """Scales each channel, and before each group."""
    shape, groups = edit.data().shape, edit.attribute("num_groups")
    channels = shape[1] if shape is not None and len(shape) > 1 else None
    if not isinstance(channels, int):
        raise edit.fail("its number of channels is not known")
    if channels == groups:
        return
    inputs = [edit.input(0)]
    for what, value in (("scale", edit.input(1)), ("bias", edit.input(2))):
        column = edit.add(
            "Reshape", [value, edit.constant("column", [-1, 1])], f"{what}_column"
        )
        times = edit.constant("times", [1, channels // groups])
        wide = edit.add("Expand", [column, times], f"{what}_wide")
        inputs.append(edit.add("Reshape", [wide, edit.constant("flat", [-1])], what))
    edit.set_inputs(*inputs)
