"""What operators demand of sizes, in numbers, where shape inference does not check it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.input_hints import StaticShape, constant_of

ShapeOf = Callable[[ir.Value | None], StaticShape | None]
"""Returns the shape of a value in one sample; None if it is not known."""


@dataclass(frozen=True)
class Misfit:
    """A demand that sizes do not meet.

    Attributes:
        text: The demand in numbers.
        factor: What a size may be multiplied by to meet it.
    """

    text: str
    factor: float


def misfit(node: ir.Node, shape_of: ShapeOf) -> Misfit | None:
    """Return a demand of a node that is not met; None if none is known.

    Args:
        node: The node.
        shape_of: Returns the shapes of its inputs and outputs.
    """
    find = _DEMANDS.get(node.op_type)
    found = () if find is None or node.domain else find(node, shape_of)
    return next((Misfit(t, want / size if size else 1.0) for t, size, want in found), None)


_Found = Iterator[tuple[str, int, int]]
"""Demands that are not met: the text, the size, and the next one that meets it."""


def _window(node: ir.Node, shape_of: ShapeOf) -> _Found:
    before, filters = shape_of(node.inputs[0]), _input_shape(node, 1, shape_of)
    spatial = before[2:] if before else ()
    if node.op_type == "ConvTranspose" or not spatial:
        if (before and not all(before)) or any(d <= 0 for d in _sizes(node, shape_of)):
            yield f"{node.op_type} of {_shown(before)} has no element", 1, 1
        return
    window = node.attributes.get_ints("kernel_shape") or (filters or ())[2:]
    steps = node.attributes.get_ints("dilations") or [1] * len(spatial)
    pads = node.attributes.get_ints("pads") or [0] * 2 * len(spatial)
    padded_up = node.attributes.get_string("auto_pad", "NOTSET") not in ("NOTSET", "VALID")
    padded_up |= bool(node.attributes.get_int("ceil_mode", 0))
    for axis, (size, extent, step) in enumerate(zip(spatial, window, steps, strict=False)):
        reach = (extent - 1) * step + 1
        padded = size + pads[axis] + pads[axis + len(spatial)]
        if padded < reach and not padded_up:
            text = f"a window of {reach} over {padded} elements of axis {axis + 2}"
            yield text, padded, reach
    if not all(before or ()) or any(d <= 0 for d in _sizes(node, shape_of)):
        yield f"{node.op_type} of {_shown(before)} has no element", 1, 1


def _reshape(node: ir.Node, shape_of: ShapeOf) -> _Found:
    before, after = shape_of(node.inputs[0]), shape_of(node.outputs[0])
    # Before opset 5 the target is an attribute, which inference has read.
    wanted = constant_of(node.inputs[1]) if len(node.inputs) > 1 else None
    if not before:
        return
    elements = math.prod(before)
    if after is not None and math.prod(after) == elements:
        return
    if wanted is not None:
        target = [
            before[axis] if size == 0 and axis < len(before) else int(size)
            for axis, size in enumerate(wanted)
        ]
        known = math.prod(size for size in target if size >= 0)
        text = f"{_shown(before)}, {elements} elements, as {wanted.tolist()}"
        if -1 in target and (known <= 0 or elements % known):
            yield text, elements, max(1, -(-elements // max(1, known))) * known
        elif -1 not in target and elements != known:
            yield text, elements, known
    elif after is not None:
        yield f"{_shown(before)} as {_shown(after)}", elements, math.prod(after)


def _reflection(node: ir.Node, shape_of: ShapeOf) -> _Found:
    before = shape_of(node.inputs[0])
    if node.attributes.get_string("mode", "constant") != "reflect" or not before:
        return
    known = constant_of(node.inputs[1]) if len(node.inputs) > 1 else None
    pads = (
        node.attributes.get_ints("pads") or ()
        if known is None
        else [int(pad) for pad in known.ravel()]
    )
    axes = constant_of(node.inputs[3]) if len(node.inputs) > 3 else None
    places = range(len(before)) if axes is None else [int(axis) for axis in axes]
    for index, axis in enumerate(places):
        most = max(pads[index :: max(1, len(pads) // 2)], default=0)
        if before[axis] <= most:
            yield f"reflects {most} of {before[axis]} elements", before[axis], most + 1


def _inner(node: ir.Node, shape_of: ShapeOf) -> _Found:
    one, other = shape_of(node.inputs[0]), shape_of(node.inputs[1])
    if not one or not other:
        return
    turned = {name for name in ("transA", "transB") if node.attributes.get_int(name, 0)}
    size = one[0 if "transA" in turned else -1]
    wanted = other[-1 if "transB" in turned or len(other) == 1 else -2]
    if size != wanted:
        # Weights stay as they are, on either side.
        fixed = constant_of(node.inputs[0]) is not None
        text = f"multiplies {_shown(one)} by {_shown(other)}"
        yield text, *((wanted, size) if fixed else (size, wanted))


def _gathered(node: ir.Node, shape_of: ShapeOf) -> _Found:
    before, indices = shape_of(node.inputs[0]), constant_of(node.inputs[1])
    if not before or indices is None or not indices.size or indices.dtype.kind != "i":
        return
    size = before[node.attributes.get_int("axis", 0)]
    least = max(int(np.max(indices)) + 1, -int(np.min(indices)))
    if size < least:
        yield f"takes element {least - 1} of {size}", size, least


def _divided(node: ir.Node, shape_of: ShapeOf) -> _Found:
    before = shape_of(node.inputs[0])
    if not before:
        return
    if node.op_type == "SpaceToDepth":
        unit, sizes = node.attributes.get_int("blocksize", 1), before[2:]
    else:
        # By `num_outputs` the last part may be smaller.
        uneven = len(node.inputs) > 1 or not {"split", "num_outputs"}.isdisjoint(
            node.attributes
        )
        unit = 1 if uneven else len(node.outputs)
        sizes = (before[node.attributes.get_int("axis", 0)],)
    for size in sizes:
        if unit and size % unit:
            yield f"divides {size} elements by {unit}", size, -(-size // unit) * unit


def _input_shape(node: ir.Node, index: int, shape_of: ShapeOf) -> StaticShape | None:
    return shape_of(node.inputs[index]) if index < len(node.inputs) else None


def _sizes(node: ir.Node, shape_of: ShapeOf) -> Iterator[int]:
    for value in node.outputs:
        yield from shape_of(value) or ()


def _shown(shape: Sequence[int] | None) -> str:
    return str(list(shape or ()))


_DEMANDS: dict[str, Callable[[ir.Node, ShapeOf], _Found]] = {
    **dict.fromkeys(("Conv", "MaxPool", "AveragePool", "LpPool", "ConvTranspose"), _window),
    "Reshape": _reshape,
    "Pad": _reflection,
    **dict.fromkeys(("Gemm", "MatMul"), _inner),
    "Gather": _gathered,
    **dict.fromkeys(("SpaceToDepth", "Split"), _divided),
}

DEMANDING = frozenset(_DEMANDS)
"""The operators that demand something of sizes."""
