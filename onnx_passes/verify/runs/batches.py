"""Which values are computed together, so that they fit in memory."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from onnx_passes.errors import EngineError, UsageError
from onnx_passes.runtime.engine_base import Engine, Feeds, did_you_mean
from onnx_passes.runtime.inputs.concrete_shapes import concretize, skeleton
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.recording import exposed, inlined
from onnx_passes.verify.runs.body_values import expose, inner_first, inside, not_shown, typed

ALL = "all"
_FEW = 12
_WIDEST = 8
"""Bytes that an element of unknown type may take."""


@dataclass(frozen=True)
class SessionBatch:
    """Values computed by one session.

    Attributes:
        source: The model, with types where values of bodies are asked for.
        names: Their names, in topological order.
    """

    source: ir.Model
    names: tuple[str, ...]

    def model(self) -> ir.Model:
        """Make a model with these values as its outputs; it is not kept."""
        # Nodes give no more of their bodies than this batch has room for.
        return _with_outputs(exposed(expose(self.source, self.names)), self.names)


@dataclass(frozen=True)
class RunPlan:
    """How the values wanted of a model are computed.

    Attributes:
        batches: One after the other.
        outputs: The outputs that the model itself has.
        makers: The node of each value, as text.
        notes: What a reader has to know.
        watched: Whether values inside come as debug tensors, beside the model's outputs.
    """

    batches: tuple[SessionBatch, ...]
    outputs: frozenset[str]
    makers: Mapping[str, str]
    notes: tuple[str, ...] = ()
    watched: bool = False

    @property
    def as_it_is(self) -> bool:
        """Whether the model runs unchanged."""
        inside = len(self.batches) > 1 or not set(self.batches[0].names) <= self.outputs
        return self.watched or not inside


def plan(
    model: ir.Model,
    wanted: Sequence[str] | str | None,
    samples: Iterable[Feeds],
    engine: Engine,
    capacity: int,
) -> RunPlan:
    """Divide the values wanted of a model into batches.

    Args:
        model: The model; it is not changed.
        wanted: Names of values of its main graph, "all", or None for its outputs.
        samples: Feeds, which decide the sizes; those of equal shapes count once.
        engine: Measures the sizes that shape inference does not know.
        capacity: Bytes that the values of a batch may have.

    Raises:
        UsageError: A value does not exist.
    """
    own = tuple(str(value.name) for value in model.graph.outputs)
    if wanted is None:
        return RunPlan((SessionBatch(model, own),), frozenset(own), makers(model))
    base = typed(inlined(model) if wanted == ALL else model)
    whole = exposed(expose(base))
    names = in_order(whole)
    if wanted != ALL:
        for name in wanted:
            if name not in names:
                raise inside(name, base, names) or UsageError(
                    f"the model has no value {name!r} that could be an output",
                    help=nearest(name, names),
                )
        chosen = set(wanted)
        names = [name for name in names if name in chosen]
    notes = [left_out] if wanted == ALL and (left_out := not_shown(base, names)) else []
    sizes: dict[str, int] = {}
    for feeds in distinct(samples):
        for name, count in _sizes(whole, names, feeds, engine, notes).items():
            sizes[name] = max(count, sizes.get(name, 0))
    groups = _groups(names, sizes, capacity, notes)
    batches = [SessionBatch(base, tuple(group)) for group in groups]
    return RunPlan(tuple(batches), frozenset(own), makers(whole), tuple(notes))


def in_order(model: ir.Model) -> list[str]:
    """Return the names of the outputs of a model, in topological order."""
    outputs = set(model.graph.outputs)
    made = [v for node in model.graph for v in inner_first(node) if v in outputs]
    # An output may also be an input, or an initializer.
    rest = [v for v in model.graph.outputs if v.producer() is None]
    return list(dict.fromkeys(str(v.name) for v in (*rest, *made)))


def makers(model: ir.Model) -> dict[str, str]:
    """Return the node of each value of the main graph, as text."""
    return {
        str(value.name): f"{node.op_type} {node.name!r}" if node.name else node.op_type
        for node in model.graph
        for value in node.outputs
        if value.name
    }


def nearest(name: str, names: Sequence[str]) -> str:
    """Return a help line that stays short where the names are many.

    Args:
        name: What was asked for.
        names: What there is.
    """
    if len(names) <= _FEW:
        return did_you_mean(name, names)
    near = difflib.get_close_matches(name, names, n=3)
    told = f"did you mean {', '.join(map(repr, near))}? " if near else ""
    return f"{told}inspect model --show layers lists all {len(names):,}"


def _with_outputs(whole: ir.Model, names: Sequence[str]) -> ir.Model:
    copy = whole.clone()
    outputs = {str(value.name): value for value in copy.graph.outputs}
    every = len(names) == len(outputs)
    copy.graph.outputs.clear()
    copy.graph.outputs.extend(outputs[name] for name in names)
    if not every:
        # Its nodes would run, and its weights be held, for nothing.
        RemoveUnusedNodesPass()(copy)
    return copy


def distinct(samples: Iterable[Feeds]) -> list[Feeds]:
    """Return one sample of each combination of shapes."""
    known: dict[object, Feeds] = {}
    for feeds in samples:
        key = tuple(
            (n, v.shape if isinstance(v, np.ndarray) else None) for n, v in feeds.items()
        )
        known.setdefault(key, feeds)
    return list(known.values())


def _sizes(
    whole: ir.Model, names: Sequence[str], feeds: Feeds, engine: Engine, notes: list[str]
) -> dict[str, int]:
    """Return the bytes of values, those of unknown shape by a run that counts elements."""
    shapes = {n: v.shape for n, v in feeds.items() if isinstance(v, np.ndarray)}
    symbols = {
        str(dim.value): size
        for value in whole.graph.inputs
        if value.shape is not None and value.name in shapes
        for dim, size in zip(value.shape, shapes[str(value.name)], strict=False)
        if not isinstance(dim, int) and dim.value is not None
    }
    concrete, _ = concretize(skeleton(whole), shapes, symbols)
    known = {str(value.name): value for value in concrete.graph.outputs}
    found: dict[str, int] = {}
    unknown: list[str] = []
    for name in names:
        value = known.get(name)
        if value is not None and value.shape is not None and value.shape.is_static():
            found[name] = math.prod(value.shape.numpy()) * _width(value)
        else:
            unknown.append(name)
    counts = _counted(whole, unknown, feeds, engine, notes) if unknown else {}
    return found | {n: c * _width(known.get(n)) for n, c in counts.items()}


def _width(value: ir.Value | None) -> int:
    dtype = value.dtype if value is not None else None
    if dtype is None or dtype in (ir.DataType.UNDEFINED, ir.DataType.STRING):
        return _WIDEST
    return dtype.numpy().itemsize


def _counted(
    whole: ir.Model, names: Sequence[str], feeds: Feeds, engine: Engine, notes: list[str]
) -> dict[str, int]:
    counter = whole.clone()
    values = {str(value.name): value for value in counter.graph.outputs}
    counter.graph.outputs.clear()
    for index, name in enumerate(names):
        node = ir.node("Size", [values[name]])
        node.outputs[0].name = f"onnx_passes_size_{index}"
        node.outputs[0].type = ir.TensorType(ir.DataType.INT64)
        node.outputs[0].shape = ir.Shape([])
        counter.graph.append(node)
        counter.graph.outputs.append(node.outputs[0])
    plain = engine
    if isinstance(engine, OnnxRuntimeEngine):
        # Counts are the same in any mode, and this one makes no copies of weights.
        plain = replace(engine, optimization="none", prepacking=False)
    try:
        with plain.prepare(counter) as session:
            found = session.run(feeds)
    except EngineError as error:
        note = f"the sizes of {len(names)} values are unknown: {error.message}"
        if note not in notes:
            notes.append(note)
        return {}
    return {n: int(np.asarray(c)) for n, c in zip(names, found.values(), strict=True)}


def _groups(
    names: Sequence[str], sizes: Mapping[str, int], capacity: int, notes: list[str]
) -> list[list[str]]:
    groups: list[list[str]] = [[]]
    held = 0
    large = {name: size for name, size in sizes.items() if size > capacity}
    if large:
        most = max(large, key=lambda name: large[name])
        notes.append(
            f"{len(large)} values are each larger than a batch may be ({capacity:,} bytes), "
            f"and come one at a time; the largest, {most}, has {large[most]:,} bytes"
        )
    for name in names:
        # What is not known may be as large as anything.
        size = sizes.get(name, capacity)
        if groups[-1] and held + size > capacity:
            groups.append([])
            held = 0
        groups[-1].append(name)
        held += size
    return groups
