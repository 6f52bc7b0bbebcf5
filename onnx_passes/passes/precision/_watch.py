"""Let a model return what is measured of values in the bodies of If, Loop and Scan."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.model.walk import subgraphs_of
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.precision._signature import WIDE
from onnx_passes.passes.replace import Namer
from onnx_passes.plain import Plain

OPSET = 11
"""The first opset in which floats can be compared."""
_STACKS = {"Loop": 1, "Scan": 9}
"""Operators that stack what a body gives, and the opset from which they do it as here."""


class WatchProbe(Protocol):
    """What is measured of a value in a body: a vector of a known length."""

    @property
    def size(self) -> int:
        """Number of elements."""
        ...

    def measure(self, made: WatchBuilder, value: ir.Value) -> ir.Value:
        """Return a vector, float32 of shape [size]; zeros if there is nothing.

        Args:
            made: Makes the nodes.
            value: A float32 value of any shape.
        """
        ...

    def join(self, made: WatchBuilder, stacked: ir.Value) -> ir.Value:
        """Return the vector of all iterations.

        Args:
            made: Makes the nodes.
            stacked: The vectors, float32 of shape [iterations, size].
        """
        ...


class Ends:
    """The least and greatest finite element: at most 0, and at least 0."""

    size = 2

    def measure(self, made: WatchBuilder, value: ir.Value) -> ir.Value:
        """Return both; see ``WatchProbe.measure``."""
        zero = made.constant(np.zeros(1, np.float32))
        flat = made.node("Reshape", made.finite(value), made.constant(np.array([-1])))
        some = made.node("Concat", flat, zero, axis=0)
        low, high = (made.node(kind, some) for kind in ("ReduceMin", "ReduceMax"))
        return made.node("Concat", low, high, axis=0)

    def join(self, made: WatchBuilder, stacked: ir.Value) -> ir.Value:
        """Return both of all iterations; see ``WatchProbe.join``."""
        return self.measure(made, stacked)


class WatchBuilder:
    """Makes nodes at the end of a graph.

    Args:
        namer: Of the model.
        graph: The graph.
        opset: Of the model.
        main: The main graph, which holds large constants.
    """

    def __init__(self, namer: Namer, graph: ir.Graph, opset: int, main: ir.Graph) -> None:
        self._namer, self.graph, self._opset, self._main = namer, graph, opset, main

    def constant(self, array: Array) -> ir.Value:
        """Return a constant of the graph.

        Args:
            array: Its numbers, of any shape.
        """
        made = self.node("Constant", value=ir.tensor(array))
        made.type, made.shape = ir.TensorType(ir.DataType.from_numpy(array.dtype)), None
        return made

    def large(self, array: Array) -> ir.Value:
        """Return a constant of the main graph.

        Args:
            array: Its numbers, float32 of any shape.
        """
        name = self._namer.value("watched")
        made = ir.Value(name=name, type=ir.TensorType(WIDE), const_value=ir.tensor(array))
        self._main.register_initializer(made)
        return made

    def node(self, operator: str, *inputs: ir.Value, **attributes: Plain) -> ir.Value:
        """Return what a new node computes.

        Args:
            operator: Its operator.
            *inputs: What it reads.
            **attributes: Its attributes.
        """
        node = ir.node(operator, list(inputs), attributes)
        (made,) = node.outputs
        made.name = self._namer.value("watched")
        node.name = self._namer.node(made.name)
        self.graph.append(node)
        return made

    def finite(self, value: ir.Value) -> ir.Value:
        """Return a value with 0 for elements that are not finite.

        Args:
            value: A float32 value of any shape.
        """
        zero = self.constant(np.zeros(1, np.float32))
        # Inf minus itself is NaN, as NaN is, and no NaN equals 0.
        known = self.node("Equal", self.node("Sub", value, value), zero)
        return self.node("Where", known, value, zero)

    def reduce(self, operator: str, value: ir.Value, axis: int) -> ir.Value:
        """Return a value reduced along an axis, which it does not have any more.

        Args:
            operator: ReduceSum or ReduceMax.
            value: A float32 value.
            axis: The axis.
        """
        if self._opset >= (13 if operator == "ReduceSum" else 18):
            axes = self.constant(np.array([axis]))
            return self.node(operator, value, axes, keepdims=0)
        return self.node(operator, value, axes=[axis], keepdims=0)


def watch(model: ir.Model, wanted: Collection[str]) -> dict[str, str]:
    """Let a model return the least and greatest finite element of values in its bodies.

    Each is an output of two elements: at most 0, and at least 0. A branch that is not taken
    gives zeros, and a loop the range over all iterations.

    Args:
        model: The model; changed in place. Its types have to be known.
        wanted: Names of the values; those of the main graph, and types other than float32, are
            left out.

    Returns:
        Names of the values by name of the output. Two branches may have values of one name.
    """
    names = frozenset(wanted)
    probes = {
        value: [(str(value.name), Ends())]
        for value in inner_values(model)
        if value.name in names and is_wide(value)
    }
    return probe(model, probes)


def inner_values(model: ir.Model) -> Iterator[ir.Value]:
    """Yield the values that bodies of the main graph have or compute, in order.

    Args:
        model: The model.
    """
    pending = [body for node in model.graph for body in subgraphs_of(node)]
    while pending:
        body = pending.pop()
        yield from body.inputs
        for node in body:
            yield from node.outputs
            pending.extend(subgraphs_of(node))


def is_wide(value: ir.Value) -> bool:
    """Whether a value is a computed float32 tensor.

    Args:
        value: The value.
    """
    plain = isinstance(value.type, ir.TensorType) and value.dtype is WIDE
    return plain and constant_of(value) is None


def probe(
    model: ir.Model, probes: Mapping[ir.Value, Sequence[tuple[str, WatchProbe]]]
) -> dict[str, str]:
    """Let a model return what probes measure of values in its bodies.

    A branch that is not taken gives zeros, and a loop what all iterations give together.

    Args:
        model: The model; changed in place. Its types have to be known.
        probes: By value in a body, its probes, each with a key.

    Returns:
        The keys by name of the output; nothing if the opset has no way to measure.
    """
    opset = model.graph.opset_imports.get("", 1)
    if opset < OPSET or not probes:
        return {}
    found = {}
    for key, _, made in list(_Lifter(model, probes, opset).lift(model.graph)):
        model.graph.outputs.append(made)
        found[str(made.name)] = key
    return found


class _Lifter:
    """Takes what probes measure out of bodies.

    Args:
        model: The model.
        probes: As :func:`probe` reads them.
        opset: Of the model.
    """

    def __init__(
        self,
        model: ir.Model,
        probes: Mapping[ir.Value, Sequence[tuple[str, WatchProbe]]],
        opset: int,
    ) -> None:
        self._namer, self._main = Namer(model), model.graph
        self._probes, self._opset = probes, opset

    def lift(self, graph: ir.Graph) -> Iterator[tuple[str, WatchProbe, ir.Value]]:
        """Yield keys, probes, and what they measure in bodies of a graph's nodes."""
        for node in list(graph):
            bodies = list(subgraphs_of(node))
            stacks = self._opset >= _STACKS.get(node.op_type, 1 << 31)
            if not bodies or node.domain or not (stacks or node.op_type == "If"):
                continue
            for body in bodies:
                for key, item, inner in list(self._inside(body)):
                    others = [other for other in bodies if other is not body]
                    given = self._give(node, body, others, inner, item.size)
                    if stacks:
                        _add_axis(node)
                        given = self._set_type(
                            item.join(self._builder(graph), given), item.size
                        )
                    yield key, item, given

    def _inside(self, body: ir.Graph) -> Iterator[tuple[str, WatchProbe, ir.Value]]:
        made = [value for node in body for value in node.outputs]
        for value in (*body.inputs, *made):
            for key, item in self._probes.get(value, ()):
                vector = item.measure(self._builder(body), value)
                yield key, item, self._set_type(vector, item.size)
        yield from self.lift(body)

    def _give(
        self,
        node: ir.Node,
        body: ir.Graph,
        others: Sequence[ir.Graph],
        vector: ir.Value,
        size: int,
    ) -> ir.Value:
        """Let a body return a vector, other branches zeros, and the node what is returned."""
        body.outputs.append(vector)
        for other in others:
            other.outputs.append(self._builder(other).constant(np.zeros(size, np.float32)))
        node.resize_outputs(len(node.outputs) + 1)
        given = node.outputs[-1]
        given.name, given.type = self._namer.value(vector.name), ir.TensorType(WIDE)
        return given

    def _builder(self, graph: ir.Graph) -> WatchBuilder:
        return WatchBuilder(self._namer, graph, self._opset, self._main)

    def _set_type(self, value: ir.Value, size: int) -> ir.Value:
        value.type, value.shape = ir.TensorType(WIDE), ir.Shape([size])
        return value


def _add_axis(node: ir.Node) -> None:
    for name in ("scan_output_axes", "scan_output_directions"):
        if name in node.attributes:
            known = list(node.attributes[name].as_ints())
            node.attributes[name] = ir.AttrInt64s(name, [*known, 0])
