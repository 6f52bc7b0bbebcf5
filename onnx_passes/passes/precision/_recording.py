"""Record values of a model on the user's data, in the bodies of If, Loop and Scan as well.

ONNX Runtime runs the model as the gate does, with weights by reference or from files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.errors import EngineError, PassError
from onnx_passes.model.copy import copy_model
from onnx_passes.model.walk import subgraphs_of
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.precision._half_precision import WIDE
from onnx_passes.passes.replace import Namer
from onnx_passes.plain import Plain

OPSET = 11
"""The first opset in which floats can be compared."""
_STACKS = {"Loop": 1, "Scan": 9}
"""Operators that stack what a body gives, and the opset from which they do it as here."""


def watch(model: ir.Model, wanted: Collection[str]) -> dict[str, str]:
    """Let a model return the least and greatest finite element of values in its bodies.

    Each is an output of two elements: at most 0, and at least 0. A branch that is not taken
    gives zeros, and a loop the range over all iterations. The model is changed in place; its
    types have to be known. Values of the main graph and of types other than float32 are left
    out; there are none if the opset has no way to measure. Returns names of values by output;
    two branches may have values of one name.
    """
    opset, names = model.graph.opset_imports.get("", 1), frozenset(wanted)
    values = {v for v in inner_values(model) if v.name in names and _is_wide(v)}
    if opset < OPSET or not values:
        return {}
    found = {}
    for name, ends in list(_Watcher(model, values, opset).lift(model.graph)):
        model.graph.outputs.append(ends)
        found[str(ends.name)] = name
    return found


def inner_values(model: ir.Model) -> Iterator[ir.Value]:
    """Yield the values that bodies of the main graph have or compute, in order."""
    pending = [body for node in model.graph for body in subgraphs_of(node)]
    while pending:
        body = pending.pop()
        yield from body.inputs
        for node in body:
            yield from node.outputs
            pending.extend(subgraphs_of(node))


def _is_wide(value: ir.Value) -> bool:
    """Whether a value is a computed float32 tensor."""
    plain = isinstance(value.type, ir.TensorType) and value.dtype is WIDE
    return plain and constant_of(value) is None


class _Watcher:
    """Takes the ends of values out of the bodies of a model."""

    def __init__(self, model: ir.Model, values: set[ir.Value], opset: int) -> None:
        self._namer, self._values, self._opset = Namer(model), values, opset

    def lift(self, graph: ir.Graph) -> Iterator[tuple[str, ir.Value]]:
        """Yield names of values in bodies of a graph's nodes, and their ends in the graph."""
        for node in list(graph):
            bodies = list(subgraphs_of(node))
            stacks = self._opset >= _STACKS.get(node.op_type, 1 << 31)
            if not bodies or node.domain or not (stacks or node.op_type == "If"):
                continue
            for body in bodies:
                others = [other for other in bodies if other is not body]
                for name, inner in list(self._inside(body)):
                    ends = self._give(node, body, others, inner)
                    if stacks:
                        _add_axis(node)
                        ends = self._ends(graph, ends)
                    yield name, ends

    def _inside(self, body: ir.Graph) -> Iterator[tuple[str, ir.Value]]:
        made = [value for node in body for value in node.outputs]
        for value in (*body.inputs, *made):
            if value in self._values:
                yield str(value.name), self._ends(body, self._finite(body, value))
        yield from self.lift(body)

    def _give(
        self, node: ir.Node, body: ir.Graph, others: Sequence[ir.Graph], ends: ir.Value
    ) -> ir.Value:
        """Let a body return ends, other branches zeros, and the node what is returned."""
        body.outputs.append(ends)
        for other in others:
            other.outputs.append(self._constant(other, np.zeros(2, np.float32)))
        node.resize_outputs(len(node.outputs) + 1)
        given = node.outputs[-1]
        given.name, given.type = self._namer.value(ends.name), ir.TensorType(WIDE)
        return given

    def _ends(self, graph: ir.Graph, value: ir.Value) -> ir.Value:
        """Return the least and the greatest element: at most 0, and at least 0."""
        zero = self._constant(graph, np.zeros(1, np.float32))
        flat = self._node(graph, "Reshape", value, self._constant(graph, np.array([-1])))
        some = self._node(graph, "Concat", flat, zero, axis=0)
        low, high = (self._node(graph, kind, some) for kind in ("ReduceMin", "ReduceMax"))
        ends = self._node(graph, "Concat", low, high, axis=0)
        ends.type, ends.shape = ir.TensorType(WIDE), ir.Shape([2])
        return ends

    def _finite(self, graph: ir.Graph, value: ir.Value) -> ir.Value:
        """Return a value with 0 for elements that are not finite."""
        zero = self._constant(graph, np.zeros(1, np.float32))
        # Inf minus itself is NaN, as NaN is, and no NaN equals 0.
        known = self._node(graph, "Equal", self._node(graph, "Sub", value, value), zero)
        return self._node(graph, "Where", known, value, zero)

    def _constant(self, graph: ir.Graph, array: Array) -> ir.Value:
        made = self._node(graph, "Constant", value=ir.tensor(array))
        made.type = ir.TensorType(ir.DataType.from_numpy(array.dtype))
        return made

    def _node(
        self, graph: ir.Graph, operator: str, *inputs: ir.Value, **attributes: Plain
    ) -> ir.Value:
        """Add a node to the end of a graph, and return what it computes."""
        node = ir.node(operator, list(inputs), attributes)
        (made,) = node.outputs
        made.name = self._namer.value("watched")
        node.name = self._namer.node(made.name)
        graph.append(node)
        return made


def _add_axis(node: ir.Node) -> None:
    for name in ("scan_output_axes", "scan_output_directions"):
        if name in node.attributes:
            known = list(node.attributes[name].as_ints())
            node.attributes[name] = ir.AttrInt64s(name, [*known, 0])


def read_feeds(paths: Sequence[str], pass_: str) -> list[dict[str, Array]]:
    """Read samples: each .npz file holds the inputs of one run by name.

    A PassError names a file that cannot be read.
    """
    found = []
    for path in paths:
        try:
            with np.load(Path(path), allow_pickle=False) as arrays:
                found.append({name: arrays[name] for name in arrays.files})
        except (OSError, ValueError, AttributeError) as error:
            raise PassError(
                f"{pass_}: the data {path!r} cannot be read: {error}",
                help="give .npz files, each with the inputs of one run by name",
            ) from error
    return found


def record(
    model: ir.Model,
    feeds: Sequence[Mapping[str, Array]],
    names: Collection[str],
    pass_: str,
    *,
    bodies: bool = False,
) -> Iterator[dict[str, Array]]:
    """Run a model as it is written, and yield some of its float values for each sample.

    Types of the model have to be known, and constants and values that are not float are left
    out. With ``bodies``, an array of shape [2] is yielded for values in bodies: the least and
    greatest finite element over all iterations, at most and at least 0. A PassError says that
    ONNX Runtime does not run the model on the data.
    """
    wanted = set(names)
    watched: dict[str, str] = {}
    if bodies:
        model = copy_model(model)
        watched = watch(model, wanted)
    inputs = {str(v.name) for v in model.graph.inputs} & wanted
    inner = [
        str(v.name)
        for node in model.graph
        if node.op_type != "Constant"
        for v in node.outputs
        if v.name in wanted and v.dtype is ir.DataType.FLOAT
    ]
    for feed, arrays in zip(feeds, _run(model, feeds, [*inner, *watched], pass_), strict=True):
        found = _join_ranges((name, arrays[end]) for end, name in watched.items())
        found |= {name: arrays[name] for name in inner}
        yield found | {name: np.asarray(feed[name]) for name in inputs if name in feed}


def _run(
    model: ir.Model, feeds: Sequence[Mapping[str, Array]], asked: Sequence[str], pass_: str
) -> Iterator[dict[str, Array]]:
    """Yield values and outputs of a model by name, sample by sample."""
    from onnx_passes.runtime.ort import OnnxRuntimeEngine  # slow to import

    if not asked:
        yield from ({} for _ in feeds)
        return
    shown = copy_model(model)
    known = {value.name for value in shown.graph.outputs}
    made = {value.name: value for node in shown.graph for value in node.outputs}
    shown.graph.outputs.extend(made[name] for name in asked if name not in known)
    try:
        # Prepacked weights have other kernels, whose last bits differ from those of the gate.
        with OnnxRuntimeEngine(prepacking=False).prepare(shown) as session:
            for feed in feeds:
                found = session.run(feed, asked)
                yield {name: np.asarray(value) for name, value in found.items()}
    except EngineError as error:
        raise PassError(
            f"{pass_}: ONNX Runtime does not run the model on the data: {error.message}",
            help="each sample needs every input of the model by name, in its type and shape",
        ) from error


def _join_ranges(ranges: Iterable[tuple[str, Array]]) -> dict[str, Array]:
    """Return one range for each name."""
    found: dict[str, Array] = {}
    for name, ends in ranges:
        low, high = found.get(name, ends)
        found[name] = np.array([min(low, ends[0]), max(high, ends[1])], np.float32)
    return found
