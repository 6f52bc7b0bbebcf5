"""To a newer version of an operator, up to opset 7."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.convert._edit import Edit, Registry

LEGACY = Registry()

BROADCASTING = (
    "Add",
    "And",
    "Div",
    "Equal",
    "Greater",
    "Less",
    "Mul",
    "Or",
    "Pow",
    "Sub",
    "Xor",
)


@LEGACY.register(2, "Pad")
def pad_2(edit: Edit) -> None:
    """Calls its padding pads."""
    edit.set(pads=edit.take("paddings"))


@LEGACY.register(2, "GlobalLpPool", "LpPool")
def lp_pool_2(edit: Edit) -> None:
    """Takes an integer as exponent."""
    exponent = edit.take("p", 2.0)
    if exponent != int(exponent):
        raise edit.fail(f"its exponent {exponent} is no integer")
    edit.set(p=int(exponent))


@LEGACY.register(2, "Split")
def split_2(edit: Edit) -> None:
    """Takes sizes as attribute only."""
    sizes = edit.constant_input(1, "sizes")
    edit.set_inputs(edit.input(0))
    if sizes is not None:
        edit.set(split=[int(size) for size in sizes])
    edit.set(axis=edit.attribute("axis", 0))


@LEGACY.register(4, "Concat")
def concat_4(edit: Edit) -> None:
    """Demands an axis."""
    edit.set(axis=edit.attribute("axis", 1))


@LEGACY.register(5, "Reshape")
def reshape_5(edit: Edit) -> None:
    """Takes the shape as input."""
    shape = edit.constant("shape", edit.take("shape"))
    edit.take("consumed_inputs")
    edit.set_inputs(edit.input(0), shape)


@LEGACY.register(
    6,
    *("Abs", "Add", "BatchNormalization", "Ceil", "Clip", "Div", "Dropout", "Elu", "Exp"),
    *("Floor", "HardSigmoid", "InstanceNormalization", "LeakyRelu", "Log", "Max", "Mean"),
    *("Min", "Mul", "Neg", "PRelu", "Reciprocal", "Relu", "Sigmoid", "Sqrt", "Sub", "Sum"),
    "Tanh",
)
def consumed_inputs_6(edit: Edit) -> None:
    """Lost an attribute that said which memory may be used again."""
    edit.take("consumed_inputs")


@LEGACY.register(6, "Selu")
def selu_6(edit: Edit) -> None:
    """Has defaults with more digits."""
    edit.take("consumed_inputs")
    edit.set(alpha=edit.attribute("alpha", 1.6732), gamma=edit.attribute("gamma", 1.0507))


@LEGACY.register(6, "Cast")
def cast_6(edit: Edit) -> None:
    """The type is given as a number."""
    name = edit.take("to")
    edit.set(to=int(ir.DataType[name]))


@LEGACY.register(6, "Tile")
def tile_6(edit: Edit) -> None:
    """Takes a repeat for each axis."""
    tiles, axis = edit.constant_input(1, "tiles"), edit.constant_input(2, "axis")
    rank = edit.rank()
    if tiles is None or axis is None or rank is None:
        raise edit.fail("the rank of its input is not known")
    repeats = [1] * rank
    repeats[int(axis.item())] = int(tiles.item())
    edit.set_inputs(edit.input(0), edit.constant("repeats", repeats))


@LEGACY.register(7, *BROADCASTING)
def broadcasting_7(edit: Edit) -> None:
    """Broadcast as numpy does, and before along a given axis."""
    axis, on = edit.take("axis"), edit.take("broadcast", 0)
    second = edit.input(1)
    if not on or axis is None or second is None:
        return
    rank, other = edit.rank(), edit.rank(second)
    if rank is None or other is None:
        raise edit.fail("the ranks of its inputs are not known")
    missing = rank - (axis + rank if axis < 0 else axis) - other
    if missing > 0:
        axes = list(range(other, other + missing))
        edit.set_inputs(edit.input(0), edit.add("Unsqueeze", [second], "wide", axes=axes))


@LEGACY.register(7, "PRelu")
def prelu_7(edit: Edit) -> None:
    """Broadcasts its slope as numpy does, and before along the channels."""
    slope = edit.input(1)
    if slope is None:
        return
    rank, shape = edit.rank(), slope.shape
    if rank is None or shape is None:
        raise edit.fail("the ranks of its inputs are not known")
    if len(shape) == 1 and shape[0] != 1 and rank > 2:
        axes = list(range(1, rank - 1))
        edit.set_inputs(edit.input(0), edit.add("Unsqueeze", [slope], "slope", axes=axes))


@LEGACY.register(7, "Gemm")
def gemm_7(edit: Edit) -> None:
    """Always broadcasts its third input."""
    edit.take("broadcast")


@LEGACY.register(7, "BatchNormalization", "Dropout")
def is_test_7(edit: Edit) -> None:
    """Lost the attribute that separated training from inference."""
    if edit.take("is_test", 0) != 1:
        raise edit.fail("is_test=0 means training, which opset 7 defines differently")


@LEGACY.register(7, "GRU", "LSTM", "RNN")
def output_sequence_7(edit: Edit) -> None:
    """Give the whole sequence if somebody asks for it."""
    edit.take("output_sequence")


@LEGACY.register(7, "Upsample")
def upsample_7(edit: Edit) -> None:
    """Takes a scale for each axis."""
    height, width = edit.take("height_scale"), edit.take("width_scale")
    edit.set(scales=[1.0, 1.0, height, width])
