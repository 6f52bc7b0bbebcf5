"""One direction of a recurrent layer: its weights, and how it combines elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from onnx_passes.ops.call import Call
from onnx_passes.ops.primitives import TypedPrimitives
from onnx_passes.ops.semantics import Elements

Activation: TypeAlias = Callable[[Elements], Elements]


@dataclass(frozen=True)
class Cell:
    """The weights of one direction of a layer, and what combines elements.

    Attributes:
        call: The node.
        a: Primitives of the element type.
        weights: Of the input, [gates, hidden, input].
        recurrence: Of the state, [gates, hidden, hidden].
        biases: Of both, [2, gates, hidden]; None for zeros.
        peepholes: Of the memory, [3, hidden]; None for zeros.
        activations: The functions of this direction.
    """

    call: Call
    a: TypedPrimitives
    weights: Elements
    recurrence: Elements
    biases: Elements | None
    peepholes: Elements | None
    activations: Sequence[Activation]

    def across(self, name: str, *parts: Elements | float) -> Elements:
        """Apply a primitive to elements that broadcast."""
        function = getattr(self.a, name)
        arrays = [np.asarray(p) if isinstance(p, float) else p for p in parts]
        plain = [isinstance(p, float) for p in parts]
        wide = [
            self.call.semantics.constant(x.astype(self.a.dtype.numpy()), self.a.dtype)
            if number
            else x
            for x, number in zip(arrays, plain, strict=True)
        ]
        return self.call.semantics.map(function, *wide)

    def product(self, rows: Elements, weights: Elements, bias: Elements | None) -> Elements:
        """Return products of rows and weights.

        Args:
            rows: Elements [batch, n].
            weights: Elements [hidden, n].
            bias: What is added, [hidden]; None for nothing.

        Returns:
            Elements [batch, hidden].
        """
        found = self.call.semantics.along(self.a.dot, rows[:, None, :], weights[None])
        return found if bias is None else self.across("add", found, bias)

    def read(self, x: Elements, gate: int) -> Elements:
        """Return what a gate makes of the input.

        Args:
            x: Elements [batch, n].
            gate: Number of the gate.
        """
        bias = None if self.biases is None else self.biases[0, gate]
        return self.product(x, self.weights[gate], bias)

    def recall(self, h: Elements, gate: int) -> Elements:
        """Return what a gate makes of the state.

        Args:
            h: Elements [batch, hidden].
            gate: Number of the gate.
        """
        bias = None if self.biases is None else self.biases[1, gate]
        return self.product(h, self.recurrence[gate], bias)

    def gate(self, x: Elements, h: Elements, gate: int) -> Elements:
        """Return what a gate makes of both.

        Args:
            x: Elements [batch, n].
            h: Elements [batch, hidden].
            gate: Number of the gate.
        """
        return self.across("add", self.read(x, gate), self.recall(h, gate))

    def peep(self, sums: Elements, memory: Elements, place: int) -> Elements:
        """Return the sums of a gate with what it sees of the memory.

        Args:
            sums: Elements [batch, hidden].
            memory: Elements [batch, hidden].
            place: Number of the weights.
        """
        if self.peepholes is None:
            return sums
        seen = self.across("mul", memory, self.peepholes[place])
        return self.across("add", sums, seen)
