"""Sides of rewrites as models of their own, and many of them as one model."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.errors import EngineError
from onnx_passes.model.walk import all_nodes
from onnx_passes.runtime.engine_base import Engine, Feeds, Finding
from onnx_passes.verify.cut import makers_of, values_of
from onnx_passes.verify.region import Region
from onnx_passes.verify.region_models import region_model
from onnx_passes.verify.witness import ApplicationPieces, Side

_MORE = r"[\w./:+{}\[\]-]"
"""What may stand before and behind the name of a node in that of a layer."""


@dataclass(frozen=True)
class Part:
    """One side of a rewrite, as a model of its own.

    Attributes:
        model: Its nodes. Inputs have the types and shapes that were recorded.
        rows: The values that its inputs were recorded with, by sample.
        nodes: What its nodes are called, by the names that they have here.
        prefix: What stands before the names of its values here; empty for nothing.
    """

    model: ir.Model
    rows: Sequence[Mapping[str, Array]]
    nodes: Mapping[str, str]
    prefix: str = ""

    @property
    def kind(self) -> Hashable:
        """Its operators, in order, and the types and ranks that they read."""
        inputs = [
            (v.dtype, None if v.shape is None else v.shape.rank())
            for v in self.model.graph.inputs
        ]
        return tuple(node.op_identifier() for node in self.model.graph), tuple(inputs)


def record(
    before: ir.Model,
    after: ir.Model,
    pieces: Iterable[ApplicationPieces],
    feeds: Feeds,
    engine: Engine,
) -> dict[str, Array]:
    """Return the values at the borders of rewrites, of one run of each model.

    Args:
        before: The model before.
        after: The model after.
        pieces: The rewrites.
        feeds: A sample.
        engine: What runs both.
    """
    arrays: dict[str, Array] = {}
    sides = [(piece.old, piece.new) for piece in pieces]
    for model, index in ((before, 0), (after, 1)):
        values = {v for pair in sides for v in (*pair[index].read(), *pair[index].outputs)}
        wanted = {str(value.name) for value in values} - arrays.keys()
        try:
            found = values_of(model, wanted, feeds, engine)
        except EngineError:
            continue
        arrays |= {name: v for name, v in found.items() if isinstance(v, np.ndarray)}
    return arrays


def side_part(
    prefix: str, model: ir.Model, side: Side, arrays: Mapping[str, Array], *, static: bool
) -> Part | None:
    """Return a side of a rewrite as a model of its own.

    Args:
        prefix: What the names of its values and nodes are to begin with.
        model: The model that the side is of.
        side: The side.
        arrays: Values by name, of the shapes and types in the model.
        static: Whether inputs have the shapes of these values; else their dimensions are free.

    Returns:
        The part; None if it computes nothing, or a value at its border is not known.
    """
    read = [str(value.name) for value in side.read()]
    computed = {value for node in side.nodes for value in node.outputs}
    ends = [str(value.name) for value in side.outputs if value in computed]
    part = make_part(model, (side.nodes, read, ends), [arrays], static=static)
    return part and with_prefix(part, prefix)


def make_part(
    model: ir.Model,
    cut: tuple[Sequence[ir.Node], Sequence[str], Sequence[str]],
    rows: Sequence[Mapping[str, Array]],
    *,
    static: bool,
) -> Part | None:
    """Return some nodes as a model of their own.

    Args:
        model: The model that the nodes are of.
        cut: The nodes in order, the names of what they read, and of what they are to return.
        rows: Values by name, by sample, of the shapes and types in the model.
        static: Whether inputs have the shapes of these values, where all samples agree; else
            their dimensions are free.

    Returns:
        The part; None if it computes nothing, or a value at its border is not known.
    """
    nodes, read, ends = cut
    if not ends or not all(row.keys() >= {*read, *ends} for row in rows):
        return None
    wanted = dict.fromkeys(ends)
    inner = {str(v.name) for node in nodes for v in node.outputs} - wanted.keys()
    part = region_model(model, Region(tuple(nodes), tuple(read), ()), rows, inner)
    first = rows[0]
    for value in part.graph.inputs if static else ():
        first_shape, *others = {row[str(value.name)].shape for row in rows}
        if not others:
            value.shape = ir.Shape(first_shape)
    made = {str(value.name): value for value in part.graph.outputs}
    part.graph.outputs[:] = [made[name] for name in wanted]
    for value in part.graph.outputs:
        array = first[str(value.name)]
        value.type = ir.TensorType(ir.DataType.from_numpy(array.dtype))
        value.shape = ir.Shape([None] * array.ndim)
    names: dict[str, str] = {}
    makers = makers_of(model)
    for number, node in enumerate(part.graph):
        result = str(node.outputs[0].name)
        own = makers.get(result, node)
        shown = own.name or result
        node.name = str(number)
        names[node.name] = f"{shown} ({node.op_type})"
    return Part(part, [{name: row[name] for name in read} for row in rows], names)


def with_prefix(part: Part, prefix: str) -> Part:
    """Return a copy of a part whose nodes and values have a prefix, and a dot behind it.

    Args:
        part: The part.
        prefix: The prefix, without the dot.
    """
    model = part.model.clone()
    names: dict[str, str] = {}
    for node in model.graph:
        shown = part.nodes[str(node.name)]
        node.name = f"{prefix}.{node.name}"
        names[node.name] = shown
    _prefix_values(model, prefix)
    rows = [{f"{prefix}.{name}": array for name, array in row.items()} for row in part.rows]
    return Part(model, rows, names, prefix)


def is_left(piece: ApplicationPieces, made: set[str]) -> bool:
    """Whether a model still has what a rewrite put there, by the names that it computes.

    Args:
        piece: Both sides of the rewrite.
        made: Names of the values that the model computes.
    """
    return all(str(v.name) in made for node in piece.new.nodes for v in node.outputs if v.name)


def _prefix_values(part: ir.Model, prefix: str) -> None:
    initializers = list(part.graph.initializers.values())
    part.graph.initializers.clear()
    values = dict.fromkeys(chain(part.graph.inputs, initializers))
    values |= dict.fromkeys(v for node in part.graph for v in node.outputs)
    for value in values:
        value.name = f"{prefix}.{value.name}" if value.name else value.name
    for value in initializers:
        part.graph.register_initializer(value)


def side_by_side(parts: Sequence[Part]) -> ir.Model:
    """Return one model of copies of all parts."""
    models = [part.model.clone() for part in parts]
    graphs = [model.graph for model in models]
    inputs = [value for graph in graphs for value in graph.inputs]
    outputs = [value for graph in graphs for value in graph.outputs]
    initializers = [value for graph in graphs for value in graph.initializers.values()]
    nodes: list[ir.Node] = []
    for graph in graphs:
        own = list(graph)
        graph.outputs.clear()
        graph.inputs.clear()
        graph.initializers.clear()
        graph.remove(own)
        nodes += own
    first = models[0]
    body = ir.Graph(
        inputs,
        outputs,
        nodes=nodes,
        initializers=initializers,
        opset_imports=dict(first.graph.opset_imports),
        name="regions",
    )
    made = ir.Model(body, ir_version=first.ir_version, functions=[*first.functions.values()])
    used = {node.op_identifier() for node in all_nodes(made)}
    for identifier in made.functions.keys() - used:
        del made.functions[identifier]
    return made


def told(finding: Finding, part: Part) -> str:
    """Return what a compiler says of a part, its own layers beside the nodes of the model.

    TensorRT names the layers of a node after it, with endings of its own.

    Args:
        finding: What the compiler found.
        part: The part that it got.
    """
    reason, layers = finding.reason, list[str]()
    for name, shown in part.nodes.items():
        for layer in dict.fromkeys(
            re.findall(rf"(?<!{_MORE}){_MORE}*{re.escape(name)}{_MORE}*", reason)
        ):
            own = layer.replace(name, shown.partition(" ")[0])
            if own != shown.partition(" ")[0]:
                layers.append(f"its layer {own!r} is of node {shown}")
            reason = reason.replace(layer, own)
    aside = f" ({'; '.join(layers)})" if layers else ""
    return f"{finding.level}, {' '.join(reason.split())}{aside}"


def own_name(layer: str, part: Part) -> str:
    """Return the name of a layer with the names that nodes have in the model.

    Args:
        layer: The name that the compiler gives.
        part: The part, with the names of its nodes in the model.
    """
    for name in sorted(part.nodes, key=len, reverse=True):
        layer = layer.replace(name, part.nodes[name].partition(" ")[0])
    return layer


def names_part(reason: str, part: Part) -> bool:
    """Whether what a compiler says names a node of a part.

    Args:
        reason: What the compiler says.
        part: The part.
    """
    # A number that follows belongs to another node's name.
    return any(re.search(rf"(?<![\w.]){re.escape(n)}(?!\d)", reason) for n in part.nodes)
