"""Branches and loop bodies that hand out a value of the graph around them, or one twice."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import onnx

from onnx_passes.model.protos import all_bodies, graphs_of, place_of


def hand_out(model: onnx.ModelProto) -> list[str]:
    """Give such a value an Identity inside the branch, in place.

    onnx-ir makes a new value for one from around that nothing produces, so that its producer
    looks unused and a cleanup removes it. ONNX Runtime refuses such branches, and advises the
    Identity. It takes outputs that are listed twice, which are not valid.

    Returns:
        What was changed, one sentence each.
    """
    taken = {name for _, body in all_bodies(model) for name in _own(body)}
    fresh = (name for n in count() if (name := f"handed_out_{n}") not in taken)
    notes: list[str] = []
    for body in (model.graph, *model.functions):
        _visit(body, _own(body), fresh, notes)
    return notes


def _own(body: onnx.GraphProto | onnx.FunctionProto) -> set[str]:
    """List the names that a body gives."""
    made = {name for node in body.node for name in node.output}
    if isinstance(body, onnx.FunctionProto):
        return made | set(body.input)
    made.update(value.name for value in body.input)
    return made | {tensor.name for tensor in body.initializer}


def _visit(
    body: onnx.GraphProto | onnx.FunctionProto,
    known: set[str],
    fresh: Iterator[str],
    notes: list[str],
) -> None:
    for node in body.node:
        for graph in graphs_of(node.attribute):
            own = _own(graph)
            listed: set[str] = set()
            for output in graph.output:
                name, twice = output.name, output.name in listed
                listed.add(name)
                # A name that is nowhere is refused later.
                if twice or (name not in own and name in known):
                    output.name = next(fresh)
                    graph.node.add(op_type="Identity", input=[name], output=[output.name])
                    where = "twice" if twice else "of the graph around it"
                    notes.append(
                        f"graph '{graph.name}' of {place_of(node)} hands out '{name}' "
                        f"{where}; an Identity was put between"
                    )
            _visit(graph, known | own, fresh, notes)
