"""The body of an If, Loop or Scan as a model of its own, with the values that it is run on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.errors import EngineError
from onnx_passes.model.copy import copy_nodes
from onnx_passes.model.walk import captured_values
from onnx_passes.runtime.engine_base import Array, Data, Engine
from onnx_passes.verify.node_equality import constant_tensor

_HOLDERS = ("If", "Loop", "Scan")
_MOST_ITERATIONS = 3
"""Iterations of a loop whose values a body is run on, for each sample."""


@dataclass(frozen=True)
class Bodies:
    """A body before and after a pass, and what it is run on.

    Attributes:
        holder: Name of the first output of the node that holds it.
        before: The body before.
        after: The body after.
        feeds: Values of its inputs and of what it reads from around it.
        samples: The sample that each of these is from.
    """

    holder: str
    before: ir.Model
    after: ir.Model
    feeds: list[dict[str, Data]]
    samples: list[int]


def changed_bodies(
    before: ir.Model,
    removed: Sequence[ir.Node],
    after: ir.Model,
    new: Sequence[ir.Node],
    samples: Sequence[Mapping[str, Array]],
    engine: Engine,
) -> Iterator[Bodies]:
    """Yield the bodies of nodes that are the same on both sides but for these.

    A branch that no sample takes is run all the same, on the values around it.

    Args:
        before: The model before.
        removed: Its nodes without a counterpart.
        after: The model after.
        new: Its new nodes.
        samples: Values of the main graph by name, of any shape and type.
        engine: What runs the bodies of loops, for the values of later iterations.
    """
    holders = {_outputs(node): node for node in removed if _holds(node)}
    for node in new:
        old = holders.get(_outputs(node)) if _holds(node) else None
        if old is None or old.op_type != node.op_type:
            continue
        for name, attribute in node.attributes.items():
            theirs = old.attributes.get(name)
            if attribute.type is not ir.AttributeType.GRAPH or theirs is None:
                continue
            one, other = theirs.as_graph(), attribute.as_graph()
            if one is other or not _called_alike(one, other):
                continue
            try:
                yield from _body(before, old, one, after, other, samples, engine)
            except (EngineError, KeyError, IndexError):
                continue  # what it reads is not a tensor, or it does not run by itself


def _holds(node: ir.Node) -> bool:
    return node.domain == "" and node.op_type in _HOLDERS


def _outputs(node: ir.Node) -> tuple[str | None, ...]:
    return tuple(value.name for value in node.outputs)


def _called_alike(one: ir.Graph, other: ir.Graph) -> bool:
    return [v.name for v in one.inputs] == [v.name for v in other.inputs] and (
        len(one.outputs) == len(other.outputs)
    )


def _body(
    before: ir.Model,
    holder: ir.Node,
    old: ir.Graph,
    after: ir.Model,
    new: ir.Graph,
    samples: Sequence[Mapping[str, Array]],
    engine: Engine,
) -> Iterator[Bodies]:
    models = [body_model(before, old, samples[0]), body_model(after, new, samples[0])]
    names = [{str(v.name) for v in model.graph.inputs} for model in models]
    first = models[0]
    feeds: list[dict[str, Data]] = []
    places: list[int] = []
    for place, values in enumerate(samples):
        around: dict[str, Data] = {n: values[n] for n in names[0] | names[1] if n in values}
        feeds += [
            around | given for given in _entries(holder, old, values, around, first, engine)
        ]
        places += [place] * (len(feeds) - len(places))
    for model in models:  # what one side reads and the other does not is there for both
        _add_inputs(model, names[0] | names[1], feeds[0])
    yield Bodies(str(holder.outputs[0].name), models[0], models[1], feeds, places)


def body_model(model: ir.Model, body: ir.Graph, values: Mapping[str, Array]) -> ir.Model:
    """Return a body as a model; what it reads from around it are inputs.

    Args:
        model: The model that it is in.
        body: The body.
        values: Values of the graph around it by name, of any shape, for types and ranks.
    """
    nodes, copies = copy_nodes(list(body))
    made = {out for node in body for out in node.outputs}
    inputs = [copies.get(v) or ir.Value(name=v.name) for v in body.inputs]
    for value, entry in zip(body.inputs, inputs, strict=True):
        entry.type, entry.shape, entry.const_value = value.type, None, None
        copies[value] = entry
    initializers: dict[str, ir.Value] = {}
    read = [v for n in body for v in (*n.inputs, *captured_values(n)) if v is not None]
    for value in dict.fromkeys((*read, *body.outputs)):
        if value in made or value in body.inputs:
            continue
        copy = copies.setdefault(value, ir.Value(name=value.name))
        tensor = constant_tensor(value)
        if tensor is not None:
            copy.const_value = tensor
            initializers[str(value.name)] = copy
            continue
        array = values[str(value.name)]
        copy.const_value = None
        copy.type = ir.TensorType(ir.DataType.from_numpy(array.dtype))
        copy.shape = ir.Shape([None] * array.ndim)
        inputs.append(copy)
    outputs = []
    for index, value in enumerate(body.outputs):
        copy = copies[value]
        if value not in made or copy in outputs:
            given = ir.node("Identity", [copy])
            given.outputs[0].name = f"{value.name}/given{index}"
            nodes.append(given)
            copy = given.outputs[0]
        outputs.append(copy)
    graph = ir.Graph(
        inputs,
        outputs,
        nodes=nodes,
        initializers=list(initializers.values()),
        opset_imports=dict(model.graph.opset_imports),
        name="body",
    )
    functions = [function.clone() for function in model.functions.values()]
    return ir.Model(graph, ir_version=model.ir_version, functions=functions)


def _add_inputs(model: ir.Model, names: set[str], feeds: Mapping[str, Data]) -> None:
    for name in sorted(names - {str(v.name) for v in model.graph.inputs}):
        array = feeds[name]
        assert isinstance(array, np.ndarray)
        kind = ir.TensorType(ir.DataType.from_numpy(array.dtype))
        model.graph.inputs.append(
            ir.Value(name=name, type=kind, shape=ir.Shape([None] * array.ndim))
        )


def _entries(
    holder: ir.Node,
    body: ir.Graph,
    values: Mapping[str, Array],
    around: Mapping[str, Data],
    model: ir.Model,
    engine: Engine,
) -> Iterator[dict[str, Data]]:
    """Yield the values of the inputs of a body, each time that it is entered."""
    given = [None if v is None else _value(v, values) for v in holder.inputs]
    names = [str(v.name) for v in body.inputs]
    match holder.op_type:
        case "If":
            yield {}
        case "Loop":
            yield from _iterations(given, names, around, model, engine)
        case "Scan":
            yield from _slices(holder, given, names, around, model, engine)


def _value(value: ir.Value, values: Mapping[str, Array]) -> Array:
    tensor = constant_tensor(value)
    return values[str(value.name)] if tensor is None else tensor.numpy()


def _iterations(
    given: Sequence[Array | None],
    names: Sequence[str],
    around: Mapping[str, Data],
    model: ir.Model,
    engine: Engine,
) -> Iterator[dict[str, Data]]:
    most = _MOST_ITERATIONS if given[0] is None else int(np.reshape(given[0], -1)[0])
    carried: list[Data] = [np.asarray(1 > 0), *given[2:]]
    with engine.prepare(model) as session:
        for turn in range(max(1, min(most, _MOST_ITERATIONS))):
            state = dict(zip(names, [np.asarray(turn, np.int64), *carried], strict=True))
            yield state
            found = list(session.run({**_needed(around, model), **state}).values())
            carried = found[: len(carried)]
            if not np.all(np.asarray(carried[0])):
                return


def _slices(
    holder: ir.Node,
    given: Sequence[Array | None],
    names: Sequence[str],
    around: Mapping[str, Data],
    model: ir.Model,
    engine: Engine,
) -> Iterator[dict[str, Data]]:
    count = holder.attributes["num_scan_inputs"].as_int()
    axes = holder.attributes.get("scan_input_axes")
    back = holder.attributes.get("scan_input_directions")
    scanned = [np.asarray(array) for array in given[len(given) - count :]]
    along = list(axes.as_ints()) if axes is not None else [0] * count
    reverse = list(back.as_ints()) if back is not None else [0] * count
    carried: list[Data] = list(given[: len(given) - count])
    steps = min((a.shape[axis] for a, axis in zip(scanned, along, strict=True)), default=0)
    with engine.prepare(model) as session:
        for turn in range(min(steps, _MOST_ITERATIONS)):
            parts = [
                np.take(a, a.shape[axis] - 1 - turn if flip else turn, axis)
                for a, axis, flip in zip(scanned, along, reverse, strict=True)
            ]
            state = dict(zip(names, [*carried, *parts], strict=True))
            yield state
            found = list(session.run({**_needed(around, model), **state}).values())
            carried = found[: len(carried)]


def _needed(around: Mapping[str, Data], model: ir.Model) -> dict[str, Data]:
    names = {str(v.name) for v in model.graph.inputs}
    return {name: data for name, data in around.items() if name in names}
