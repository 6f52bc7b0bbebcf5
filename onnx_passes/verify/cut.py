"""The part in which two models differ, as two small models of one interface."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from onnx_passes.model.walk import captured_values
from onnx_passes.passes.constants import is_constant
from onnx_passes.runtime.engine_base import Data, Engine, Feeds
from onnx_passes.verify.region import Region, changed_region
from onnx_passes.verify.region_models import region_model

Parts = tuple[ir.Model, ir.Model, dict[str, Data]]
"""Two parts of models and the values of their inputs."""


def cut(before: ir.Model, after: ir.Model, feeds: Feeds, engine: Engine) -> Parts | None:
    """Cut out what changed between two models, with the values at its boundary.

    Args:
        before: The model that is right.
        after: The model that is not.
        feeds: A sample for both.
        engine: What ``before`` is run on for the boundary values.

    Returns:
        The nodes that were replaced, those in their place, and inputs for both. None if names
        do not show the change, nothing that is read on changed, or a value at the boundary is
        not a tensor.

    Raises:
        EngineError: ``before`` does not run.
    """
    new, old = changed_region(before, after), changed_region(after, before)
    if new is None or old is None or not new.nodes or not old.nodes or not new.frontier:
        return None
    boundary = tuple(dict.fromkeys((*old.boundary, *new.boundary)))
    computed = {str(value.name) for node in old.nodes for value in node.outputs}
    if not computed.issuperset(new.frontier):
        return None
    return _parts(
        (before, after), (old.nodes, new.nodes), boundary, new.frontier, feeds, engine
    )


def values_of(
    model: ir.Model, names: Iterable[str], feeds: Feeds, engine: Engine
) -> dict[str, Data]:
    """Return values of a model's main graph, by one run of it.

    Args:
        model: The model; it is not changed.
        names: The values wanted; those that the graph neither reads nor computes are left out.
        feeds: A sample.
        engine: What runs it.

    Raises:
        EngineError: The model does not run, or one of the values cannot be an output.
    """
    wanted = set(names)
    found = {name: data for name, data in feeds.items() if name in wanted}
    for value in model.graph.inputs:
        # What a caller does not give has its default.
        if value.name in wanted - found.keys() and value.const_value is not None:
            found[str(value.name)] = value.const_value.numpy()
    inner = [
        str(value.name)
        for node in model.graph
        for value in node.outputs
        if value.name in wanted and value.name not in found
    ]
    if not inner:
        return found
    exposed = model.clone()
    known = {str(value.name) for value in exposed.graph.outputs}
    exposed.graph.outputs.extend(
        value
        for node in exposed.graph
        for value in node.outputs
        if value.name in inner and value.name not in known
    )
    with engine.prepare(exposed) as session:
        return found | session.run(feeds, inner)


def around(
    before: ir.Model, after: ir.Model, name: str, feeds: Feeds, engine: Engine
) -> Parts | None:
    """Cut out what computes one value, down to values that both models have in common.

    Args:
        before: The model that is right.
        after: The model that is not.
        name: A value of both, the first that differs, so that what is before it agrees.
        feeds: A sample for both.
        engine: What ``before`` is run on.

    Returns:
        The two parts and inputs for both; None where no part can be cut out.

    Raises:
        EngineError: ``before`` does not run.
    """
    old, new = makers_of(before), makers_of(after)
    if name not in old or name not in new:
        return None
    common = (old.keys() & new.keys()) - {name}
    common |= {str(value.name) for value in before.graph.inputs}
    cuts = [_behind(model, name, common) for model in (before, after)]
    boundary = tuple(dict.fromkeys(n for _, names in cuts for n in names))
    nodes = [nodes for nodes, _ in cuts]
    if not all(nodes):
        return None
    return _parts((before, after), nodes, boundary, (name,), feeds, engine)


def makers_of(model: ir.Model) -> dict[str, ir.Node]:
    """Return the node of the main graph that computes each value, by name."""
    return {str(v.name): node for node in model.graph for v in node.outputs if v.name}


def _behind(
    model: ir.Model, name: str, common: set[str]
) -> tuple[tuple[ir.Node, ...], list[str]]:
    """Return the nodes from common values to the one named, and the common values read."""
    makers = makers_of(model)
    needed: set[ir.Node] = set()
    read: dict[str, None] = {}
    pending = [makers[name]]
    while pending:
        node = pending.pop()
        if node in needed:
            continue
        needed.add(node)
        for value in (*node.inputs, *captured_values(node)):
            if value is None or is_constant(value):
                continue
            maker = makers.get(str(value.name))
            if str(value.name) in common or maker is None:
                read[str(value.name)] = None
            else:
                pending.append(maker)
    return tuple(node for node in model.graph if node in needed), list(read)


def _parts(
    models: Sequence[ir.Model],
    nodes: Sequence[tuple[ir.Node, ...]],
    boundary: tuple[str, ...],
    frontier: tuple[str, ...],
    feeds: Feeds,
    engine: Engine,
) -> Parts | None:
    found = values_of(models[0], boundary, feeds, engine)
    values = {n: v for n in boundary if isinstance(v := found.get(n), np.ndarray)}
    if len(values) < len(boundary):
        return None
    parts = []
    for model, chosen in zip(models, nodes, strict=True):
        # Cloned, because nodes left out of the part still count as readers of its weights.
        part = region_model(model, Region(chosen, boundary, frontier), [values]).clone()
        outputs = {str(value.name): value for value in part.graph.outputs}
        part.graph.outputs.clear()
        part.graph.outputs.extend(outputs[name] for name in frontier)
        RemoveUnusedNodesPass()(part)
        _drop_unused_functions(part)
        parts.append(part)
    return parts[0], parts[1], dict(values)


def _drop_unused_functions(model: ir.Model) -> None:
    used: set[ir.OperatorIdentifier] = set()
    graphs: list[ir.Graph | ir.Function] = [model.graph]
    while graphs:
        for node in graphs.pop().all_nodes():
            function = model.functions.get(node.op_identifier())
            if function is not None and function.identifier() not in used:
                used.add(function.identifier())
                graphs.append(function)
    for identifier in model.functions.keys() - used:
        del model.functions[identifier]
