"""Values that enter and leave the bodies of If, Loop and Scan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.model.walk import graphs_within, subgraphs_of

OPSET = 9
"""The first opset whose Scan has no batch."""


@dataclass(frozen=True)
class Crossing:
    """The places of a node and its bodies that have one type.

    Attributes:
        entry: Number of the node's input; None if nothing enters.
        exit: Number of its output; None if nothing leaves.
        inside: Numbers of the input and output of each body.
    """

    entry: int | None
    exit: int | None
    inside: tuple[tuple[int | None, int | None], ...]


def crossings_of(node: ir.Node) -> Iterator[Crossing]:
    """Yield what enters and leaves the bodies of a node, by place.

    Args:
        node: Any node; nothing is yielded but for If, Loop and Scan.
    """
    bodies = list(subgraphs_of(node))
    if node.domain or not bodies:
        return
    if node.op_type == "If":
        for place in range(len(node.outputs)):
            yield Crossing(None, place, tuple((None, place) for _ in bodies))
        return
    if node.op_type not in ("Loop", "Scan") or len(bodies) != 1:
        return
    # A body of Loop has a number and a condition in front, and returns a condition.
    first, back = (2, 1) if node.op_type == "Loop" else (0, 0)
    scanned = node.attributes.get_int("num_scan_inputs", 0)
    states = len(node.inputs) - first - scanned
    for place in range(states):
        inside = ((first + place, back + place),)
        yield Crossing(first + place, place, inside)
    for place in range(states, states + scanned):
        yield Crossing(place, None, ((place, None),))
    for place in range(states, len(node.outputs)):
        yield Crossing(None, place, ((None, back + place),))


class Crossings:
    """Where values of a model go at the ends of bodies.

    Args:
        model: The model.
    """

    def __init__(self, model: ir.Model) -> None:
        self._entered: dict[ir.Value, list[ir.Value]] = {}
        if model.graph.opset_imports.get("", 1) < OPSET:
            return
        for graph in graphs_within(model.graph):
            for node in graph:
                for crossing in crossings_of(node):
                    self._note(node, crossing)

    def behind(self, value: ir.Value) -> list[ir.Value]:
        """Return the values on the other side of the ends of bodies that are the same value.

        Args:
            value: A value that a node reads, or a body returns.
        """
        return self._entered.get(value, [])

    def _note(self, node: ir.Node, crossing: Crossing) -> None:
        bodies = list(subgraphs_of(node))
        given = node.inputs[crossing.entry] if crossing.entry is not None else None
        for body, (enters, leaves) in zip(bodies, crossing.inside, strict=True):
            if given is not None and enters is not None:
                self._entered.setdefault(given, []).append(body.inputs[enters])
            if crossing.exit is not None and leaves is not None:
                outer = node.outputs[crossing.exit]
                self._entered.setdefault(body.outputs[leaves], []).append(outer)
