"""The values of a model that does not run: those ahead of what an engine refuses."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from onnx_passes.errors import EngineError, EngineUnavailableError
from onnx_passes.model.walk import captured_values
from onnx_passes.runtime.engine_base import Engine, Feeds, Outputs
from onnx_passes.verify.recording import exposed

_MOST_FAULTS = 8


def run_what_runs(model: ir.Model, engine: Engine, feeds: Feeds) -> Outputs:
    """Run the nodes that do not depend on one that the engine cannot run.

    The first such node is found by halves, in the order of the graph. It and all that reads
    its results is left out, and the rest is tried again, for up to eight such nodes.

    Args:
        model: The model, in topological order; left as it is.
        engine: What it is run on.
        feeds: Its inputs by name.

    Returns:
        The values computed, by name; none if no node runs.

    Raises:
        EngineUnavailableError: The engine is not there.
    """
    count = len(model.graph)
    lost: set[int] = set()
    found: Outputs = {}
    for _ in range(_MOST_FAULTS):
        left = [index for index in range(count) if index not in lost]
        known = _run(model, engine, feeds, left)
        if known is not None:
            return known
        low, high = 0, len(left)  # the first `low` of them run, the first `high` do not
        while high - low > 1:
            middle = (low + high) // 2
            known = _run(model, engine, feeds, left[:middle])
            if known is None:
                high = middle
            else:
                low, found = middle, known
        lost |= _dependents(model, left[low])
    return found


def _run(
    model: ir.Model, engine: Engine, feeds: Feeds, kept: Collection[int]
) -> Outputs | None:
    """Run some nodes with all of their values as outputs; None if the engine refuses."""
    part = exposed(model)
    wanted = set(kept)
    dropped = [node for index, node in enumerate(part.graph) if index not in wanted]
    gone = {value for node in dropped for value in node.outputs}
    outputs = [value for value in part.graph.outputs if value not in gone]
    part.graph.outputs[:] = outputs
    if not outputs:
        return {}
    part.graph.remove(dropped, safe=True)
    try:
        with engine.prepare(part) as session:
            return session.run(feeds)
    except EngineUnavailableError:
        raise
    except EngineError:
        return None


def _dependents(model: ir.Model, first: int) -> set[int]:
    found: set[int] = set()
    values: set[ir.Value] = set()
    for index, node in enumerate(model.graph):
        read = {v for v in (*node.inputs, *captured_values(node)) if v is not None}
        if index == first or read & values:
            found.add(index)
            values.update(node.outputs)
    return found
