"""Recurrent layers, as far as their inputs and costs go."""

from __future__ import annotations

from typing import ClassVar

from onnx_passes.ops.base import Operator
from onnx_passes.ops.hints import Hint, between
from onnx_passes.ops.operands import Operands
from onnx_passes.ops.use import Use


class _Recurrent(Operator, abstract=True):
    """A layer that reads a sequence step by step.

    Attributes:
        gates: Sums that each step makes.
    """

    gates: ClassVar[int]
    steers = (4,)

    def admits(self, use: Use) -> Hint | None:
        length = use.dimension(0, 1 if use.integer("layout") else 0) or 1
        return between(1, length) if use.index == 4 else None

    def cost(self, operands: Operands) -> int:
        data, (directions, rows, width) = operands.sizes(0), operands.sizes(1)
        steps = data[0] * data[1]  # the sequence times the batch, in whichever order
        hidden = rows // self.gates
        sums = 2 * rows * (width + hidden) + 2 * rows
        # The gates' functions (sigmoid: 4) and what combines them.
        return directions * steps * (sums + 4 * rows + 4 * hidden * (self.gates > 1))


class RNN(_Recurrent):
    """A simple recurrent layer."""

    gates = 1


class GRU(_Recurrent):
    """A gated recurrent layer."""

    gates = 3


class LSTM(_Recurrent):
    """A long short-term memory."""

    gates = 4
