"""Move nodes from float32 to a type of 16 bits, with few Casts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.passes._support.scratch import Scratch
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.convert._ports import rename_value
from onnx_passes.passes.precision._signature import WIDE, Signature
from onnx_passes.passes.replace import Namer

_LIMITS = {
    ir.DataType.FLOAT16: (65504.0, 2.0**-20),
    ir.DataType.BFLOAT16: ((2 - 2.0**-7) * 2.0**127, 2.0**-129),
}
"""Largest finite number of each type, and the smallest that still has 4 bits."""
EXACT = {ir.DataType.FLOAT16: 2048, ir.DataType.BFLOAT16: 256}
"""Largest integer of each type up to which it has all integers."""
ROUNDED = "whose integers {} would round"


def misfit(array: Array, half: ir.DataType) -> str | None:
    """Return why values do not fit a type of 16 bits; None if they do.

    Args:
        array: Values in float32.
        half: The type.
    """
    known = np.isfinite(array)
    finite = array if known.all() else array[known]
    largest = max(float(finite.max(initial=0)), -float(finite.min(initial=0)))
    most, least = _LIMITS[half]
    if largest > most:
        return f"whose values overflow in {half.name.lower()}"
    if 0 < largest < least:
        return f"whose values vanish in {half.name.lower()}"
    return None


def misfit_of(
    node: ir.Node, signature: Signature, half: ir.DataType, seen: Mapping[str, str]
) -> str | None:
    """Return why a node cannot be lowered: a constant or recorded value of it does not fit.

    Args:
        node: The node.
        signature: Its places of float32.
        half: The lower type.
        seen: What is wrong with recorded values, by name.
    """
    for value in (
        *(node.inputs[i] for i in signature.inputs),
        *(node.outputs[i] for i in signature.outputs),
    ):
        assert value is not None, "a signature has no empty place"
        tensor = constant_of(value)
        reason = seen.get(str(value.name))
        if tensor is not None:
            array = tensor.numpy()
            reason = misfit(array, half) or rounded_integers(array, half)
        if reason is not None:
            return reason
    return None


def rounded_integers(array: Array, half: ir.DataType) -> str | None:
    """Return that values are integers that a type of 16 bits does not have; None otherwise.

    Args:
        array: Values in float32.
        half: The type.
    """
    if np.abs(array).max(initial=0) <= EXACT[half] or (array != np.rint(array)).any():
        return None
    same = array.astype(half.numpy()).astype(np.float32) == array
    return None if same.all() else ROUNDED.format(half.name.lower())


class Lowering:
    """Edits of one model.

    Args:
        model: The model; changed in place.
        half: The type of 16 bits.
    """

    def __init__(self, model: ir.Model, half: ir.DataType) -> None:
        self.model, self.half, self.namer = model, half, Namer(model)
        self._scratch = Scratch(model)
        self._low: dict[ir.Value, ir.Value] = {}
        self._near: dict[ir.Value, ir.Value] = {}

    def lower(self, nodes: Mapping[ir.Node, Signature]) -> None:
        """Give nodes the lower type, with Casts where others meet them.

        Args:
            nodes: The nodes of the main graph and of bodies, and their places of float32.
        """
        made = {n.outputs[i] for n, places in nodes.items() for i in places.outputs}
        read: set[ir.Value] = set()
        for node, places in nodes.items():
            for index in places.inputs:
                value = node.inputs[index]
                assert value is not None, "a signature has no empty place"
                if value not in made:
                    read.add(value)
                    node.replace_input_with(index, self.lowered(value))
        for value in made:
            self.widen(value, nodes)
        for value in read:
            drop_constant(value)

    def round_around(self, nodes: Mapping[ir.Node, Signature]) -> None:
        """Leave nodes in float32, and round what they read and compute to the lower type."""
        read: set[ir.Value] = set()
        for node, places in nodes.items():
            for index in places.inputs:
                value = node.inputs[index]
                assert value is not None, "a signature has no empty place"
                read.add(value)
                node.replace_input_with(index, self._source_of_cast(value))
        for node, places in nodes.items():
            for index in places.outputs:
                value = node.outputs[index]
                if not value.is_graph_output() and all(
                    user in nodes for user in value.consumers()
                ):
                    continue  # its readers round it
                self._round_output(value)
        for value in read:
            drop_constant(value)

    def lowered(self, value: ir.Value) -> ir.Value:
        """Return a value in the lower type: a constant, or a Cast that readers share.

        Args:
            value: Of float32.
        """
        if value not in self._low:
            tensor = constant_of(value)
            if tensor is not None:
                array = tensor.numpy().astype(self.half.numpy())
                self._low[value] = self.constant(array, f"{value.name}_{_short(self.half)}")
            else:
                self._low[value] = self._cast(value, self.half)
        return self._low[value]

    def _source_of_cast(self, value: ir.Value) -> ir.Value:
        tensor, producer = constant_of(value), value.producer()
        source = producer.inputs[0] if producer is not None and producer.inputs else None
        if source is not None and source.dtype is self.half and value.dtype is WIDE:
            return value  # a Cast of such numbers
        if value not in self._near:
            if tensor is not None:
                array = tensor.numpy().astype(self.half.numpy()).astype(np.float32)
                self._near[value] = self.constant(array, f"{value.name}_source_of_cast")
            else:
                self._near[value] = self._cast(self.lowered(value), WIDE)
        return self._near[value]

    def _round_output(self, value: ir.Value) -> None:
        """Let readers that are not rounded themselves, and the user, read a rounded value."""
        near = self._source_of_cast(value)
        low = near.producer()
        assert low is not None, "a rounded value is computed by a Cast"
        first = low.inputs[0].producer() if low.inputs[0] is not None else None
        for user, index in [use for use in value.uses() if use.node not in (low, first)]:
            user.replace_input_with(index, near)
        if value.is_graph_output():
            return_instead(self.model, value, near, self.namer)

    def widen(self, value: ir.Value, nodes: Mapping[ir.Node, Signature]) -> None:
        """Let a value have the lower type, and those who need float32 read a Cast of it.

        Args:
            value: An output of a node.
            nodes: The nodes that are lowered, and their places of float32.
        """
        others = [
            (user, index)
            for user, index in value.uses()
            if user not in nodes or index not in nodes[user].inputs
        ]
        if value.is_graph_output():
            new = self._cast(value, WIDE)
            return_instead(self.model, value, new, self.namer, "cast")
        elif others:
            new = self._cast(value, WIDE)
        value.type = ir.TensorType(self.half)
        for user, index in others:
            user.replace_input_with(index, new)

    def constant(self, array: Array, name: str) -> ir.Value:
        """Add an initializer.

        Args:
            array: Its numbers, of any shape and type.
            name: The start of its name.
        """
        tensor = ir.tensor(np.ascontiguousarray(array).reshape(array.shape))
        value = ir.Value(
            name=self.namer.value(name),
            type=ir.TensorType(tensor.dtype),
            shape=ir.Shape(array.shape),
            const_value=self._scratch.keep(tensor),
        )
        self.model.graph.register_initializer(value)
        return value

    def _cast(self, value: ir.Value, kind: ir.DataType) -> ir.Value:
        node = self._cast_node(value, kind)
        return self._place(node, kind, value)

    def _cast_node(self, value: ir.Value, kind: ir.DataType) -> ir.Node:
        return ir.Node("", "Cast", [value], [ir.AttrInt64("to", int(kind))])

    def _place(self, node: ir.Node, kind: ir.DataType, value: ir.Value) -> ir.Value:
        """Name a new node, type what it computes, and put it right behind what it reads."""
        new = node.outputs[0]
        new.name = self.namer.value(f"{value.name}_{_short(kind)}")
        node.name = self.namer.node(new.name)
        new.type, new.shape = ir.TensorType(kind), _shape(value)
        insert_behind(self.model, node, value)
        return new


def insert_behind(model: ir.Model, node: ir.Node, value: ir.Value) -> None:
    """Put a node right behind the one that computes a value, or in front of its graph.

    A value of the main graph that a body reads gets it in the main graph.

    Args:
        model: The model.
        node: The new node.
        value: What it reads.
    """
    producer = value.producer()
    home = value.graph if producer is None else producer.graph
    graph = model.graph if home is None else home
    if producer is not None:
        graph.insert_after(producer, node)
    elif (first := next(iter(graph), None)) is not None:
        graph.insert_before(first, node)
    else:
        graph.append(node)


def return_instead(
    model: ir.Model, value: ir.Value, new: ir.Value, namer: Namer, ending: str = "exact"
) -> None:
    """Let a graph return another value than one of its outputs, under the name of that.

    Args:
        model: The model.
        value: The output, of the main graph or a body; an inner value under another name
            afterwards.
        new: Has the type, and gets name and shape.
        namer: Of the model.
        ending: What is added to the name of the inner value.
    """
    graph, name = value.graph or model.graph, str(value.name)
    rename_value(value, namer.value(f"{name}_{ending}"))
    rename_value(new, name)
    new.doc_string, new.shape = value.doc_string, _shape(value)
    for place, output in enumerate(graph.outputs):
        if output is value:
            graph.outputs[place] = new


def drop_constant(value: ir.Value) -> None:
    """Remove a constant that nobody reads any more."""
    if value.uses() or value.is_graph_output() or value.is_graph_input():
        return
    producer, graph = value.producer(), value.graph
    if value.is_initializer() and graph is not None:
        del graph.initializers[str(value.name)]
    elif producer is not None and constant_of(value) is not None and producer.graph:
        producer.graph.remove(producer, safe=True)


def _short(kind: ir.DataType) -> str:
    return {WIDE: "wide"}.get(kind, kind.name.lower())


def _shape(value: ir.Value) -> ir.Shape | None:
    return value.shape.copy() if value.shape is not None else None
