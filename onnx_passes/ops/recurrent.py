"""Recurrent layers, as far as their inputs and costs go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import onnx_ir as ir

from onnx_passes.ops.input_hints import ValueHint, between
from onnx_passes.ops.operands import Operands
from onnx_passes.ops.operator_class import Operator
from onnx_passes.ops.suggestions import Choices, Known, Operand, Shape, first
from onnx_passes.ops.use import Use


class _Recurrent(Operator, abstract=True):
    """A layer that reads a sequence step by step.

    Attributes:
        gates: Sums that each step makes.
    """

    gates: ClassVar[int]
    steers = (4,)
    wants = ("hidden_size",)

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        x = first(known, (4, 2, 3))
        batch, width = x[-2:] if len(x) == 3 else (2, 3)
        ways = 2 if c.fixed.get("direction") == "bidirectional" else 1
        weights = known[1] if len(known) > 1 else None
        hidden = weights[1] // self.gates if weights and len(weights) == 3 else 2
        if index == 4:
            return Operand((batch,), ir.DataType.INT32, constant=True, positive=True)
        rows = self.gates * hidden
        shapes: dict[int, Shape] = {
            0: (4, batch, width),
            1: (ways, rows, width),
            2: (ways, rows, hidden),
            3: (ways, 2 * rows),
            7: (ways, 3 * hidden),
        }
        return c.data(shapes.get(index, (ways, batch, hidden)))

    def options(self, name: str, known: Known) -> Sequence[object]:
        recurrence = known[2] if len(known) > 2 else None
        found: dict[str, Sequence[object]] = {
            "hidden_size": recurrence[-1:] if recurrence else (2,),
            "direction": ("forward", "reverse"),
            "layout": (0,),
            "activations": (None,),
            "clip": (None, 2.0),
        }
        return found.get(name, ())

    def admits(self, use: Use) -> ValueHint | None:
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
