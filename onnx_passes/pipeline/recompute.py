"""Values that were not recorded, computed again from those that were."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.errors import EngineError
from onnx_passes.runtime.engine_base import Engine, Outputs, run_each, run_one
from onnx_passes.verify.recording import Recording, byte_size, record_for_all
from onnx_passes.verify.region import Region, boundary_of, leading_to
from onnx_passes.verify.region_models import region_model

_AT_ONCE = 1 << 26
"""Bytes of values that are computed at once, if they read no input."""

_MOST = 2
"""One part in this of all nodes is the most that is run again; else all of them are."""


def run_nodes(
    engine: Engine,
    model: ir.Model,
    nodes: Sequence[ir.Node],
    rows: Sequence[Mapping[str, Array]],
) -> list[Outputs | None]:
    """Run nodes by themselves, once for each row; None for a row that they do not run on.

    Args:
        engine: What runs them.
        model: The model that they are from.
        nodes: The nodes, in order.
        rows: What they read, by name, and maybe more; of the same types and ranks in each row,
            of any shape.
    """
    if not nodes:
        return [{} for _ in rows]
    try:
        with running(engine, model, nodes, rows) as run:
            return [run(row) for row in rows]
    except EngineError:
        return [None for _ in rows]


@contextmanager
def running(
    engine: Engine,
    model: ir.Model,
    nodes: Sequence[ir.Node],
    rows: Sequence[Mapping[str, Array]],
) -> Iterator[Callable[[Mapping[str, Array]], Outputs | None]]:
    """Give what runs nodes by themselves, for :func:`run_nodes`, in one session.

    Args:
        engine: The engine.
        model: The model that the nodes are of.
        nodes: The nodes.
        rows: Recorded values by name, arrays of the shapes in the model, one mapping a sample.

    Raises:
        EngineError: The engine does not take the nodes.
    """
    boundary = boundary_of(nodes)
    part = region_model(model, Region(tuple(nodes), boundary, ()), rows)
    with engine.prepare(part) as session:

        def run(row: Mapping[str, Array]) -> Outputs | None:
            try:
                return run_one(session, {name: row[name] for name in boundary})
            except EngineError:
                return None

        yield run


def record_weights(
    engine: Engine, model: ir.Model, recordings: Sequence[Recording], names: Collection[str]
) -> set[str]:
    """Record large values that read no input: once for all samples, some at a time.

    Args:
        engine: The engine that the other values were recorded on.
        model: The model, without functions.
        recordings: What is known of it, by sample.
        names: Names of such values.

    Returns:
        The names of those that could be computed.
    """
    batches: list[list[str]] = [[]]
    size = 0
    for value in (value for node in model.graph for value in node.outputs):
        if value.name in names:
            size += byte_size(value)
            if size > _AT_ONCE and batches[-1]:
                batches.append([])
                size = byte_size(value)
            batches[-1].append(str(value.name))
    done: set[str] = set()
    for batch in batches:
        found = recompute(engine, model, recordings[:1], batch)
        if found:
            record_for_all(recordings, found[0])
            done.update(batch)
    return done


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
    known = recordings[0].keys()
    nodes = leading_to(names, model.graph, known.__contains__)
    boundary = boundary_of(nodes)
    made = {v.name for node in nodes for v in node.outputs}
    if not (made.issuperset(names) and known >= set(boundary)):
        return None
    if _MOST * len(nodes) > len(model.graph):
        return None
    region = Region(tuple(nodes), boundary, tuple(names))
    feeds = [recording.row(boundary) for recording in recordings]
    try:
        part = region_model(model, region, recordings)
        with engine.prepare(part) as session:
            return run_each(engine, session, feeds, list(names))
    except EngineError:
        return None
