"""The part of a graph that a group is, and the part behind it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import onnx_ir as ir

from onnx_passes.model.walk import captured_values
from onnx_passes.runtime.base import Array
from onnx_passes.tuning.groups import Group
from onnx_passes.verify.region import Region, boundary_of, is_constant_node, region_model


class Regions:
    """Regions of one model.

    Args:
        model: As :func:`onnx_passes.tuning.groups.prepare` returns it.
    """

    def __init__(self, model: ir.Model) -> None:
        self.model = model
        self._nodes = {
            str(node.name): node for node in model.graph if not is_constant_node(node)
        }
        self._readers: dict[ir.Value, list[ir.Node]] = defaultdict(list)
        for node in self._nodes.values():
            for value in (*node.inputs, *captured_values(node)):
                if value is not None:
                    self._readers[value].append(node)

    def of(self, group: Group) -> Region:
        """Return the nodes of a group, what they read, and what others read of them."""
        members = [self._nodes[name] for name in group.nodes]
        inside = set(members)
        frontier = [
            str(value.name)
            for node in members
            for value in node.outputs
            if value.is_graph_output() or not inside.issuperset(self._readers[value])
        ]
        return Region(tuple(members), boundary_of(members), tuple(frontier))

    def behind(self, group: Group) -> Region | None:
        """Return all that depends on a group; None if nothing does."""
        members = {self._nodes[name] for name in group.nodes}
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

    def share(self, region: Region | None, costs: Mapping[str, float]) -> float:
        """Return which part of the model's operations a region has.

        Args:
            region: The region.
            costs: Operations by name of a node.
        """
        total = sum(costs.values())
        own = sum(costs.get(str(n.name), 0.0) for n in (region.nodes if region else ()))
        return own / total if total else 0.0


def needed_values(regions: Iterable[Region | None]) -> set[str]:
    """Return the names of all values that regions are fed with."""
    return {name for region in regions if region is not None for name in region.boundary}
