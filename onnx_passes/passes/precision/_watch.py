"""Ranges of values in the bodies of If, Loop and Scan, as outputs of the main graph."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.model.contents import subgraphs_of
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.precision._signature import WIDE
from onnx_passes.passes.replace import Namer

_OPSET = 11
"""The first opset in which floats can be compared."""
_STACKS = {"Loop": 1, "Scan": 9}
"""Operators that stack what a body gives, and the opset from which they do it as here."""


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
    opset = model.graph.opset_imports.get("", 1)
    if opset < _OPSET:
        return {}
    found = {}
    for name, ends in _Watcher(Namer(model), frozenset(wanted), opset).watch(model.graph):
        model.graph.outputs.append(ends)
        found[str(ends.name)] = name
    return found


class _Watcher:
    def __init__(self, namer: Namer, wanted: frozenset[str], opset: int) -> None:
        self.namer, self.wanted, self.opset = namer, wanted, opset

    def watch(self, graph: ir.Graph) -> Iterator[tuple[str, ir.Value]]:
        """Yield values in bodies of a graph's nodes by name, and their ranges in the graph."""
        for node in list(graph):
            bodies = list(subgraphs_of(node))
            stacks = self.opset >= _STACKS.get(node.op_type, 1 << 31)
            if not bodies or node.domain or not (stacks or node.op_type == "If"):
                continue
            for body in bodies:
                for name, inner in list(self._inside(body)):
                    others = [other for other in bodies if other is not body]
                    given = self._give(node, body, others, inner)
                    if stacks:
                        _add_axis(node)
                        given = self._ends(graph, given)
                    yield name, given

    def _inside(self, body: ir.Graph) -> Iterator[tuple[str, ir.Value]]:
        made = [value for node in body for value in node.outputs]
        for value in (*body.inputs, *made):
            plain = isinstance(value.type, ir.TensorType) and value.dtype is WIDE
            if plain and value.name in self.wanted and constant_of(value) is None:
                yield str(value.name), self._ends(body, value)
        yield from self.watch(body)

    def _give(
        self, node: ir.Node, body: ir.Graph, others: Sequence[ir.Graph], ends: ir.Value
    ) -> ir.Value:
        """Let a body return a range, other branches zeros, and the node what is returned."""
        body.outputs.append(ends)
        for other in others:
            other.outputs.append(self._constant(other, np.zeros(2, np.float32)))
        node.resize_outputs(len(node.outputs) + 1)
        given = node.outputs[-1]
        given.name, given.type = self.namer.value(ends.name), ir.TensorType(WIDE)
        return given

    def _ends(self, graph: ir.Graph, value: ir.Value) -> ir.Value:
        zero = self._constant(graph, np.zeros(1, np.float32))
        flat = self._node(graph, "Reshape", value, self._constant(graph, np.array([-1])))
        # Inf minus itself is NaN, as NaN is, and no NaN equals 0.
        nothing = self._node(graph, "Sub", flat, flat)
        finite = self._node(graph, "Equal", nothing, zero)
        kept = self._node(graph, "Where", finite, flat, zero)
        some = self._node(graph, "Concat", kept, zero, axis=0)
        low = self._node(graph, "ReduceMin", some)
        high = self._node(graph, "ReduceMax", some)
        ends = self._node(graph, "Concat", low, high, axis=0)
        ends.type, ends.shape = ir.TensorType(WIDE), ir.Shape([2])
        return ends

    def _constant(self, graph: ir.Graph, array: Any) -> ir.Value:
        made = self._node(graph, "Constant", value=ir.tensor(array))
        made.type, made.shape = ir.TensorType(ir.DataType.from_numpy(array.dtype)), None
        return made

    def _node(
        self, graph: ir.Graph, operator: str, *inputs: ir.Value, **attributes: Any
    ) -> ir.Value:
        node = ir.node(operator, list(inputs), attributes)
        (made,) = node.outputs
        made.name = self.namer.value("watched")
        node.name = self.namer.node(made.name)
        graph.append(node)
        return made


def _add_axis(node: ir.Node) -> None:
    for name in ("scan_output_axes", "scan_output_directions"):
        if name in node.attributes:
            known = list(node.attributes[name].as_ints())
            node.attributes[name] = ir.AttrInt64s(name, [*known, 0])
