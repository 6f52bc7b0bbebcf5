"""Making primitive operators as an opset spells them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.passes.base import Op, Value

FLOATS = frozenset(
    {ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE}
)
HALVES = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
"""Types in which sums lose too much: kernels add up in single precision."""


class Primitives:
    """Adds nodes to a replacement.

    Attributes:
        op: onnxscript's builder.
        opset: The opset that the nodes are of.
        dtype: Type of the numbers that :meth:`number` makes.
    """

    def __init__(self, op: Op, opset: int, dtype: ir.DataType | None) -> None:
        """Make nodes with ``op``."""
        assert dtype is not None, "a pass lowers known types only"
        self.op = op
        self.opset = opset
        self.dtype = dtype

    def node(self, operator: str, *inputs: Value | None, **attributes: object) -> Value:
        """Add a node, and return its output."""
        made: Value = getattr(self.op, operator)(*inputs, **attributes)
        return made

    def number(self, value: float) -> Value:
        """Return a scalar of the type computed in."""
        return self.tensor(np.array(value, self.dtype.numpy()))

    def ints(self, values: Sequence[int]) -> Value:
        """Return a list of int64."""
        return self.tensor(np.array(values, np.int64))

    def tensor(self, array: Array) -> Value:
        """Return a constant.

        Args:
            array: Its numbers, of any shape and type.
        """
        return self.node("Constant", value=ir.tensor(array))

    def widened(self, dtype: ir.DataType | None = None) -> Primitives:
        """Return the same in a type in which sums are precise: single precision or more."""
        wide = ir.DataType.FLOAT if self.dtype in HALVES else self.dtype
        if ir.DataType.DOUBLE in (dtype, wide):
            wide = ir.DataType.DOUBLE
        return Primitives(self.op, self.opset, wide)

    def exact(self, *numbers: float) -> Primitives:
        """Return the same, widened if half precision would round one of the numbers."""
        half = self.dtype.numpy()
        kept = all(float(np.array(number, half)) == number for number in numbers)
        return self if self.dtype not in HALVES or kept else self.widened()

    def cast(self, value: Value, source: ir.DataType | None) -> Value:
        """Return a value of type ``source`` in the type computed in.

        Args:
            value: The value.
            source: Its element type; None if it is not known.
        """
        return value if source is self.dtype else self.node("Cast", value, to=int(self.dtype))

    def reduce(
        self, operator: str, value: Value, axes: Sequence[int], *, keepdims: int = 1
    ) -> Value:
        """Reduce over axes, which are an attribute in older opsets.

        Args:
            operator: The reduction.
            value: The value.
            axes: The axes.
            keepdims: 1 if they stay with size 1, else 0.
        """
        if self.opset < (13 if operator == "ReduceSum" else 18):
            return self.node(operator, value, axes=[*axes], keepdims=keepdims)
        return self.node(operator, value, self.ints(axes), keepdims=keepdims)

    def unsqueeze(self, value: Value, axes: Sequence[int]) -> Value:
        """Insert axes of size 1; as it is if there are none.

        Args:
            value: The value.
            axes: Axes of the result.
        """
        if not axes:
            return value
        if self.opset < 13:
            return self.node("Unsqueeze", value, axes=[*axes])
        return self.node("Unsqueeze", value, self.ints(axes))

    def pad(self, value: Value, pads: Sequence[int], number: float) -> Value:
        """Pad with a number; as it is if there is nothing to pad.

        Args:
            value: The value.
            pads: Amounts before each axis, then behind each.
            number: The number that it is padded with.
        """
        if not any(pads):
            return value
        if self.opset < 11:
            return self.node("Pad", value, pads=[*pads], value=number)
        return self.node("Pad", value, self.ints(pads), self.number(number))

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """Give another shape: 0 keeps a dimension, -1 is what is left.

        Args:
            value: The value.
            shape: The new shape.
        """
        return self.node("Reshape", value, self.ints(shape))

    def sigmoid(self, x: Value) -> Value:
        """``1 / (1 + exp(-x))``: where exp overflows, the quotient is 0, as it should be."""
        grown = self.node("Add", self.node("Exp", self.node("Neg", x)), self.number(1.0))
        return self.node("Div", self.number(1.0), grown)

    def softplus(self, x: Value) -> Value:
        """``log(1 + exp(x))`` without overflow, as ``max(x, 0) + log(1 + exp(-|x|))``.

        The sum of 1 and a small number keeps few of its digits. What was lost of it is put
        back: ``log(1 + e)`` is ``log(s) * e / (s - 1)`` for the rounded sum ``s``, and ``e``
            if that is 1. (Kahan; Higham, Accuracy and Stability of Numerical Algorithms,
            1.14.)
        """
        decayed = self.node("Exp", self.node("Neg", self.node("Abs", x)))
        one = self.number(1.0)
        total = self.node("Add", decayed, one)
        kept = self.node("Sub", total, one)
        scaled = self.node("Mul", self.node("Log", total), self.node("Div", decayed, kept))
        lost = self.node("Equal", kept, self.number(0.0))
        rest = self.node("Where", lost, decayed, scaled)
        return self.node("Add", self.node("Max", x, self.number(0.0)), rest)

    def normalized(
        self, x: Value, axes: Sequence[int], epsilon: float, *, centred: bool = True
    ) -> Value:
        """``(x - mean) / sqrt(variance + epsilon)`` over axes; without the mean if asked.

        Args:
            x: The value.
            axes: The axes.
            epsilon: What is added to the variance.
            centred: Whether the mean is subtracted.
        """
        if centred:
            x = self.node("Sub", x, self.reduce("ReduceMean", x, axes))
        variance = self.reduce("ReduceMean", self.node("Mul", x, x), axes)
        shifted = self.node("Add", variance, self.number(epsilon))
        return self.node("Div", x, self.node("Sqrt", shifted))
