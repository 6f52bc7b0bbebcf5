"""What a part of a model costs, in the unit of the objective."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Literal

import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.model.save import written_bytes
from onnx_passes.model.walk import weight_bytes
from onnx_passes.passes.analysis._sizes import label_of
from onnx_passes.passes.analysis.cost import cost_of
from onnx_passes.runtime.engine_base import Engine, Feeds
from onnx_passes.tuning.groups import FormatGroup
from onnx_passes.tuning.part_formats import Format
from onnx_passes.verify.node_equality import constant_tensor

Objective = Literal["time", "size", "bops"]
UNITS: dict[Objective, str] = {"time": "s", "size": "B", "bops": "bit operations"}

_RUNS, _SPENT = 5, 0.05
"""Least number of timed runs of a part, and least seconds that they take together."""
_MOST_RUNS = 200


def time_runs(engine: Engine, models: Sequence[ir.Model], feeds: Feeds) -> list[float]:
    """Return the least seconds of a run of each model, runs of all taking turns.

    Args:
        engine: Runs them.
        models: Models of the same inputs.
        feeds: Their inputs.

    Raises:
        EngineError: The engine refuses a model.
    """
    with ExitStack() as stack:
        sessions = [stack.enter_context(engine.prepare(model)) for model in models]
        for session in sessions:
            session.run(feeds)
        best = [float("inf")] * len(sessions)
        start, count = time.perf_counter(), 0
        while count < _RUNS or (
            time.perf_counter() - start < _SPENT * len(sessions) and count < _MOST_RUNS
        ):
            count += 1
            for place, session in enumerate(sessions):
                begin = time.perf_counter()
                session.run(feeds)
                best[place] = min(best[place], time.perf_counter() - begin)
    return best


def shared_bytes(before: ir.Model, after: ir.Model) -> float:
    """Return the most bytes that a converted group may share with its neighbours.

    That is what it adds beside weights, but for nodes that read weights alone.

    Args:
        before: The group in float32.
        after: The group in a format.
    """
    old = {str(node.name) for node in before.graph.all_nodes()}
    own = sum(
        ir.to_proto(node).ByteSize()
        for node in after.graph.all_nodes()
        if node.name not in old and not any(v and v.const_value is None for v in node.inputs)
    )
    grown = [written_bytes(model) - weight_bytes(model) for model in (before, after)]
    return max(0.0, float(grown[1] - grown[0] - own))


def operations(model: ir.Model, rows: Mapping[str, Array]) -> dict[str, float]:
    """Return the scalar operations of each node by name, on inputs of certain sizes.

    Those of a node in a body are those of all iterations, if their number is known.

    Args:
        model: The model.
        rows: Inputs by name, arrays of any type whose shapes give the dynamic dimensions.
    """
    dims = {
        str(dim.value): int(size)
        for value in model.graph.inputs
        if value.shape is not None and str(value.name) in rows
        for dim, size in zip(value.shape, rows[str(value.name)].shape, strict=False)
        if isinstance(dim, ir.SymbolicDim) and dim.value is not None
    }
    labels = {label_of(node): str(node.name) for node in model.graph.all_nodes()}
    found = cost_of(model, dims).nodes
    return {labels[c.name]: float(c.flops or 0) for c in found if c.name in labels}


def bit_operations(
    model: ir.Model, group: FormatGroup, item: Format, costs: Mapping[str, float]
) -> float:
    """Return the operations of a group, each times the bits of both its operands.

    A format of integers holds for the nodes that read a weight, one of 16 bits for all.

    Args:
        model: The model.
        group: The group.
        item: Its format.
        costs: Operations by name of a node.
    """
    total = 0.0
    for node in model.graph.all_nodes():
        if node.name not in group.nodes:
            continue
        weighted = any(constant_tensor(v) is not None for v in node.inputs if v is not None)
        own = item.rank == 1 or weighted
        bits = item.weight_bits * item.data_bits if own else 32 * 32
        total += costs.get(str(node.name), 0.0) * bits
    return total
