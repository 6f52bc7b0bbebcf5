"""Faults in how the model is called: names, order, types, dimensions, defaults, layouts."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from benchmarks.faults.case import (
    EVERYWHERE,
    Handwritten,
    fault,
    initializer,
    innocent,
)
from benchmarks.faults.models import feed, overridable, source
from onnx_passes import passes
from onnx_passes.passes.base import Transformation
from onnx_passes.passes.context import InterfaceMap

_TWINS = source(
    "two heads",
    "(float[N,4] x) => (float[N,4] y, float[N,4] z, int64[N] k) "
    "{ a = Sin(x)  b = Neg(a)  y = Identity(b)  c = Sin(x)  z = Exp(c)  "
    "k = ArgMax<axis = 1, keepdims = 0>(z) }",
)


class NodesMerged(Handwritten):
    """Merge the two equal nodes of the model, and do something to its interface.

    Attributes:
        operator: Their operator.
    """

    operator: ClassVar[str] = "Sin"

    def change(self, model: ir.Model) -> None:
        first, second = (n for n in model.graph if n.op_type == self.operator)
        second.outputs[0].replace_all_uses_with(first.outputs[0])
        model.graph.remove(second, safe=True)
        if self.at:
            self.damage(model.graph)

    def damage(self, graph: ir.Graph) -> None:
        """Change the interface."""
        raise NotImplementedError


@fault(_TWINS, EVERYWHERE)
@passes.verify.equality
class OutputsTurned(NodesMerged):
    """Two outputs change places, and keep their names."""

    def damage(self, graph: ir.Graph) -> None:
        first, second, third = graph.outputs
        graph.outputs.clear()
        graph.outputs.extend([second, first, third])


@fault(_TWINS, EVERYWHERE)
@passes.verify.equality
class DimensionFixed(NodesMerged):
    """The dynamic dimension of an input becomes the number 4."""

    def damage(self, graph: ir.Graph) -> None:
        graph.inputs[0].shape = ir.Shape([4, 4])


@fault(_TWINS, EVERYWHERE)
@passes.verify.equality
class IndicesNarrowed(NodesMerged):
    """An output of int64 becomes one of int32."""

    def damage(self, graph: ir.Graph) -> None:
        old = graph.outputs[2]
        old.name = "k_wide"
        cast = ir.Node("", "Cast", [old], [ir.AttrInt64("to", ir.DataType.INT32)])
        graph.append(cast)
        new = cast.outputs[0]
        new.name, new.shape, new.type = "k", old.shape, ir.TensorType(ir.DataType.INT32)
        graph.outputs[2] = new


@fault(
    overridable("biases that callers may override", "a# = Sin(x)  y# = Add(a#, k#)", 2.0),
    "k5",
    feeds=[feed(x=np.ones((4, 4)))],
)
@passes.verify.equality
class DefaultDropped(Handwritten):
    """An input with a default becomes a constant, so that nobody can give another value."""

    def change(self, model: ir.Model) -> None:
        graph = model.graph
        for value in list(graph.inputs)[1:]:
            (reader,) = value.consumers()
            sine = reader.inputs[0]
            reader.replace_input_with(0, value)
            reader.replace_input_with(1, sine)
            if value.name == self.at:
                graph.inputs.remove(value)


PICTURE = source(
    "a picture",
    "(float[3,3,2] x, float[2] b) => (float[3,3,2] y) "
    "{ s = Sin(x)  t = Add(s, b)  y = Tanh(t) }",
)
CUBE = source("a cube", "(float[3,3,3] x) => (float[3,3,3] y) { s = Sin(x)  y = Exp(s) }")


class ChannelsMoved(Handwritten):
    """The model reads its input with the first axis last.

    Attributes:
        moved: The order of axes that the caller of the new model uses.
        said: The order that a wrong map has.
    """

    interface_changes: ClassVar[frozenset[str]] = frozenset({"dims"})
    moved: ClassVar[tuple[int, ...]] = (2, 0, 1)
    said: ClassVar[tuple[int, ...]] = (2, 1, 0)

    def change(self, model: ir.Model) -> None:
        self.insert(model, self.moved)

    def insert(self, model: ir.Model, order: tuple[int, ...]) -> None:
        """Turn the input back before it is read."""
        value = model.graph.inputs[0]
        assert value.shape is not None
        back = ir.Node(
            "", "Transpose", [value], [ir.AttrInt64s("perm", np.argsort(order).tolist())]
        )
        inner = back.outputs[0]
        inner.name, inner.type, inner.shape = "x_back", value.type, value.shape
        value.shape = ir.Shape([value.shape[axis] for axis in order])
        value.replace_all_uses_with(inner)
        back.replace_input_with(0, value)
        model.graph.insert_before(model.graph[0], back)

    def interface_map(self, before: ir.Model) -> InterfaceMap:
        order = self.said if self.at else self.moved

        def inputs(name: str, value: Any) -> tuple[str, Any]:
            return name, np.transpose(value, order) if name == "x" else value

        def back(name: str, value: Any) -> tuple[str, Any]:
            return name, np.transpose(value, np.argsort(order)) if name == "x" else value

        def outputs(name: str, value: Any) -> tuple[str, Any]:
            return name, value

        return InterfaceMap(inputs, back, outputs, lambda m: self.insert(m, self.moved))


@fault(PICTURE, EVERYWHERE)
@passes.verify.equality
class LayoutMapWrong(ChannelsMoved):
    """The interface map exchanges height and width, which are equal; the model does not."""


@innocent(CUBE)
@passes.verify.equality
class LayoutOfCube(ChannelsMoved):
    """The layout of an input changes, and its shape stays the same."""


@fault(_TWINS, EVERYWHERE)
@passes.verify.equality
class OutputRenamed(NodesMerged):
    """An output takes the name of the value that it is a copy of."""

    def damage(self, graph: ir.Graph) -> None:
        node = graph.outputs[0].producer()
        assert node is not None
        value = node.inputs[0]
        assert value is not None
        value.type, value.shape = graph.outputs[0].type, graph.outputs[0].shape
        graph.outputs[0] = value
        graph.remove(node, safe=True)


@innocent(_TWINS)
@passes.verify.equality
class CopiesRemoved(Transformation):
    """Remove the copy before an output, which keeps its name."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        graph = model.graph
        (node,) = [n for n in graph if n.op_type == "Identity"]
        old, new = graph.outputs[0], node.inputs[0]
        assert new is not None
        new.type, new.shape = old.type, old.shape
        graph.outputs[0] = new
        graph.remove(node, safe=True)
        old.name, new.name = None, old.name
        return ir.passes.PassResult(model, modified=True)


@innocent(PICTURE)
@passes.verify.equality
class UnitChanged(Transformation):
    """The second input is given in quarters, under a new name, and its map says so."""

    interface_changes: ClassVar[frozenset[str]] = frozenset({"inputs"})

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        self.insert(model)
        return ir.passes.PassResult(model, modified=True)

    def insert(self, model: ir.Model) -> None:
        """Multiply the input before it is read."""
        value = model.graph.inputs[1]
        factor = initializer(model.graph, "quarter", 0.25, np.float32)
        node = ir.Node("", "Mul", [value, factor])
        inner = node.outputs[0]
        inner.name, inner.type, inner.shape = "b_scaled", value.type, value.shape
        value.replace_all_uses_with(inner)
        node.replace_input_with(0, value)
        value.name = "quarters"
        model.graph.insert_before(model.graph[0], node)

    def interface_map(self, before: ir.Model) -> InterfaceMap:
        def port(old: str, new: str, factor: float) -> Any:
            def change(name: str, value: Any) -> tuple[str, Any]:
                return (new, value * np.float32(factor)) if name == old else (name, value)

            return change

        to, back = port("b", "quarters", 4), port("quarters", "b", 0.25)
        return InterfaceMap(to, back, lambda name, value: (name, value), self.insert)
