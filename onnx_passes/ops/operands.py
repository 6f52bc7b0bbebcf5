"""The operands of a node between bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops.call import Call, Tensor
from onnx_passes.ops.domains.counting import CountingSemantics, blank
from onnx_passes.ops.domains.interval_ends import Interval, pair
from onnx_passes.ops.domains.intervals import IntervalSemantics
from onnx_passes.ops.semantics import Semantics, Unsupported


@dataclass(frozen=True)
class Operands:
    """What is known of the operands of a node.

    Attributes:
        node: The node.
        range_of: Returns the interval of a value.
        array_of: Returns what a value always is, or None.
        opset: Version of the node's operator set.
    """

    node: ir.Node
    range_of: Callable[[ir.Value | None], Interval]
    array_of: Callable[[ir.Value | None], Array | None]
    opset: int = 22

    def hull(self, index: int) -> Interval:
        """Return the interval of an operand."""
        return self.range_of(self.node.inputs[index])

    def tensor(
        self, index: int, shape: Sequence[int], *, exact: bool = False
    ) -> Tensor | None:
        """Return elements that represent an operand; None if it is left out.

        Args:
            index: Which operand.
            shape: Sizes of what represents it, unless it is known element by element.
            exact: Whether a constant represents itself.
        """
        value = self.node.inputs[index] if index < len(self.node.inputs) else None
        if value is None:
            return None
        dtype = value.dtype or ir.DataType.UNDEFINED
        array = self.array_of(value) if exact else None
        if array is not None:
            data = array.astype(np.float64)
            return Tensor(pair(data, data), dtype)
        return Tensor(np.broadcast_to(pair(*self.range_of(value)), tuple(shape)), dtype)

    def sizes(self, index: int) -> list[int]:
        """Return the sizes of an operand.

        Raises:
            Unsupported: One of them is not known.
        """
        return _static(self.node.inputs[index])

    def axes(self, index: int) -> list[int] | None:
        """Return the axes that a node names in an attribute or an operand; None for all.

        Raises:
            Unsupported: They are computed.
        """
        given = self.node.attributes.get("axes")
        if given is not None:
            return list(given.as_ints())
        if index >= len(self.node.inputs) or self.node.inputs[index] is None:
            return None
        array = self.array_of(self.node.inputs[index])
        if array is None:
            raise Unsupported("axes that are computed")
        return [int(axis) for axis in array.reshape(-1)] or None

    def elements(self, index: int) -> int:
        """Return the number of elements of an operand.

        Raises:
            Unsupported: A size is not known.
        """
        return math.prod(self.sizes(index))

    def given(self, index: int) -> bool:
        """Whether an operand is there."""
        return index < len(self.node.inputs) and self.node.inputs[index] is not None

    def made(self, index: int = 0) -> int:
        """Return the number of elements of a result.

        Raises:
            Unsupported: A size is not known.
        """
        return math.prod(_static(self.node.outputs[index]))

    def counted(
        self, shapes: Sequence[Sequence[int]], evaluate: Callable[[Call], object]
    ) -> int:
        """Return the operations on operands of some shapes, by the formula.

        Args:
            shapes: Shapes of the operands.
            evaluate: The formula of the operator.
        """
        semantics = CountingSemantics()
        tensors = [
            None if v is None else Tensor(blank(shape), v.dtype or ir.DataType.FLOAT)
            for v, shape in zip(self.node.inputs, shapes, strict=False)
        ]
        evaluate(Call(self.node, tensors, semantics, self.opset))
        return semantics.count

    def call(self, *tensors: Tensor | None, semantics: Semantics | None = None) -> Call:
        """Return the node with what represents its operands, among intervals or others."""
        return Call(self.node, tensors, semantics or IntervalSemantics(), self.opset)


def _static(value: ir.Value | None) -> list[int]:
    shape = None if value is None else value.shape
    if shape is None or not all(isinstance(d, int) for d in shape):
        raise Unsupported("sizes that are not known")
    return [int(str(d)) for d in shape]
