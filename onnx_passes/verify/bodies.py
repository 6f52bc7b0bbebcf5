"""The bodies of If, Loop and Scan: as models, and their values as outputs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.errors import EngineError, ModelError, UsageError
from onnx_passes.model.copy import copy_nodes
from onnx_passes.model.walk import captured_values, subgraphs_of
from onnx_passes.runtime.engine_base import Data, Engine
from onnx_passes.runtime.inputs.concrete_shapes import skeleton, specialize_shapes
from onnx_passes.runtime.inputs.dimensions import check_memory
from onnx_passes.verify.judge import identical
from onnx_passes.verify.node_equality import constant_tensor
from onnx_passes.verify.well_formed import infer_types

_HOLDERS = ("If", "Loop", "Scan")
_MOST_ITERATIONS = 3
"""Iterations of a loop whose values a body is run on, for each sample."""


@dataclass(frozen=True)
class Bodies:
    """A body before and after a pass, and what it is run on.

    ``holder`` is the node before; ``after`` is called as ``before`` is. ``feeds`` include what
    the body reads from around it. If it is not ``certain`` that one replaces the other, only
    agreement is evidence.
    """

    holder: ir.Node
    name: str
    before: ir.Model
    after: ir.Model
    feeds: list[dict[str, Data]]
    samples: list[int]
    certain: bool

    def is_entered(self, samples: Sequence[Mapping[str, Array]]) -> bool:
        """Whether a sample of the main graph enters the body."""
        return self.name in executed_bodies(self.holder, samples)

    @property
    def fits_memory(self) -> bool:
        """Whether no value alone takes all memory, as far as shapes are inferred."""
        given = self.feeds[0].items()
        shapes = {name: data.shape for name, data in given if isinstance(data, np.ndarray)}
        try:
            for model in (self.before, self.after):
                check_memory(specialize_shapes(skeleton(model), shapes, {})[0])
        except ModelError:
            return False
        return True


@dataclass(frozen=True)
class Holders:
    """A node with bodies before and after a pass.

    It is ``certain`` if each result replaces that of the same position, and the same branch is
    taken on each sample.
    """

    old: ir.Node
    new: ir.Node
    certain: bool


def pair_holders(
    removed: Sequence[ir.Node],
    new: Sequence[ir.Node],
    samples: Sequence[Mapping[str, Array]],
    replaced: Mapping[str, str],
    moved: Collection[str] = (),
) -> list[Holders]:
    """Pair the nodes with bodies that were removed with those that are new.

    The value that a result replaces decides, or else its name. Those that replace nothing
    known are paired in order, if there are as many of an operator on both sides. ``samples``
    are values of the main graph before; ``replaced`` maps names after to those before;
    ``moved`` are names that a pass may have given to other values.
    """
    olds = {node: _kind(node) for node in removed if holds_bodies(node)}
    news = {node: _kind(node) for node in new if holds_bodies(node)}
    makers = {str(v.name): node for node in olds for v in node.outputs if v.name}
    found: list[Holders] = []
    for node, kind in list(news.items()):
        names = [replaced.get(str(v.name), v.name) for v in node.outputs]
        old = next((makers[name] for name in names if name in makers), None)
        if old is not None and olds.get(old) == kind:
            pairs = zip(names, (v.name for v in old.outputs), strict=True)
            alike = all(a == b for a, b in pairs if a in makers)
            alike &= all(v.name in replaced or v.name not in moved for v in node.outputs)
            found.append(
                Holders(old, node, alike and _entered_alike(old, node, samples, replaced))
            )
            del olds[old], news[node]
    for kind in dict.fromkeys(news.values()):
        rest = [[node for node in side if side[node] == kind] for side in (olds, news)]
        if len(rest[0]) == len(rest[1]):
            found += [
                Holders(old, node, certain=False) for old, node in zip(*rest, strict=True)
            ]
    return found


def _kind(node: ir.Node) -> tuple[str, int]:
    return node.op_type, len(node.outputs)


def _entered_alike(
    old: ir.Node,
    new: ir.Node,
    samples: Sequence[Mapping[str, Array]],
    replaced: Mapping[str, str],
) -> bool:
    """Whether both nodes take the same branch, or enter a body with the same values."""
    if len(old.inputs) != len(new.inputs):
        return False
    for one, other in zip(old.inputs, new.inputs, strict=True):
        if one is None or other is None:
            if one is not other:
                return False
        elif replaced.get(str(other.name), other.name) != one.name:
            try:
                same = all(identical(_value(one, v), _value(other, v)) for v in samples)
            except KeyError:
                return False
            if not same:
                return False
    return True


def executed_bodies(node: ir.Node, samples: Sequence[Mapping[str, Array]]) -> set[str]:
    """Return the attributes whose bodies run on the samples."""
    found: set[str] = set()
    for values in samples:
        try:
            given = [None if v is None else _value(v, values) for v in node.inputs]
        except KeyError:
            continue  # it is not recorded
        match node.op_type:
            case "If":
                found.add("then_branch" if np.all(given[0]) else "else_branch")
            case "Loop" if all(np.all(array) for array in given[:2] if array is not None):
                found.add("body")
            case "Scan":
                count = node.attributes["num_scan_inputs"].as_int()
                if all(np.asarray(array).size for array in given[len(given) - count :]):
                    found.add("body")
    return found


def changed_bodies(
    before: ir.Model,
    after: ir.Model,
    holders: Sequence[Holders],
    samples: Sequence[Mapping[str, Array]],
    replaced: Mapping[str, str],
    engine: Engine,
) -> Iterator[Bodies]:
    """Yield the bodies of paired nodes.

    A branch that no sample takes is run all the same, on the values around it. ``samples`` are
    values of the main graph before; ``replaced`` maps names after to those before. The engine
    runs the bodies of loops, for the values of later iterations.
    """
    for pair in holders:
        for name, attribute in pair.new.attributes.items():
            theirs = pair.old.attributes.get(name)
            if attribute.type is not ir.AttributeType.GRAPH or theirs is None:
                continue
            one, other = theirs.as_graph(), attribute.as_graph()
            if len(one.inputs) != len(other.inputs) or len(one.outputs) != len(other.outputs):
                continue
            try:
                models = (
                    body_model(before, one, samples[0], one, {}),
                    body_model(after, other, samples[0], one, replaced),
                )
                feeds, places = _feeds(pair.old, one, models, samples, engine)
            except (EngineError, KeyError, IndexError):
                continue  # what it reads is not a tensor, or it does not run by itself
            yield Bodies(pair.old, name, *models, feeds, places, pair.certain)


def holds_bodies(node: ir.Node) -> bool:
    """Whether a node is one whose bodies can be run by themselves."""
    return node.domain == "" and node.op_type in _HOLDERS


def _feeds(
    holder: ir.Node,
    body: ir.Graph,
    models: tuple[ir.Model, ir.Model],
    samples: Sequence[Mapping[str, Array]],
    engine: Engine,
) -> tuple[list[dict[str, Data]], list[int]]:
    """Return what both models are run on, with the sample of each; both get all inputs."""
    names = {str(v.name) for model in models for v in model.graph.inputs}
    feeds: list[dict[str, Data]] = []
    places: list[int] = []
    for place, values in enumerate(samples):
        around: dict[str, Data] = {n: values[n] for n in names if n in values}
        feeds += [
            around | given
            for given in _entries(holder, body, values, around, models[0], engine)
        ]
        places += [place] * (len(feeds) - len(places))
    for model in models:  # what one side reads and the other does not is there for both
        _add_inputs(model, names, feeds[0])
    return feeds, places


def body_model(
    model: ir.Model,
    body: ir.Graph,
    values: Mapping[str, Array],
    like: ir.Graph,
    replaced: Mapping[str, str],
) -> ir.Model:
    """Return a body as a model; what it reads from around it are inputs.

    ``values`` around it give types and ranks. Inputs and results take their names from
    ``like``, by position.
    """
    nodes, copies = copy_nodes(list(body))
    made = {out for node in body for out in node.outputs}
    inside = [*body.inputs, *made]
    for value in (*body.inputs, *body.outputs):
        copies.setdefault(value, ir.Value(name=value.name))
    read = [v for n in body for v in (*n.inputs, *captured_values(n)) if v is not None]
    around = [v for v in dict.fromkeys((*read, *body.outputs)) if v not in inside]
    wanted = {
        copies[v]: str(
            v.name if constant_tensor(v) is not None else replaced.get(str(v.name), v.name)
        )
        for v in around
    }
    wanted |= {
        copies[v]: str(known.name) for v, known in zip(body.inputs, like.inputs, strict=True)
    }
    results: list[ir.Value] = []
    for index, (value, known) in enumerate(zip(body.outputs, like.outputs, strict=True)):
        copy = copies[value]
        if value not in made or copy in results:
            nodes.append(ir.node("Identity", [copy]))
            copy = nodes[-1].outputs[0]
        own = known.producer() is not None and known not in like.outputs[:index]
        wanted[copy] = str(known.name) if own else f"{known.name}/given{index}"
        results.append(copy)
    _name({*copies.values(), *results}, wanted)
    inputs = [copies[value] for value in body.inputs]
    for value, entry in zip(body.inputs, inputs, strict=True):
        entry.type, entry.shape = value.type, None
    initializers: list[ir.Value] = []
    for value in around:
        copy, tensor = copies[value], constant_tensor(value)
        if tensor is not None:
            copy.const_value = tensor
            initializers.append(copy)
            continue
        array = values[str(copy.name)]
        copy.type = ir.TensorType(ir.DataType.from_numpy(array.dtype))
        copy.shape = ir.Shape([None] * array.ndim)
        inputs.append(copy)
    graph = ir.Graph(
        inputs,
        results,
        nodes=nodes,
        initializers=initializers,
        opset_imports=dict(model.graph.opset_imports),
        name="body",
    )
    functions = [function.clone() for function in model.functions.values()]
    return ir.Model(graph, ir_version=model.ir_version, functions=functions)


def _name(values: Iterable[ir.Value], wanted: Mapping[ir.Value, str]) -> None:
    """Name values; others that have one of these names get another."""
    taken = set(wanted.values())
    for value in values:
        if value in wanted or value.name in taken:
            value.const_value = None  # it would be renamed as well, and is shared
            value.name = wanted.get(value, f"{value.name}/own")


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


_LOOPS = {"Loop": 8, "Scan": 9}
"""Operators that stack what a body gives, and the opset from which they do it as here."""


def typed(model: ir.Model) -> ir.Model:
    """Return a copy with types for :func:`expose_bodies`; the model itself without bodies."""
    if not any(in_bodies(model)):
        return model
    copy = model.clone()
    infer_types(copy)
    return copy


def expose_bodies(model: ir.Model, wanted: Collection[str] | None = None) -> ir.Model:
    """Return a copy whose nodes give values of their bodies too; the model without bodies.

    Values that cannot be given are left out: those of unknown type, and in loops those whose
    shape may be another one in each iteration. The types of the model must be known, see
    :func:`typed`. ``wanted`` are names as seen from outside; None for all.
    """
    if not any(in_bodies(model)):
        return model
    copy = model.clone()
    taken = {v.name for node in copy.graph.all_nodes() for v in node.outputs}
    opset = copy.opset_imports.get("", 0)
    _expose(copy.graph, wanted, "", opset, taken)
    return copy


def place_of(node: ir.Node, attribute: str) -> str:
    """Return what comes before the names of a body's values outside of the node."""
    return f"{_body_name(node)}/{attribute}/"


def _expose(
    graph: ir.Graph,
    wanted: Collection[str] | None,
    prefix: str,
    opset: int,
    taken: set[str | None],
) -> None:
    for node in list(graph):
        bodies = {name: a.as_graph() for name, a in node.attributes.items() if _holds(a)}
        for name, body in bodies.items():
            own = place_of(node, name)
            _expose(body, wanted, prefix + own, opset, taken)
            if node.domain not in ("", "ai.onnx"):
                continue
            known = set(taken)
            chosen = [
                value
                for inner in list(body)
                for value in inner.outputs
                if _is_tensor(value)
                and constant_tensor(value) is None
                and (wanted is None or f"{prefix}{own}{value.name}" in wanted)
                and f"{own}{value.name}" not in known
            ]
            if node.op_type == "If":
                _open_branch(
                    node, body, [o for n, o in bodies.items() if n != name], chosen, own
                )
            elif opset >= _LOOPS.get(node.op_type, 1 << 31):
                _open_loop(node, body, chosen, own)


def _holds(attribute: ir.Attr) -> bool:
    return attribute.type == ir.AttributeType.GRAPH and not attribute.is_ref()


def _is_tensor(value: ir.Value) -> bool:
    plain = isinstance(value.type, ir.TensorType) and bool(value.name)
    return plain and value.dtype not in (ir.DataType.UNDEFINED, ir.DataType.STRING)


def _open_branch(
    node: ir.Node,
    body: ir.Graph,
    others: Sequence[ir.Graph],
    values: Sequence[ir.Value],
    prefix: str,
) -> None:
    for value in values:
        if value.is_graph_output():
            continue  # the node gives it already
        assert value.dtype is not None
        body.outputs.append(value)
        for other in others:
            # Of one shape whatever is known of the value: another model may know less.
            nothing = ir.tensor(np.zeros(0, value.dtype.numpy()), value.dtype)
            stand_in = ir.node("Constant", [], {"value": nothing})
            stand_in.outputs[0].name = f"{prefix}{value.name}/not_taken"
            stand_in.outputs[0].type = value.type
            stand_in.outputs[0].shape = ir.Shape((0,))
            other.append(stand_in)
            other.outputs.append(stand_in.outputs[0])
        _add_output(node, f"{prefix}{value.name}", value.dtype, None)


def _open_loop(node: ir.Node, body: ir.Graph, values: Sequence[ir.Value], prefix: str) -> None:
    added = 0
    condition = body.outputs[0] if node.op_type == "Loop" else None
    for value in values:
        if value.shape is None or not value.shape.is_static() or value is condition:
            continue
        assert value.dtype is not None
        given = value
        if value.is_graph_output():
            again = ir.node("Identity", [value])
            given = again.outputs[0]
            given.name, given.type = f"{prefix}{value.name}/each", value.type
            given.shape = value.shape.copy()
            body.append(again)
        body.outputs.append(given)
        shape = ir.Shape([None, *value.shape.numpy()])
        _add_output(node, f"{prefix}{value.name}", value.dtype, shape)
        added += 1
    for name in ("scan_output_axes", "scan_output_directions"):
        if added and name in node.attributes:
            known = list(node.attributes[name].as_ints())
            node.attributes[name] = ir.AttrInt64s(name, [*known, *([0] * added)])


def _add_output(node: ir.Node, name: str, dtype: ir.DataType, shape: ir.Shape | None) -> None:
    node.resize_outputs(len(node.outputs) + 1)
    made = node.outputs[-1]
    made.name, made.type, made.shape = name, ir.TensorType(dtype), shape


def inner_first(node: ir.Node) -> list[ir.Value]:
    """Return the outputs of a node as they are computed: those of its bodies come first."""
    own = f"{_body_name(node)}/"
    return sorted(node.outputs, key=lambda value: not str(value.name).startswith(own))


def in_bodies(model: ir.Model) -> Iterator[tuple[ir.Node, ir.Node]]:
    """Yield the nodes in bodies, each after the node of the main graph that holds it."""
    for node in model.graph:
        for body in subgraphs_of(node):
            for inner in body.all_nodes():
                yield node, inner


def inner_name_error(name: str, model: ir.Model, known: Sequence[str]) -> UsageError | None:
    """Return the message for a value of a body that is asked for by its inner name."""
    for holder, inner in in_bodies(model):
        if name in (value.name for value in inner.outputs):
            outside = [each for each in known if each.endswith(f"/{name}")]
            given = outside[0] if outside else holder.outputs[0].name
            why = "which it is called outside" if outside else "which the node gives"
            return UsageError(
                f"the value {name!r} lies in a body of {_title(holder)}",
                help=f"name {given!r}, {why}, or cut the body out: "
                f"onnx-passes extract MODEL -o body.onnx --outputs {name}",
            )
    return None


def hidden_values_note(model: ir.Model, known: Collection[str]) -> str:
    """Say how many values of bodies are left out where all are asked for; empty for none."""
    ends = {n[i + 1 :] for n in known for i, letter in enumerate(n) if letter == "/"}
    counts: dict[str, int] = {}
    for holder, inner in in_bodies(model):
        for value in inner.outputs:
            hidden = not value.is_graph_output() and constant_tensor(value) is None
            if hidden and value.name not in ends:
                counts[_title(holder)] = counts.get(_title(holder), 0) + 1
    if not counts:
        return ""
    some = ", ".join(list(counts)[:3]) + (", ..." if len(counts) > 3 else "")
    return (
        f"not all values in the bodies of {some} are shown: the types of "
        f"{sum(counts.values())} are not known, or their shapes may change from one iteration "
        "to the next; extract cuts a body out, to compare it alone"
    )


def _body_name(node: ir.Node) -> str:
    return str(node.name or node.outputs[0].name)


def _title(node: ir.Node) -> str:
    return f"{node.op_type} {_body_name(node)!r}"
