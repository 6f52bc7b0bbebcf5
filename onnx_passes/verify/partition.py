"""A model in parts that are taken whole, and the rest, to run one after the other."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.errors import ModelError
from onnx_passes.model.extract import Cut, extract
from onnx_passes.model.walk import captured_values, topological_order


@dataclass(frozen=True)
class ModelPart:
    """One part of a model.

    Attributes:
        supported: Whether it holds none of the nodes that are set apart.
        model: It, as a model; weights are shared.
    """

    supported: bool
    model: ir.Model


def parts_of(model: ir.Model, apart: Collection[ir.Node]) -> list[ModelPart]:
    """Cut a model so that some nodes are in parts without others.

    Each node goes to the earliest part that can hold it, which keeps the number of parts as
    small as the longest change between the two kinds on any path. Constants go to each part
    that reads them.

    Args:
        model: The model; types of inner values are known. It is not changed.
        apart: Nodes of its main graph.

    Returns:
        The parts in the order in which they run, fed by name.

    Raises:
        ModelError: A type at a cut is not known.
    """
    level: dict[ir.Node, int] = {}
    free = {
        value
        for node in model.graph
        for value in node.outputs
        if node.op_type == "Constant" and not node.domain and node not in apart
    }
    order = [
        node
        for node in topological_order(model.graph)
        if not all(v in free and not v.is_graph_output() for v in node.outputs)
    ]
    for node in order:
        makers = [maker for v in _reads(node) if (maker := v.producer()) in level]
        least = max((level[maker] for maker in makers if maker is not None), default=0)
        # Even parts are taken, odd ones are not.
        level[node] = least + (least % 2 != (node in apart))
    last_read: dict[ir.Value, int] = {}
    for node in order:
        for value in _reads(node):
            last_read[value] = max(level[node], last_read.get(value, 0))
    found = []
    for number in sorted(set(level.values())):
        nodes = [node for node in order if level[node] == number]
        made = {v for node in nodes for v in node.outputs}
        outs = [
            v
            for node in nodes
            for v in node.outputs
            if v.is_graph_output() or last_read.get(v, -1) > number
        ]
        ins = dict.fromkeys(v for n in nodes for v in _reads(n) if v not in made)
        starts = [Cut(_typed(v)) for v in ins if v not in free and not _weight(v)]
        ends = [Cut(str(v.name)) for v in outs]
        if ends:
            found.append(ModelPart(number % 2 == 0, extract(model, starts, ends)))
    return found


def _weight(value: ir.Value) -> bool:
    return value.is_initializer() and not value.is_graph_input()


def _typed(value: ir.Value) -> str:
    if value.type is None:
        raise ModelError(
            f"the model cannot be cut at {value.name!r}: its type is not known",
            help="declare it in the value_info of the model",
        )
    return str(value.name)


def _reads(node: ir.Node) -> list[ir.Value]:
    return [v for v in (*node.inputs, *captured_values(node)) if v is not None]
