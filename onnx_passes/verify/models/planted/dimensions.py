"""Sizes that are read out of a Shape, and computed with; all of them exact."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_passes.verify.models.known_values import KnownValue
from onnx_passes.verify.models.planted.plant import (
    ALL,
    FLOAT,
    FLOATS,
    Plant,
)


def any_type(p: Plant) -> int:
    """Return an element type."""
    return p.choose(FLOAT, FLOAT, *ALL)


def shape_parts(p: Plant) -> KnownValue:
    """Dimensions read out of a Shape in several ways."""
    x = p.x(any_type(p), (p.batch(), "S", 3, 2))
    shape = p.op("Shape", x)
    match p.choose("gather", "row", "slice", "concat", "twice"):
        case "gather":
            index = p.constant(np.asarray(p.choose(0, 1, -1)))
            return p.with_axes("Unsqueeze", p.op("Gather", shape, index), [0])
        case "row":
            return p.op("Gather", shape, p.ints(*p.other([1, 2], [2, 1])))
        case "slice":
            return p.op("Slice", shape, p.ints(1), p.ints(p.choose(3, -1)), p.ints(0))
        case "twice":
            again = p.op("Shape", p.op("Relu", x) if x.dtype in FLOATS else x)
            index = p.constant(np.asarray(0))
            sizes = p.op("Gather", shape, index), p.op("Gather", again, index)
            return p.op("Add", *sizes)
    parts = [p.op("Shape", x, start=a, end=b) for a, b in ((0, 1), (1, p.other(3, 2)))]
    return p.op("Concat", *parts, p.ints(7), axis=0)


def shape_arithmetic(p: Plant) -> KnownValue:
    """A target that is computed from dynamic sizes: what folding follows half known."""
    x = p.x(any_type(p), (p.batch(), 4, 6))
    shape = p.op("Shape", x)
    first = p.op("Gather", shape, p.ints(0))
    size = p.op("Gather", shape, p.ints(1))
    product = p.op("Mul", size, p.op("Gather", shape, p.ints(2)))
    if p.chance():
        part = p.op("Div", product, p.ints(2))
        return p.op("Reshape", x, p.op("Concat", first, part, p.ints(2), axis=0))
    target = p.op("Concat", first, p.other(product, p.ints(-1)), axis=0)
    return p.op("Reshape", x, p.cast(target, TensorProto.INT64))
