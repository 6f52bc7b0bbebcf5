"""Values in the bodies of If, Loop and Scan, as outputs of the nodes that hold them.

A value ``v`` of the body ``then_branch`` of the node ``n`` is called ``n/then_branch/v``. Of a
branch that is not taken it is empty; of a loop it has all iterations, one after the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.errors import UsageError
from onnx_passes.model.walk import subgraphs_of
from onnx_passes.verify.node_equality import constant_tensor
from onnx_passes.verify.onnx_inference import infer_types

_LOOPS = {"Loop": 8, "Scan": 9}
"""Operators that stack what a body gives, and the opset from which they do it as here."""


def typed(model: ir.Model) -> ir.Model:
    """Return a copy with the types that :func:`expose` asks for; the model without bodies."""
    if not any(in_bodies(model)):
        return model
    copy = model.clone()
    infer_types(copy)
    return copy


def expose(model: ir.Model, wanted: Collection[str] | None = None) -> ir.Model:
    """Return a copy whose nodes give values of their bodies too; the model without bodies.

    Values that cannot be given are left out: those of unknown type, and in loops those whose
    shape may be another one in each iteration.

    Args:
        model: A model with types; see :func:`typed`.
        wanted: The names of the values, as they are called outside; None for all.
    """
    if not any(in_bodies(model)):
        return model
    copy = model.clone()
    taken = {v.name for node in copy.graph.all_nodes() for v in node.outputs}
    opset = copy.opset_imports.get("", 0)
    _expose(copy.graph, wanted, "", opset, taken)
    return copy


def place_of(node: ir.Node, attribute: str) -> str:
    """Return what comes before the names of a body's values outside of the node.

    Args:
        node: The node that has the body.
        attribute: The attribute that holds it.
    """
    return f"{_name(node)}/{attribute}/"


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
        rank = 1 if value.shape is None else max(1, len(value.shape))
        for other in others:
            nothing = ir.tensor(np.zeros((0,) * rank, value.dtype.numpy()), value.dtype)
            stand_in = ir.node("Constant", [], {"value": nothing})
            stand_in.outputs[0].name = f"{prefix}{value.name}/not_taken"
            stand_in.outputs[0].type = value.type
            stand_in.outputs[0].shape = ir.Shape((0,) * rank)
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
    own = f"{_name(node)}/"
    return sorted(node.outputs, key=lambda value: not str(value.name).startswith(own))


def in_bodies(model: ir.Model) -> Iterator[tuple[ir.Node, ir.Node]]:
    """Yield the nodes in bodies, each after the node of the main graph that holds it."""
    for node in model.graph:
        for body in subgraphs_of(node):
            for inner in body.all_nodes():
                yield node, inner


def inside(name: str, model: ir.Model, known: Sequence[str]) -> UsageError | None:
    """Return the message for a value of a body that is asked for by its inner name.

    Args:
        name: The inner name.
        model: The model.
        known: Names that may be asked for.
    """
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


def not_shown(model: ir.Model, known: Collection[str]) -> str:
    """Say how many values of bodies are left out where all are asked for; empty for none.

    Args:
        model: The model.
        known: Names of the values that are shown.
    """
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


def _name(node: ir.Node) -> str:
    return str(node.name or node.outputs[0].name)


def _title(node: ir.Node) -> str:
    return f"{node.op_type} {_name(node)!r}"
