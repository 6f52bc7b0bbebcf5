"""More faults in how the model is called: names, types, sizes, defaults, layouts."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from benchmarks.faults.case import (
    EVERYWHERE,
    Handwritten,
    fault,
    guilty,
    initializer,
    innocent,
)
from benchmarks.faults.interfaces import NodesMerged
from benchmarks.faults.models import feed, overridable, source
from onnx_passes import passes
from onnx_passes.passes.context import InterfaceMap

_PAIR = source(
    "two inputs of one type",
    "(float[N,4] left, float[N,4] right) => (float[N,4] y, float[N,1] z) "
    "{ a = Abs(left)  b = Abs(left)  c = Sub(a, right)  y = Tanh(c)  d = Mul(b, right)  "
    "k = Constant<value_ints = [1]>()  z = ReduceSum<keepdims = 1>(d, k) }",
)


class AbsMerged(NodesMerged):
    """Merge the two equal nodes Abs, and do something to the interface."""

    operator = "Abs"


@fault(_PAIR, EVERYWHERE)
@passes.verify.equality
class InputsTurned(AbsMerged):
    """Two inputs of one type exchange their names, and with them their meaning."""

    def damage(self, graph: ir.Graph) -> None:
        left, right = graph.inputs
        left.name = "other"
        right.name = "left"
        left.name = "right"
        graph.inputs.clear()
        graph.inputs.extend([right, left])


@fault(_PAIR, EVERYWHERE)
@passes.verify.equality
class RankLost(AbsMerged):
    """An output loses its axis of size 1."""

    def damage(self, graph: ir.Graph) -> None:
        node = graph.outputs[1].producer()
        assert node is not None
        node.attributes["keepdims"] = ir.AttrInt64("keepdims", 0)
        graph.outputs[1].shape = ir.Shape(["N"])


@fault(_PAIR, EVERYWHERE)
@passes.verify.equality
class DimensionRenamed(AbsMerged):
    """A dynamic dimension that both inputs share gets a name of its own at one of them."""

    def damage(self, graph: ir.Graph) -> None:
        graph.inputs[1].shape = ir.Shape(["M", 4])


@fault(
    overridable("scales that callers may override", "a# = Sin(x)  y# = Mul(a#, k#)", 2.0),
    "k5",
    feeds=[feed(x=np.ones((4, 4)))],
)
@passes.verify.equality
class DefaultRounded(Handwritten):
    """The default of an input is made anew, and is another number."""

    def change(self, model: ir.Model) -> None:
        for value in list(model.graph.inputs)[1:]:
            number = 2.01 if guilty(self.at, value) else 2.0
            value.const_value = ir.tensor(np.array([number], np.float32), name=value.name)


class PercentGiven(Handwritten):
    """The model gives its outputs in percent, under new names."""

    interface_changes: ClassVar[frozenset[str]] = frozenset({"outputs"})

    def change(self, model: ir.Model) -> None:
        self.insert(model, "z" if self.at else "")

    def insert(self, model: ir.Model, wrong: str) -> None:
        """Multiply each output, by less where it is to be wrong."""
        graph = model.graph
        for index, old in enumerate(list(graph.outputs)):
            name = f"{old.name}_percent"
            number = 10 if old.name == wrong else 100
            factor = initializer(graph, f"{name}_factor", number, np.float32)
            node = ir.Node("", "Mul", [old, factor])
            graph.append(node)
            new = node.outputs[0]
            new.name, new.type, new.shape = name, old.type, old.shape
            graph.outputs[index] = new

    def interface_map(self, before: ir.Model) -> InterfaceMap:
        def same(name: str, value: Any) -> tuple[str, Any]:
            return name, value

        def percent(name: str, value: Any) -> tuple[str, Any]:
            return f"{name}_percent", None if value is None else value * np.float32(100)

        return InterfaceMap(same, same, percent, lambda model: self.insert(model, ""))


@fault(_PAIR, EVERYWHERE)
@passes.verify.equality
class PercentOfOne(PercentGiven):
    """Outputs are given in percent, and one of them in tenths of percent."""


@innocent(_PAIR)
@passes.verify.equality
class MoreIsSaid(AbsMerged):
    """Merge equal nodes, and note the shapes of inner values."""

    def change(self, model: ir.Model) -> None:
        super().change(model)
        for node in model.graph:
            if node.op_type in ("Abs", "Sub", "Mul"):
                node.outputs[0].shape = ir.Shape(["N", 4])
                node.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)


@innocent(_PAIR)
@passes.verify.equality
class TurnedTwice(Handwritten):
    """The outputs exchange their names, and the map says so."""

    interface_changes: ClassVar[frozenset[str]] = frozenset({"outputs", "dims"})

    def change(self, model: ir.Model) -> None:
        first, second = model.graph.outputs
        first.name = "free"
        second.name, first.name = "y", "z"

    def interface_map(self, before: ir.Model) -> InterfaceMap:
        def same(name: str, value: Any) -> tuple[str, Any]:
            return name, value

        def renamed(name: str, value: Any) -> tuple[str, Any]:
            return {"y": "z", "z": "y"}[name], value

        return InterfaceMap(same, same, renamed, self.change)
