"""Recurrent layers, and the cell that runs in one direction."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
import onnx_ir as ir

from onnx_passes.ops import input_hints as hints
from onnx_passes.ops.call import Call, Operands, Tensor
from onnx_passes.ops.elementwise import Elementwise
from onnx_passes.ops.operator_class import Composition, Result, find
from onnx_passes.ops.semantics import Elements, Misfit, TypedPrimitives, Unsupported

Activation: TypeAlias = Callable[[Elements], Elements]


@dataclass(frozen=True)
class Cell:
    """The weights of one direction of a layer, and what combines elements.

    ``weights`` are [gates, hidden, input], ``recurrence`` [gates, hidden, hidden], and
    ``biases`` of both [2, gates, hidden]. ``peepholes`` of the memory are [3, hidden]. None
    means zeros.
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
        """Return products [batch, hidden] of rows [batch, n] and weights [hidden, n]."""
        found = self.call.semantics.along(self.a.dot, rows[:, None, :], weights[None])
        return found if bias is None else self.across("add", found, bias)

    def read(self, x: Elements, gate: int) -> Elements:
        """Return what a gate makes of the input [batch, n]."""
        bias = None if self.biases is None else self.biases[0, gate]
        return self.product(x, self.weights[gate], bias)

    def recall(self, h: Elements, gate: int) -> Elements:
        """Return what a gate makes of the state [batch, hidden]."""
        bias = None if self.biases is None else self.biases[1, gate]
        return self.product(h, self.recurrence[gate], bias)

    def gate(self, x: Elements, h: Elements, gate: int) -> Elements:
        """Return what a gate makes of both."""
        return self.across("add", self.read(x, gate), self.recall(h, gate))

    def peep(self, sums: Elements, memory: Elements, place: int) -> Elements:
        """Return the sums [batch, hidden] of a gate with what it sees of the memory."""
        if self.peepholes is None:
            return sums
        seen = self.across("mul", memory, self.peepholes[place])
        return self.across("add", sums, seen)


class _Recurrent(Composition, abstract=True):
    """A layer that reads a sequence step by step.

    ``gates`` is the number of sums of a step. ``defaults`` name its functions. ``remembers``
    says that it keeps a memory beside its state.
    """

    gates: ClassVar[int]
    defaults: ClassVar[tuple[str, ...]]
    remembers: ClassVar[bool] = False
    steers = (4,)
    wants = ("hidden_size",)

    def step(self, cell: Cell, x: Elements, states: list[Elements]) -> list[Elements]:
        """Return the state, and the memory, after one step for an input [batch, n]."""
        raise NotImplementedError

    def computed(self, call: Call) -> Result:
        x, w, r = (call.required(i) for i in range(3))
        turned = call.flag("layout")
        data = x.data.swapaxes(0, 1) if turned else x.data
        (steps, batch), (ways, rows) = data.shape[:2], w.shape[:2]
        hidden = rows // self.gates
        if r.shape != (ways, rows, hidden) or data.ndim != 3 or w.shape[2] != data.shape[2]:
            raise Misfit(f"{self.op_type} of {x.shape} by {w.shape} and {r.shape}")
        direction = call.text("direction", "forward")
        backwards = {"forward": [False], "reverse": [True]}.get(direction, [False, True])
        if len(backwards) != ways:
            raise Misfit(f"weights of {ways} directions")
        lengths = np.array(call.static_ints(4) if call.given(4) else [steps] * batch)
        zeros = call.semantics.constant(np.zeros((batch, hidden), x.dtype.numpy()), x.dtype)
        made, last = [], []
        for way, back in enumerate(backwards):
            cell = self._cell(call, way, hidden)
            states = [zeros, zeros] if self.remembers else [zeros]
            for k in range(len(states)):
                initial = call.given(5 + k)
                if initial is not None:
                    states[k] = (
                        initial.data.swapaxes(0, 1)[way] if turned else initial.data[way]
                    )
            found = np.stack([zeros] * steps) if steps else np.stack([zeros])[:0]
            for step in range(steps):
                alive = np.flatnonzero(step < lengths)
                at = lengths[alive] - 1 - step if back else np.full(len(alive), step)
                new = self.step(cell, data[at, alive], [s[alive] for s in states])
                states = [s.copy() for s in states]
                for state, value in zip(states, new, strict=True):
                    state[alive] = value
                found[at, alive] = new[0]
            made.append(found)
            last.append(states)
        results = [np.stack(made, 1), *(np.stack(kept) for kept in zip(*last, strict=True))]
        if turned:
            results = [np.moveaxis(results[0], 2, 0), *(e.swapaxes(0, 1) for e in results[1:])]
        return tuple(Tensor(each, x.dtype) for each in results)

    def _cell(self, call: Call, way: int, hidden: int) -> Cell:
        bias, peepholes = call.given(3), call.given(7)
        shape, dtype = (self.gates, hidden, -1), call.required(0).dtype
        names = call.attribute("activations", None) or self.defaults * 2
        if call.integers("activation_alpha") or call.integers("activation_beta"):
            raise Unsupported(f"{self.op_type} with functions of parameters")
        clip = call.number("clip", 0.0)
        names = names[way * len(self.defaults) :][: len(self.defaults)]
        return Cell(
            call=call,
            a=call.primitives(dtype),
            weights=call.required(1).data[way].reshape(shape),
            recurrence=call.required(2).data[way].reshape(shape),
            biases=None if bias is None else bias.data[way].reshape(2, self.gates, hidden),
            peepholes=None if peepholes is None else peepholes.data[way].reshape(3, hidden),
            # ONNX Runtime cuts what gates see, not the memory that the last function gets.
            activations=[
                _activation(call, str(name), dtype, 0.0 if place == 2 else clip)
                for place, name in enumerate(names)
            ],
        )

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        x = hints.first(known, (4, 2, 3))
        batch, width = x[-2:] if len(x) == 3 else (2, 3)
        ways = 2 if c.fixed.get("direction") == "bidirectional" else 1
        weights = known[1] if len(known) > 1 else None
        hidden = weights[1] // self.gates if weights and len(weights) == 3 else 2
        if index == 4:
            return hints.Operand((batch,), ir.DataType.INT32, constant=True, positive=True)
        rows = self.gates * hidden
        shapes: dict[int, hints.Shape] = {
            0: (4, batch, width),
            1: (ways, rows, width),
            2: (ways, rows, hidden),
            3: (ways, 2 * rows),
            7: (ways, 3 * hidden),
        }
        return c.data(shapes.get(index, (ways, batch, hidden)))

    def options(self, name: str, known: hints.Known) -> Sequence[object]:
        recurrence = known[2] if len(known) > 2 else None
        found: dict[str, Sequence[object]] = {
            "hidden_size": recurrence[-1:] if recurrence else (2,),
            "direction": ("forward", "reverse"),
            "layout": (0,),
            "activations": (None,),
            "clip": (None, 2.0),
        }
        return found.get(name, ())

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        length = use.dimension(0, 1 if use.integer("layout") else 0) or 1
        return hints.between(1, length) if use.index == 4 else None

    def cost(self, operands: Operands) -> int:
        data, (directions, rows, width) = operands.sizes(0), operands.sizes(1)
        steps = data[0] * data[1]  # the sequence times the batch, in whichever order
        hidden = rows // self.gates
        sums = 2 * rows * (width + hidden) + 2 * rows
        # The gates' functions (sigmoid: 4) and what combines them.
        return directions * steps * (sums + 4 * rows + 4 * hidden * (self.gates > 1))


def _activation(call: Call, name: str, dtype: ir.DataType, limit: float) -> Activation:
    """Return a function of elements, of what is cut to a limit unless that is 0."""
    operator = find("", name)
    if not isinstance(operator, Elementwise):
        raise Unsupported(f"the function {name}")
    described, a = operator, call.primitives(dtype)
    given = dict(described.attributes)

    def apply(x: Elements) -> Elements:
        cut = call.semantics.map(lambda v: a.clip(v, -limit, limit), x) if limit else x
        found = call.semantics.map(lambda v: described.formula(a, v, **given), cut)
        return call.semantics.kernel(found, dtype, lambda: np.full((), 1.0))

    return apply


class RNN(_Recurrent):
    """A simple recurrent layer."""

    gates, defaults = 1, ("Tanh",)

    def step(self, cell: Cell, x: Elements, states: list[Elements]) -> list[Elements]:
        return [cell.activations[0](cell.gate(x, states[0], 0))]


class GRU(_Recurrent):
    """A gated recurrent layer."""

    gates, defaults = 3, ("Sigmoid", "Tanh")

    def step(self, cell: Cell, x: Elements, states: list[Elements]) -> list[Elements]:
        (h,) = states
        f, g = cell.activations
        z, r = (f(cell.gate(x, h, gate)) for gate in (0, 1))
        if cell.call.flag("linear_before_reset"):
            recalled = cell.across("mul", r, cell.recall(h, 2))
        else:
            recalled = cell.recall(cell.across("mul", r, h), 2)
        new = g(cell.across("add", cell.read(x, 2), recalled))
        fresh = cell.across("mul", cell.across("sub", 1.0, z), new)
        return [cell.across("add", fresh, cell.across("mul", z, h))]


class LSTM(_Recurrent):
    """A long short-term memory."""

    gates, defaults, remembers = 4, ("Sigmoid", "Tanh", "Tanh"), True

    def step(self, cell: Cell, x: Elements, states: list[Elements]) -> list[Elements]:
        h, memory = states
        f, g, last = cell.activations
        i = f(cell.peep(cell.gate(x, h, 0), memory, 0))
        if cell.call.flag("input_forget"):
            forget = cell.across("sub", 1.0, i)
        else:
            forget = f(cell.peep(cell.gate(x, h, 2), memory, 2))
        new = cell.across("mul", i, g(cell.gate(x, h, 3)))
        memory = cell.across("add", cell.across("mul", forget, memory), new)
        o = f(cell.peep(cell.gate(x, h, 1), memory, 1))
        return [cell.across("mul", o, last(memory)), memory]
