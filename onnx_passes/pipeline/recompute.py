"""Values that were not recorded, computed again from those that were."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import onnx_ir as ir

from onnx_passes.errors import EngineError
from onnx_passes.graph.walk import captured_values
from onnx_passes.runtime.base import Engine, Outputs
from onnx_passes.runtime.parallel import run_each
from onnx_passes.verify.node_equality import constant_tensor
from onnx_passes.verify.recording import Recording
from onnx_passes.verify.region import Region, boundary_of, region_model

_MOST = 2
"""One part in this of all nodes is the most that is run again; else all of them are."""


def recompute(
    engine: Engine, model: ir.Model, recordings: Sequence[Recording], names: Collection[str]
) -> list[Outputs] | None:
    """Compute values of a model that has run, from the values recorded nearest above them.

    Large values are left out of recordings, and passes ask for a few of them. An engine that
    runs each node as it is written gives the same bytes for them as a run of the whole model,
    at the price of a few nodes.

    Args:
        engine: The engine that the values were recorded on.
        model: The model that ran, without functions.
        recordings: What is known of it, by sample; the same names for each.
        names: Names of values of the main graph.

    Returns:
        The values, by sample; None where they cannot be had this way, or not for less than
        half of the model.
    """
    nodes = _between(model, recordings[0].keys(), names)
    if nodes is None or _MOST * len(nodes) > len(model.graph):
        return None
    boundary = boundary_of(nodes)
    region = Region(tuple(nodes), boundary, tuple(names))
    feeds = [{name: recording[name] for name in boundary} for recording in recordings]
    try:
        part = region_model(model, region, recordings[0])
        with engine.prepare(part) as session:
            return run_each(engine, session, feeds, list(names))
    except EngineError:
        return None


def _between(
    model: ir.Model, known: Collection[str], names: Collection[str]
) -> list[ir.Node] | None:
    """Return the nodes that lead from known values to others; None if known ones do not do."""
    producers = {str(v.name): node for node in model.graph for v in node.outputs if v.name}
    if not set(names) <= producers.keys():
        return None
    found: set[ir.Node] = set()
    pending = [producers[name] for name in names]
    while pending:
        node = pending.pop()
        if node in found:
            continue
        found.add(node)
        for value in (*node.inputs, *captured_values(node)):
            if value is None or constant_tensor(value) is not None or value.name in known:
                continue
            producer = producers.get(str(value.name))
            if producer is None:
                return None
            pending.append(producer)
    return [node for node in model.graph if node in found]
