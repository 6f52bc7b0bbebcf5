"""Reading and writing the bounds of a Clip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.passes._support.matches import float_info
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.base import Op


@dataclass(frozen=True)
class Bounds:
    """What a Clip does, ``min(max(x, low), high)``, with its numbers in their own type.

    Attributes:
        low: The lower bound; the lowest finite number of the type for none.
        high: The upper one, which also holds where the lower one is above it.
        dtype: The type.
    """

    low: Any
    high: Any
    dtype: ir.DataType

    @classmethod
    def all_of(cls, dtype: ir.DataType) -> Bounds:
        """Return the bounds of a Clip without bounds: infinities become finite."""
        info = _range(dtype)
        kind = dtype.numpy().type
        return cls(kind(info.min), kind(info.max), dtype)

    def clip(self, number: object) -> Any:
        """Return what a number becomes; on a tie it stays, which matters for -0."""
        raised = self.low if number < self.low else number
        return self.high if raised > self.high else raised

    def then(self, after: Bounds) -> Bounds:
        """Return the bounds of both Clip in a row.

        Each keeps order, and is constant outside of its bounds: so is the chain, and its
        bounds are what the second makes of the first's.
        """
        return Bounds(
            after.clip(self.clip(self.low)), after.clip(self.clip(self.high)), self.dtype
        )

    def build(self, op: Op, x: ir.Value, *, attributes: bool) -> ir.Value:
        """Return the Clip of ``x``; bounds that are those of the type are left out.

        Args:
            op: Builds nodes.
            x: The tensor.
            attributes: Whether the bounds are attributes, as before opset 11, not inputs.
        """
        whole = Bounds.all_of(self.dtype)
        bounds = [
            None if number == limit else number
            for number, limit in ((self.low, whole.low), (self.high, whole.high))
        ]
        made: ir.Value
        if attributes:
            named = zip(("min", "max"), bounds, strict=True)
            made = op.Clip(x, **{name: float(b) for name, b in named if b is not None})
            return made
        while bounds and bounds[-1] is None:
            bounds.pop()
        arrays = [None if b is None else np.array(b, self.dtype.numpy()) for b in bounds]
        inputs = [None if a is None else op.Constant(value=ir.tensor(a)) for a in arrays]
        made = op.Clip(x, *inputs)
        return made


def bounds_of(node: ir.Node, dtype: ir.DataType | None) -> Bounds | None:
    """Return the bounds of a Clip or Relu on a tensor of type ``dtype``.

    None if they are computed, may be overridden, or are not numbers, or if the type is not
    known.

    Args:
        node: The Clip or Relu.
        dtype: Element type of the tensor; None if it is not known.
    """
    tensors = [constant_of(value) for value in node.inputs[1:3]]
    if any(v is not None for v in node.inputs[1:]):
        present = [t for t in tensors if t is not None]
        if len(present) != sum(v is not None for v in node.inputs[1:3]):
            return None
        dtype = present[0].dtype
    if dtype is None or not (dtype.is_floating_point() or dtype.is_integer()):
        return None
    if dtype.bitwidth < 8 or "FLOAT8" in dtype.name:
        return None
    whole, kind = Bounds.all_of(dtype), dtype.numpy().type
    if node.op_type == "Relu":
        # A Relu leaves infinity as it is.
        high = kind(np.inf) if dtype.is_floating_point() else whole.high
        return Bounds(kind(0), high, dtype)
    numbers: list[Any] = [whole.low, whole.high]
    for index, tensor in enumerate(tensors):
        if tensor is not None:
            if tensor.size != 1:
                return None
            numbers[index] = tensor.numpy().reshape(-1)[0]
    for index, name in enumerate(("min", "max")):
        given = node.attributes.get_float(name)
        if given is not None:
            with np.errstate(over="ignore"):
                numbers[index] = kind(given)
    if any(number != number for number in numbers):
        return None
    return Bounds(numbers[0], numbers[1], dtype)


def gives_attributes(*nodes: ir.Node) -> bool | None:
    """Whether Clip has attributes for bounds here (before opset 11); None if unknown."""
    if any(name in node.attributes for node in nodes for name in ("min", "max")):
        return True
    return False if any(len(node.inputs) > 1 for node in nodes) else None


def _range(dtype: ir.DataType) -> Any:
    if dtype.is_floating_point():
        return float_info(dtype)
    return np.iinfo(dtype.numpy())
