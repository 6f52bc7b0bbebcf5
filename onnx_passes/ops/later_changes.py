"""What changed between versions of operators on tensors, from opset 8 on."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.changes import VersionChange, numbers_of
from onnx_passes.ops.early_changes import IS_TEST, SPATIAL
from onnx_passes.ops.node_edit import Edit


def _clip_up(edit: Edit) -> None:
    """Takes its bounds as inputs; those left out before were the extremes of float32."""
    dtype = edit.data().dtype
    if dtype is None:
        raise edit.fail("the type of its bounds is not known")
    limits = np.finfo(np.float32)
    bounds = {"min": edit.take("min", limits.min), "max": edit.take("max", limits.max)}
    values = [edit.constant(name, bound, dtype.numpy()) for name, bound in bounds.items()]
    edit.set_inputs(edit.input(0), *values)


def _clip_down(edit: Edit) -> None:
    """Takes bounds as attributes."""
    bounds = {"min": edit.constant_input(1, "bounds"), "max": edit.constant_input(2, "bounds")}
    extremes = edit.data().dtype is ir.DataType.FLOAT
    if not extremes and any(bound is None for bound in bounds.values()):
        raise edit.fail("a bound is left out, which means the extreme of float32 there")


def _split_2_up(edit: Edit) -> None:
    """Takes sizes as attribute only."""
    sizes = edit.constant_input(1, "sizes")
    edit.set_inputs(edit.input(0))
    if sizes is not None:
        edit.set(split=[int(size) for size in sizes])
    edit.set(axis=edit.attribute("axis", 0))


def _split_up(edit: Edit) -> None:
    """Says how many parts there are if it does not say how big they are."""
    if edit.input(1) is None:
        edit.set(num_outputs=len(edit.node.outputs))


def _split_down(edit: Edit) -> None:
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


def _pad_2_up(edit: Edit) -> None:
    """Calls its padding pads."""
    edit.set(pads=edit.take("paddings"))


def _pad_up(edit: Edit) -> None:
    """Takes pads and the value as inputs."""
    pads, fill = edit.take("pads"), edit.take("value", 0.0)
    dtype = edit.data().dtype
    value = None
    if edit.attribute("mode", "constant") == "constant" and fill != 0.0:
        if dtype is None:
            raise edit.fail("the type of its value is not known")
        value = edit.constant("value", fill, dtype.numpy())
    edit.set_inputs(edit.input(0), edit.constant("pads", pads), value)


def _pad_down(edit: Edit) -> None:
    """Takes pads and the value as attributes."""
    pads, value = edit.constant_input(1, "pads"), edit.constant_input(2, "values")
    edit.set(pads=numbers_of(pads) or [])
    if value is not None and value.size:
        edit.set(value=float(value.item()))
    edit.set_inputs(edit.input(0))


def _pad_18_down(edit: Edit) -> None:
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


def _pad_19_down(edit: Edit) -> None:
    """Has no mode wrap."""
    if edit.attribute("mode", "constant") == "wrap":
        raise edit.fail("its mode is wrap")


def _slice_down(edit: Edit) -> None:
    """Takes its bounds as attributes, and has no steps."""
    steps = numbers_of(edit.constant_input(4, "steps"))
    if steps is not None and any(step != 1 for step in steps):
        raise edit.fail("it has steps")


def _dropout_up(edit: Edit) -> None:
    """Takes the ratio as input."""
    if edit.output_used(1):
        raise edit.fail("its mask is read, which opset 12 defines differently")


def _dropout_down(edit: Edit) -> None:
    """Takes the ratio as attribute, and is for inference."""
    if edit.output_used(1):
        raise edit.fail("its mask is read, which opset 12 defines differently")
    training = edit.constant_input(2, "modes")
    if training is not None and training.any():
        raise edit.fail("it is in training")
    edit.take("seed")


def _softmax_up(edit: Edit) -> None:
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


def _softmax_down(edit: Edit) -> None:
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


def _batch_normalization_up(edit: Edit) -> None:
    """Says with an attribute whether it is in training, before with outputs."""
    if any(edit.output_used(index) for index in range(1, 5)):
        raise edit.fail("it is in training, which opset 14 defines differently")
    edit.node.resize_outputs(1)


def _group_normalization_up(edit: Edit) -> None:
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


def _quantize_down(edit: Edit) -> None:
    """Have one scale for the whole tensor."""
    edit.take("axis")
    scale = edit.input(1)
    if scale is None or scale.shape is None or len(scale.shape) > 0:
        raise edit.fail("it is not known to have one scale for the whole tensor")


def _reduction_down(edit: Edit) -> None:
    """Means all axes where it has none."""
    keep_all, axes = edit.take("noop_with_empty_axes", 0), edit.constant_input(1, "axes")
    if axes is not None and axes.size:
        return
    if keep_all:
        raise edit.fail("it reduces no axis, which means all of them there")
    edit.set_inputs(edit.input(0))


CLIP = {11: VersionChange(_clip_up, _clip_down)}
SPLIT = {2: VersionChange(up=_split_2_up), 18: VersionChange(_split_up, _split_down)}
PAD = {
    2: VersionChange(up=_pad_2_up),
    11: VersionChange(_pad_up, _pad_down),
    18: VersionChange(down=_pad_18_down),
    19: VersionChange(down=_pad_19_down),
}
SLICE = {10: VersionChange(down=_slice_down)}
DROPOUT = {7: IS_TEST, 12: VersionChange(_dropout_up, _dropout_down)}
SOFTMAX = {13: VersionChange(_softmax_up, _softmax_down)}
BATCH_NORMALIZATION = {7: IS_TEST, 9: SPATIAL, 14: VersionChange(up=_batch_normalization_up)}
GROUP_NORMALIZATION = {21: VersionChange(up=_group_normalization_up)}
QUANTIZE = {13: VersionChange(down=_quantize_down)}
REDUCTION = {18: VersionChange(down=_reduction_down)}
REDUCE_SUM = {13: VersionChange(down=_reduction_down)}
