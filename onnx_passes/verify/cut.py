"""The part in which two models differ, as two small models of one interface."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from onnx_passes.runtime.base import Array, Engine, Feeds
from onnx_passes.verify.recording import exposed
from onnx_passes.verify.region import Region, changed_region, region_model


def cut(
    before: ir.Model, after: ir.Model, feeds: Feeds, engine: Engine
) -> tuple[ir.Model, ir.Model, dict[str, Array]] | None:
    """Cut out what changed between two models, with the values at its boundary.

    Args:
        before: The model that is right.
        after: The model that is not.
        feeds: A sample for both.
        engine: What ``before`` is run on for the boundary values.

    Returns:
        The nodes that were replaced, those in their place, and inputs for both; None where the
        change cannot be told by names, nothing that is read on changed, or a value at the
        boundary is no tensor.

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
    values = _values(before, boundary, feeds, engine)
    if values is None:
        return None
    pair = [
        _part(model, Region(region.nodes, boundary, new.frontier), values)
        for model, region in ((before, old), (after, new))
    ]
    return pair[0], pair[1], values


def _values(
    model: ir.Model, names: Sequence[str], feeds: Feeds, engine: Engine
) -> dict[str, Array] | None:
    inner = [name for name in names if name not in feeds]
    found = dict(feeds)
    if inner:
        with engine.prepare(exposed(model)) as session:
            found |= session.run(feeds, inner)
    values = {name: found[name] for name in names}
    arrays = {name: v for name, v in values.items() if isinstance(v, np.ndarray)}
    return arrays if len(arrays) == len(values) else None


def _part(model: ir.Model, region: Region, values: dict[str, Array]) -> ir.Model:
    # Cloned, because nodes left out of the part still count as readers of its weights.
    part = region_model(model, region, values).clone()
    outputs = {str(value.name): value for value in part.graph.outputs}
    part.graph.outputs.clear()
    part.graph.outputs.extend(outputs[name] for name in region.frontier)
    RemoveUnusedNodesPass()(part)
    _drop_unused_functions(part)
    return part


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
