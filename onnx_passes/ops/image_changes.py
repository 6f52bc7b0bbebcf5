"""What changed between versions of operators on images, signals and places."""

from __future__ import annotations

import numpy as np

from onnx_passes.ops.changes import VersionChange, numbers_of
from onnx_passes.ops.node_edit import Edit


def _resize_up(edit: Edit) -> None:
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


def _resize_down(edit: Edit) -> None:
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


def _resize_13_down(edit: Edit) -> None:
    """Demands a region of interest and scales, empty or not."""
    roi = edit.input(1) or edit.constant("roi", [], np.float32)
    scales = edit.input(2) or edit.constant("scales", [], np.float32)
    edit.set_inputs(edit.input(0), roi, scales, edit.input(3))


def _resize_19_down(edit: Edit) -> None:
    """Has no symmetric half pixels."""
    if edit.attribute("coordinate_transformation_mode", "") == "half_pixel_symmetric":
        raise edit.fail("its coordinates are half_pixel_symmetric")


def _roi_align_up(edit: Edit) -> None:
    """Shifts coordinates by half a pixel by default."""
    edit.set(coordinate_transformation_mode="output_half_pixel")


def _roi_align_down(edit: Edit) -> None:
    """Does not shift coordinates."""
    mode = edit.take("coordinate_transformation_mode", "half_pixel")
    if mode != "output_half_pixel":
        raise edit.fail(f"its coordinates are {mode}")


def _grid_sample_up(edit: Edit) -> None:
    """Names its modes for any number of dimensions."""
    mode = edit.attribute("mode", "bilinear")
    edit.set(mode={"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode))


def _grid_sample_down(edit: Edit) -> None:
    """Names its modes for two dimensions."""
    mode = edit.attribute("mode", "linear")
    if edit.rank() != 4:
        raise edit.fail("before opset 20 it takes images only")
    edit.set(mode={"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode))


def _dft_up(edit: Edit) -> None:
    """Takes the axis as input."""
    axis = edit.constant("axis", edit.take("axis", 1))
    edit.set_inputs(edit.input(0), edit.input(1), axis)


def _dft_down(edit: Edit) -> None:
    """Takes the axis as attribute."""
    axis = numbers_of(edit.constant_input(2, "axes"))
    edit.set_inputs(edit.input(0), edit.input(1))
    edit.set(axis=-2 if axis is None else axis[0])


def _scatter_up(edit: Edit) -> None:
    """Gave way to ScatterElements."""
    edit.node.op_type = "ScatterElements"


def _scatter_down(edit: Edit) -> None:
    """Was called Scatter."""
    edit.node.op_type = "Scatter"


RESIZE = {
    11: VersionChange(_resize_up, _resize_down),
    13: VersionChange(down=_resize_13_down),
    19: VersionChange(down=_resize_19_down),
}
ROI_ALIGN = {16: VersionChange(_roi_align_up, _roi_align_down)}
GRID_SAMPLE = {20: VersionChange(_grid_sample_up, _grid_sample_down)}
DFT = {20: VersionChange(_dft_up, _dft_down)}
SCATTER = {11: VersionChange(up=_scatter_up)}
SCATTER_ELEMENTS = {11: VersionChange(down=_scatter_down)}
