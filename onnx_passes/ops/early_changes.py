"""What changed between versions of operators that computes nothing else: small things."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.changes import VersionChange
from onnx_passes.ops.node_edit import Edit


def _exponent_up(edit: Edit) -> None:
    """Takes an integer as exponent."""
    exponent = edit.take("p", 2.0)
    if exponent != int(exponent):
        raise edit.fail(f"its exponent {exponent} is not an integer")
    edit.set(p=int(exponent))


def _concat_up(edit: Edit) -> None:
    """Demands an axis."""
    edit.set(axis=edit.attribute("axis", 1))


def _selu_up(edit: Edit) -> None:
    """Has defaults with more digits."""
    edit.set(alpha=edit.attribute("alpha", 1.6732), gamma=edit.attribute("gamma", 1.0507))


def _cast_up(edit: Edit) -> None:
    """The type is given as a number."""
    name = edit.take("to")
    edit.set(to=int(ir.DataType[name]))


def _tile_up(edit: Edit) -> None:
    """Takes a repeat for each axis."""
    tiles, axis = edit.constant_input(1, "tiles"), edit.constant_input(2, "axis")
    rank = edit.rank()
    if tiles is None or axis is None or rank is None:
        raise edit.fail("the rank of its input is not known")
    repeats = [1] * rank
    repeats[int(axis.item())] = int(tiles.item())
    edit.set_inputs(edit.input(0), edit.constant("repeats", repeats))


def _prelu_up(edit: Edit) -> None:
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


def _is_test_up(edit: Edit) -> None:
    """Lost the attribute that separated training from inference."""
    if edit.take("is_test", 0) != 1:
        raise edit.fail("is_test=0 means training, which opset 7 defines differently")


def _upsample_7_up(edit: Edit) -> None:
    """Takes a scale for each axis."""
    height, width = edit.take("height_scale"), edit.take("width_scale")
    edit.set(scales=[1.0, 1.0, height, width])


def _spatial_up(edit: Edit) -> None:
    """Lost the mode with a mean for each activation."""
    if edit.take("spatial", 1) != 1:
        raise edit.fail("spatial=0 has no equivalent from opset 9 on")


def _scan_up(edit: Edit) -> None:
    """Lost its batch axis and the lengths of sequences."""
    raise edit.fail("Scan of opset 8 runs over a batch, which it does not from opset 9 on")


def _upsample_10_up(edit: Edit) -> None:
    """Gave way to Resize."""
    edit.node.op_type = "Resize"
    edit.enlarges = True


def _shape_down(edit: Edit) -> None:
    """Gives the whole shape."""
    start, end = edit.take("start", 0), edit.take("end")
    if start == 0 and end is None:
        return
    last = np.iinfo(np.int64).max if end is None else end
    whole = edit.add("Shape", [edit.data()], "whole")
    bounds = (edit.constant("start", [start]), edit.constant("end", [last]))
    edit.become("Slice", whole, *bounds, edit.constant("axis", [0]))


def _reshape_down(edit: Edit) -> None:
    """Copies a dimension where the target has a 0."""
    if edit.take("allowzero", 0):
        target = edit.constant_input(1, "targets with allowzero")
        if target is None or (target == 0).any():
            raise edit.fail("its target has a 0 that means 0")


def _constant_down(edit: Edit) -> None:
    """Holds tensors only."""
    for name, dtype in (("float", np.float32), ("int", np.int64), ("string", np.str_)):
        for attribute in (f"value_{name}", f"value_{name}s"):
            value = edit.take(attribute)
            if value is not None:
                edit.set(value=ir.tensor(np.array(value, dtype=dtype)))


def _gemm_down(edit: Edit) -> None:
    """Demands its third input."""
    dtype = edit.data().dtype
    if edit.input(2) is None:
        if dtype is None:
            raise edit.fail("the type of its inputs is not known")
        zero = edit.constant("zero", [0], dtype.numpy())
        edit.set_inputs(edit.input(0), edit.input(1), zero)


EXPONENT = {2: VersionChange(up=_exponent_up)}
CONCAT = {4: VersionChange(up=_concat_up)}
SELU = {6: VersionChange(up=_selu_up)}
CAST = {6: VersionChange(up=_cast_up)}
TILE = {6: VersionChange(up=_tile_up)}
PRELU = {7: VersionChange(up=_prelu_up)}
GEMM = {11: VersionChange(down=_gemm_down)}
UPSAMPLE = {7: VersionChange(up=_upsample_7_up), 10: VersionChange(up=_upsample_10_up)}
SCAN = {9: VersionChange(up=_scan_up)}
CONSTANT = {12: VersionChange(down=_constant_down)}
RESHAPE = {14: VersionChange(down=_reshape_down)}
SHAPE = {15: VersionChange(down=_shape_down)}
IS_TEST = VersionChange(up=_is_test_up)
"""That of 7, of what differs in training."""
SPATIAL = VersionChange(up=_spatial_up)
"""That of 9, of a mean for each activation."""
