"""The part of a graph that a group is, and the part behind it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.model.walk import captured_values, graphs_within, subgraphs_of
from onnx_passes.tuning.groups import FormatGroup, weight_of
from onnx_passes.verify.region import Region, boundary_of, is_constant_node
from onnx_passes.verify.region_models import region_model


class ModelRegions:
    """Regions of one model.

    Args:
        model: As :func:`onnx_passes.tuning.groups.prepare` returns it.
    """

    def __init__(self, model: ir.Model) -> None:
        self.model = model
        self._nodes = {
            str(node.name): node for node in model.graph if not is_constant_node(node)
        }
        self._roots = {
            str(inner.name): node
            for node in self._nodes.values()
            for inner in (node, *nodes_within(node))
        }
        self._readers: dict[ir.Value, list[ir.Node]] = defaultdict(list)
        for node in self._nodes.values():
            for value in (*node.inputs, *captured_values(node)):
                if value is not None:
                    self._readers[value].append(node)

    def of(self, group: FormatGroup) -> Region:
        """Return the nodes of a group, what they read, and what others read of them.

        In place of a node in a body is the node of the main graph that has the body.

        Args:
            group: The group.
        """
        members = self._members(group)
        inside = set(members)
        frontier = [
            str(value.name)
            for node in members
            for value in node.outputs
            if value.is_graph_output() or not inside.issuperset(self._readers[value])
        ]
        return Region(tuple(members), boundary_of(members), tuple(frontier))

    def _members(self, group: FormatGroup) -> list[ir.Node]:
        found = {self._roots[name] for name in group.nodes if name in self._roots}
        return [node for node in self._nodes.values() if node in found]

    def others(self, group: FormatGroup) -> set[str]:
        """Return the names of nodes in bodies that are run with a group, but are not of it.

        Args:
            group: The group.
        """
        members = self._members(group)
        every = {str(inner.name) for node in members for inner in nodes_within(node)}
        every |= {str(node.name) for node in members}
        return every - set(group.nodes)

    def behind(self, group: FormatGroup) -> Region | None:
        """Return all that depends on a group; None if nothing does."""
        members = set(self._members(group))
        pending, found = list(members), set[ir.Node]()
        while pending:
            for value in pending.pop().outputs:
                for reader in self._readers[value]:
                    if reader not in found and reader not in members:
                        found.add(reader)
                        pending.append(reader)
        nodes = [node for node in self._nodes.values() if node in found]
        if not nodes:
            return None
        ends = {str(v.name) for v in self.model.graph.outputs}
        made = [str(v.name) for node in nodes for v in node.outputs if v.name in ends]
        return Region(tuple(nodes), boundary_of(nodes), tuple(made))

    def build(self, region: Region, rows: Sequence[Mapping[str, Array]]) -> ir.Model:
        """Return a region as a model from its boundary to its frontier.

        Args:
            region: The region.
            rows: Recorded values by name, one mapping a sample, arrays of the shapes in the
                model.
        """
        inner = {str(v.name) for node in region.nodes for v in node.outputs}
        return region_model(self.model, region, rows, inner - set(region.frontier))

    def own_share(self, group: FormatGroup, costs: Mapping[str, float]) -> float:
        """Return which part of the operations of what is run with a group are its own.

        Args:
            group: The group.
            costs: Operations by name of a node.
        """
        own = sum(costs.get(name, 0.0) for name in group.nodes)
        rest = sum(costs.get(name, 0.0) for name in self.others(group))
        return own / (own + rest) if own + rest else 0.0

    def is_unseen(self, group: FormatGroup, ranges: Mapping[str, tuple[float, float]]) -> bool:
        """Whether all layers of a group are in bodies that do not run on the data.

        Args:
            group: The group.
            ranges: Recorded ranges of values by name.
        """
        layers = [
            node
            for node in self.model.graph.all_nodes()
            if node.name in group.nodes and weight_of(node) is not None
        ]
        return bool(layers) and all(
            node.name not in self._nodes
            and all(ranges.get(str(v.name), (0.0, 0.0)) == (0.0, 0.0) for v in node.outputs)
            for node in layers
        )

    def share(self, region: Region | None, costs: Mapping[str, float]) -> float:
        """Return which part of the model's operations a region has.

        Args:
            region: The region.
            costs: Operations by name of a node.
        """
        total = sum(costs.values())
        nodes = [i for n in (region.nodes if region else ()) for i in (n, *nodes_within(n))]
        own = sum(costs.get(str(node.name), 0.0) for node in nodes)
        return own / total if total else 0.0


def nodes_within(node: ir.Node) -> list[ir.Node]:
    """Return the nodes in the bodies of a node, those of inner bodies among them.

    Args:
        node: Any node.
    """
    return [n for body in subgraphs_of(node) for g in graphs_within(body) for n in g]


def list_needed_values(regions: Iterable[Region | None]) -> set[str]:
    """Return the names of all values that regions are fed with."""
    return {name for region in regions if region is not None for name in region.boundary}
