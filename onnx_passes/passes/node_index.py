"""The nodes of a model by operator, found in one walk for the drivers of many passes."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_passes.model.walk import subgraphs_of

Container = ir.Graph | ir.Function
Operator = tuple[str, str]
"""Domain and type of an operator."""


@dataclass
class NodeIndex:
    """The nodes of a model in order, those of subgraphs behind those of the graph around them.

    It holds only as long as no node is added or removed.

    Attributes:
        model: The model.
        nodes: Each node with the graph or function that it is in.
        places: Positions among them, by operator.
    """

    model: ir.Model
    nodes: list[tuple[Container, ir.Node]] = field(default_factory=list)
    places: dict[Operator, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, model: ir.Model) -> NodeIndex:
        """Walk over a model, and note what its Constant nodes hold."""
        index = cls(model)
        nodes, places = index.nodes, index.places
        pending: list[Container] = [*reversed(model.functions.values())]
        pending.append(model.graph)
        while pending:
            container, nested = pending.pop(), list[Container]()
            for node in container:
                place = places.setdefault((node.domain, node.op_type), [])
                place.append(len(nodes))
                nodes.append((container, node))
                nested.extend(subgraphs_of(node))
            pending.extend(reversed(nested))
        note_constants(nodes[i][1] for i in places.get(("", "Constant"), ()))
        return index

    def rooted(self, operators: Collection[Operator]) -> Iterator[tuple[Container, ir.Node]]:
        """Yield the nodes of some operators, in order.

        Args:
            operators: Domains and types.
        """
        found = [self.places[o] for o in operators if o in self.places]
        for place in found[0] if len(found) == 1 else heapq.merge(*found):
            yield self.nodes[place]


def note_constants(nodes: Iterable[ir.Node]) -> None:
    """Fill in ``const_value``, from which patterns read constants, for Constant nodes.

    Types and shapes stay as they are: those of a graph output are its user's.

    Args:
        nodes: Any nodes; only Constant nodes are read.
    """
    for node in nodes:
        if node.op_type == "Constant" and node.domain == "" and len(node.attributes) == 1:
            (attribute,) = node.attributes.values()
            if not attribute.is_ref() and attribute.name != "sparse_value":
                (value,) = node.outputs
                value.const_value = ir.convenience.get_const_tensor(value)
