"""A place that a run may go on from: taken after each pass, and written when needed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import onnx_ir as ir

from onnx_passes.errors import ModelError
from onnx_passes.graph.digest import Key, tensor_digest
from onnx_passes.graph.walk import all_graphs, all_tensors
from onnx_passes.io.detached import Row, attach, detach, fetch, keep, remark, remarks
from onnx_passes.pipeline.manager import PassManager
from onnx_passes.pipeline.progress import analyst
from onnx_passes.pipeline.sources import Sources
from onnx_passes.pipeline.states import State, States
from onnx_passes.verify.interface import interface_of
from onnx_passes.verify.snapshot import Snapshot, exact_key

_OWN_STATE = ("counter", "history")  # the manager's, which replaying makes again
_OF_RESUMING = ("nothing is resumed", "resumed after", "--resume goes on")  # of each run anew
_WRITTEN = "quant_parameter_tensor_names"  # what ONNX has a place for
_GIVEN = re.compile(r"(?:val|node_.*)_(\d+)")


@dataclass(frozen=True)
class Point:
    """What a run had come to.

    Attributes:
        snapshot: The model, verified.
        events: Number of events by then.
        passes: Number of reports.
        applied: Number of rewrites.
        skip: Keys of rewrites that are not made again.
        notes: What the report said.
        shared: What passes had left for each other.
        results: Results of analyses that are plain data.
        budget: What the gate remembered.
        names: By graph, the names that were given.
    """

    snapshot: Snapshot
    events: int
    passes: int
    applied: int
    skip: frozenset[str]
    notes: tuple[str, ...]
    shared: dict[str, Any]
    results: dict[str, Any]
    budget: dict[str, Any]
    names: tuple[tuple[int, int, frozenset[str], frozenset[str]], ...]


def take(manager: PassManager, original: Snapshot) -> Point:
    """Take the place where the manager is.

    Raises:
        ModelError: Something at this place could not be had again from a file.
    """
    if manager.gate is None:
        raise ModelError("verification is off")
    if interface_of(manager.snapshot.model) != interface_of(original.model):
        raise ModelError("a pass has changed the inputs or outputs of the model")
    shared = {key: v for key, v in manager.state.items() if key not in _OWN_STATE}
    return Point(
        manager.snapshot,
        len(manager.progress.journal.events),
        len(manager.report.passes),
        len(manager.rewrites.applied),
        manager.rewrites.skip,
        tuple(n for n in manager.report.notes if not any(w in n for w in _OF_RESUMING)),
        _plain(shared, "the state that passes share"),
        _results(manager),
        _plain(manager.gate.remember(), "what the gate remembers"),
        tuple(_names(graph) for graph in all_graphs(manager.model)),
    )


def write(
    point: Point,
    manager: PassManager,
    parts: dict[str, str],
    original: Snapshot,
    sources: Sources,
    states: States,
) -> State:
    """Write the model of a place to a store, and return the state for its manifest.

    Weights of the original are named by their position in it, and never copied.

    Raises:
        ModelError: The state would not be read back as it is.
        OSError: The store cannot be written.
    """
    model, report = point.snapshot.model, manager.report
    graph, tensors = detach(model)
    constants = _constants(model)
    back = attach(graph, tensors)
    _note_constants(back, constants)
    if _key(back) != _key(model) or _has_notes(model):
        raise ModelError("the model holds what ONNX has no place for")
    places = {id(t): index for index, t in enumerate(all_tensors(original.model))}
    rows: list[Row] = [
        {"original": places[id(tensor)], **remarks(tensor)}
        if id(tensor) in places
        else keep(tensor, states.blobs)
        for tensor in tensors
    ]
    events = [
        replace(event, cls=None, source=event.source or sources.of(event.cls))
        if event.cls is not None
        else event
        for event in manager.progress.journal.events[: point.events]
    ]
    return State(
        parts,
        report.model,
        datetime.now().astimezone().isoformat(timespec="seconds"),
        report.planned,
        events,
        report.passes[: point.passes],
        manager.rewrites.applied[: point.applied],
        sorted(point.skip),
        list(point.notes),
        point.shared,
        point.results,
        point.budget,
        states.blobs.put(graph),
        rows,
        [_told(names) for names in point.names],
        constants,
    )


def read(state: State, original: Snapshot, states: States) -> ir.Model:
    """Put the model of a state together.

    Raises:
        ModelError: A part is gone, or is not what was written.
    """
    own = list(all_tensors(original.model))
    try:
        tensors = [
            own[row["original"]] if "original" in row else fetch(row, states.blobs)
            for row in state.tensors
        ]
        model = attach(states.blobs.get(state.graph), tensors)
        for row, tensor in zip(state.tensors, tensors, strict=True):
            remark(tensor, row)
        _note_constants(model, state.constants)
        for graph, names in zip(all_graphs(model), state.names, strict=True):
            _restore_names(graph, names)
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise ModelError(f"a saved state does not fit: {error}") from error
    return model


def _results(manager: PassManager) -> dict[str, Any]:
    """Return the results of analyses that a file holds; others are had by running them again.

    Raises:
        ModelError: One is neither.
    """
    found = {}
    for name, result in manager.context.analyses.items():
        try:
            found[name] = _plain(result, f"the result of {name}")
        except ModelError:
            if analyst(manager, name) is None:
                raise
    return found


def _plain(value: Any, what: str) -> Any:
    """Return a copy of data that JSON gives back as it is."""
    match value:
        case dict() if all(type(key) is str for key in value):
            return {key: _plain(item, what) for key, item in value.items()}
        case list():
            return [_plain(item, what) for item in value]
        case None | bool() | int() | str():
            return value
        case float() if value - value == 0:  # JSON has no infinities and no NaN
            return value
    raise ModelError(f"{what} holds a {type(value).__name__}, which no file holds")


def _key(model: ir.Model) -> Key:
    header, extra, *rest = exact_key(model)
    # ONNX does not tell an empty text from none there.
    assert isinstance(header, tuple)
    assert isinstance(extra, tuple)
    return (tuple(h or None for h in header), tuple(e or None for e in extra), *rest)


def _has_notes(model: ir.Model) -> bool:
    """Whether passes have noted something at nodes or values that is not written to files."""
    for graph in all_graphs(model):
        values = [*graph.inputs, *graph.initializers.values()]
        for node in graph:
            if node.meta.data:
                return True
            values += node.outputs
        if graph.meta.data or any(set(v.meta.data) - {_WRITTEN} for v in values):
            return True
    return bool(model.meta.data)


def _constants(model: ir.Model) -> list[list[int]]:
    """Find the outputs of Constant nodes at which their content is noted.

    Raises:
        ModelError: Something else is noted.
    """
    found = []
    for g, graph in enumerate(all_graphs(model)):
        for n, node in enumerate(graph):
            for o, value in enumerate(node.outputs):
                if value.const_value is None:
                    continue
                noted, value.const_value = value.const_value, None
                try:
                    own = ir.convenience.get_const_tensor(value)
                finally:
                    value.const_value = noted
                if own is None or tensor_digest(own) != tensor_digest(noted):
                    raise ModelError(f"{value.name!r} is noted to be what no node says")
                found.append([g, n, o])
    return found


def _note_constants(model: ir.Model, places: Sequence[Sequence[int]]) -> None:
    if not places:
        return
    nodes = [list(graph) for graph in all_graphs(model)]
    for g, n, o in places:
        value = nodes[g][n].outputs[o]
        value.const_value = ir.convenience.get_const_tensor(value)


def _names(graph: ir.Graph) -> tuple[int, int, frozenset[str], frozenset[str]]:
    """Note how far onnx-ir has counted the names that it gives.

    It never gives a name twice, so the next one depends on those that are gone. There is no
    public way to ask, and a resumed run would give other names.
    """
    given = graph._name_authority
    return (
        given._value_counter,
        given._node_counter,
        frozenset(given._value_names),
        frozenset(given._node_names),
    )


def _told(names: tuple[int, int, frozenset[str], frozenset[str]]) -> dict[str, Any]:
    values, nodes, of_values, of_nodes = names
    return {
        "values": values,
        "nodes": nodes,
        "of_values": sorted(name for name in of_values if _ahead(name, values)),
        "of_nodes": sorted(name for name in of_nodes if _ahead(name, nodes)),
    }


def _ahead(name: str, counter: int) -> bool:
    """Whether onnx-ir may yet come to a name."""
    found = _GIVEN.fullmatch(name)
    return found is not None and int(found[1]) >= counter


def _restore_names(graph: ir.Graph, names: dict[str, Any]) -> None:
    given = graph._name_authority
    given._value_counter, given._node_counter = names["values"], names["nodes"]
    given._value_names.update(names["of_values"])
    given._node_names.update(names["of_nodes"])
