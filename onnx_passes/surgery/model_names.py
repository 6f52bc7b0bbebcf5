"""Names of values and nodes, and what a model says of itself."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnx_passes.errors import UsageError
from onnx_passes.model.walk import all_graphs
from onnx_passes.surgery.arguments import near


def rename(
    model: ir.Model, values: Mapping[str, str], nodes: Mapping[str, str] | None = None
) -> None:
    """Give values and nodes other names; inputs and outputs too, for callers to follow.

    Args:
        model: The model, changed in place.
        values: New names of values by old ones. Two may change places.
        nodes: New names of nodes by old ones.

    Raises:
        UsageError: There is no such name, or a new one is taken.
    """
    named: dict[str, list[ir.Value]] = {}
    made: dict[str, list[ir.Node]] = {}
    for graph in all_graphs(model):
        own = [*graph.inputs, *(v for node in graph for v in node.outputs)]
        initializers = graph.initializers.values() if isinstance(graph, ir.Graph) else ()
        for value in dict.fromkeys([*own, *initializers]):
            named.setdefault(str(value.name), []).append(value)
        for node in graph:
            made.setdefault(str(node.name), []).append(node)
    _check("value", values, named)
    _check("node", nodes or {}, made)
    for old in values:  # first out of each other's way
        for value in named[old]:
            value.name = f"{old}\0"
    for old, new in values.items():
        for value in named[old]:
            value.name = new
    for old, new in (nodes or {}).items():
        for node in made[old]:
            node.name = new


def set_metadata(
    model: ir.Model,
    properties: Mapping[str, str | None],
    *,
    producer: str | None = None,
    doc: str | None = None,
) -> None:
    """Set what a model says of itself.

    Args:
        model: The model, changed in place.
        properties: Metadata by key; None removes a key.
        producer: Name of the program that made it.
        doc: Its documentation.

    Raises:
        UsageError: A key that is to be removed is not there.
    """
    for key, value in properties.items():
        if value is not None:
            model.metadata_props[key] = value
        elif key in model.metadata_props:
            del model.metadata_props[key]
        else:
            raise UsageError(
                f"the model has no metadata {key!r}", help=near(key, model.metadata_props)
            )
    if producer is not None:
        model.producer_name = producer
    if doc is not None:
        model.doc_string = doc


def _check(what: str, wanted: Mapping[str, str], there: Mapping[str, object]) -> None:
    for old, new in wanted.items():
        if old not in there:
            raise UsageError(f"the model has no {what} {old!r}", help=near(old, there))
        if not new:
            raise UsageError(f"the {what} {old!r} cannot have an empty name")
        if new in there and new not in wanted:
            raise UsageError(f"the name {new!r} is taken", help="choose another")
    twice = [new for new in wanted.values() if list(wanted.values()).count(new) > 1]
    if twice:
        raise UsageError(f"two are to be named {twice[0]!r}")
