"""To an older version of an operator, from opset 12 down."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.passes.convert._down import numbers_of
from onnx_passes.passes.convert._edit import Edit, Registry
from onnx_passes.passes.convert._up import REDUCTIONS

DOWN_LEGACY = Registry()
"""Adapters by the version that they leave, as in ``DOWN``."""


@DOWN_LEGACY.register(12, "Constant")
def constant_12(edit: Edit) -> None:
    """Holds tensors only."""
    for name, dtype in (("float", np.float32), ("int", np.int64), ("string", np.str_)):
        for attribute in (f"value_{name}", f"value_{name}s"):
            value = edit.take(attribute)
            if value is not None:
                edit.set(value=ir.tensor(np.array(value, dtype=dtype)))


@DOWN_LEGACY.register(12, "Dropout")
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


@DOWN_LEGACY.register(11, "Clip")
def clip_11(edit: Edit) -> None:
    """Takes bounds as attributes."""
    bounds = {"min": edit.constant_input(1, "bounds"), "max": edit.constant_input(2, "bounds")}
    if any(bound is None for bound in bounds.values()):
        raise edit.fail("a bound is left out, which means the extreme of float32 there")
    edit.set(**{name: float(b.item()) for name, b in bounds.items() if b is not None})
    edit.set_inputs(edit.input(0))


@DOWN_LEGACY.register(11, "Pad")
def pad_11(edit: Edit) -> None:
    """Takes pads and the value as attributes."""
    pads, value = edit.constant_input(1, "pads"), edit.constant_input(2, "values")
    edit.set(pads=numbers_of(pads) or [])
    if value is not None and value.size:
        edit.set(value=float(value.item()))
    edit.set_inputs(edit.input(0))


@DOWN_LEGACY.register(11, "Resize")
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


@DOWN_LEGACY.register(11, "Gemm")
def gemm_11(edit: Edit) -> None:
    """Demands its third input."""
    dtype = edit.data().dtype
    if edit.input(2) is None:
        if dtype is None:
            raise edit.fail("the type of its inputs is not known")
        zero = edit.constant("zero", [0], dtype.numpy())
        edit.set_inputs(edit.input(0), edit.input(1), zero)


@DOWN_LEGACY.register(10, "Slice")
def slice_10(edit: Edit) -> None:
    """Takes its bounds as attributes, and has no steps."""
    steps = numbers_of(edit.constant_input(4, "steps"))
    if steps is not None and any(step != 1 for step in steps):
        raise edit.fail("it has steps")
    names = ("starts", "ends", "axes")
    found = {n: numbers_of(edit.constant_input(i, n)) for i, n in enumerate(names, start=1)}
    edit.set(**{name: numbers for name, numbers in found.items() if numbers is not None})
    _axes_from_the_front(edit)
    edit.set_inputs(edit.input(0))


@DOWN_LEGACY.register(10, "TopK")
def top_k_10(edit: Edit) -> None:
    """Takes k as attribute."""
    k = numbers_of(edit.constant_input(1, "numbers"))
    edit.set(k=(k or [0])[0])
    edit.set_inputs(edit.input(0))


@DOWN_LEGACY.register(9, "Upsample")
def upsample_9(edit: Edit) -> None:
    """Takes scales as attribute."""
    scales = edit.constant_input(1, "scales")
    if scales is not None:
        edit.set(scales=[float(scale) for scale in scales])
    edit.set_inputs(edit.input(0))


@DOWN_LEGACY.register(11, "ScatterElements")
def scatter_elements_11(edit: Edit) -> None:
    """Was called Scatter."""
    edit.node.op_type = "Scatter"
    _axes_from_the_front(edit)


@DOWN_LEGACY.register(
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
