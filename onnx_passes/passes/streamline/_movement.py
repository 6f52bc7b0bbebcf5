"""Operators whose results are elements of what they read."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from onnx_passes.passes.streamline._terms import floats

ARITHMETIC = ("Mul", "Add")

CHOOSING = {
    **dict.fromkeys(("MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin"), ARITHMETIC),
    "Relu": ("Mul",),
}
"""Operators that choose among elements, and what they let through."""

MOVING = frozenset(
    {
        *("DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND"),
        *("Identity", "Reshape", "Slice", "SpaceToDepth", "Squeeze", "Tile", "Transpose"),
        "Unsqueeze",
    }
)
"""Operators whose results are elements of their first operand."""


def only_moves(node: ir.Node) -> bool:
    """Whether all elements of the results are of the first operand."""
    if node.op_type == "Resize":
        mode = node.attributes.get_string("coordinate_transformation_mode", "half_pixel")
        nearest = node.attributes.get_string("mode", "nearest") == "nearest"
        return nearest and mode != "tf_crop_and_resize"
    if node.op_type == "Pad":
        return node.attributes.get_string("mode", "constant") != "constant"
    return node.op_type in MOVING


def let_through(node: ir.Node) -> Collection[str]:
    """Return what may be moved across an operator of one operand, in either direction."""
    if node.domain != "" or only_moves(node) or node.op_type in ("Concat", "Split"):
        return ARITHMETIC
    if node.op_type == "Pad":
        return ("Mul",) if padding_of(node) == 0 else ()
    return CHOOSING.get(node.op_type, ())


def padding_of(node: ir.Node) -> float | None:
    """Return the number that a Pad puts around; None if it is computed."""
    value = node.inputs[2] if len(node.inputs) > 2 else None
    if value is None:
        return 0.0
    array = floats(value)
    return float(array.reshape(-1)[0]) if array is not None and array.size == 1 else None


__all__ = ["ARITHMETIC", "CHOOSING", "MOVING", "let_through", "only_moves", "padding_of"]
