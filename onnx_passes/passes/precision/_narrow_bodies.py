"""Let values cross the ends of bodies in the lower type, so that Casts there go."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import onnx_ir as ir

from onnx_passes.model.walk import graphs_within, subgraphs_of
from onnx_passes.passes.precision._body_values import OPSET, Crossing, crossings_of
from onnx_passes.passes.precision._half_precision import Lowering, drop_constant
from onnx_passes.passes.precision._signature import WIDE


def narrow_bodies(lowering: Lowering) -> bool:
    """Lower the outputs of If, and the states, inputs and outputs of Loop and Scan.

    Only where bodies lower what enters at once, and widen what leaves last.

    Args:
        lowering: Of the model, which is changed in place; its nodes are lowered.

    Returns:
        Whether anything was lowered.
    """
    changed = False
    if lowering.model.graph.opset_imports.get("", 1) < OPSET:
        return False
    for graph in reversed(list(graphs_within(lowering.model.graph))):
        for node in list(graph):
            for crossing in list(crossings_of(node)):
                changed |= _narrow(node, crossing, lowering)
    return changed


def _narrow(node: ir.Node, crossing: Crossing, lowering: Lowering) -> bool:
    half, bodies = lowering.half, list(subgraphs_of(node))
    given = node.inputs[crossing.entry] if crossing.entry is not None else None
    ends = list(zip(bodies, crossing.inside, strict=True))
    entries = [body.inputs[i] for body, (i, _) in ends if i is not None]
    exits = [(body, o) for body, (_, o) in ends if o is not None]
    if (crossing.entry is not None and given is None) or not _admits(node, lowering):
        return False
    if not all(_is_lowered(value, half) for value in entries):
        return False
    if not all(_is_widened(body, place, half) for body, place in exits):
        return False
    for value in entries:
        value.type = ir.TensorType(half)
        _skip_casts(value, half)
    for body, place in exits:
        _return_source(body, place)
    if given is not None and crossing.entry is not None:
        _enter(node, crossing.entry, given, lowering)
    if crossing.exit is not None:
        output = node.outputs[crossing.exit]
        lowering.widen(output, {})
        _skip_casts_behind(output, half)
    return True


def _enter(node: ir.Node, place: int, given: ir.Value, lowering: Lowering) -> None:
    """Let a node read a value in the lower type."""
    wide = given.producer()
    source = wide.inputs[0] if wide is not None and _casts(wide, WIDE) else None
    if wide is None or source is None or source.dtype is not lowering.half:
        node.replace_input_with(place, lowering.lowered(given))
        drop_constant(given)
        return
    node.replace_input_with(place, source)
    _remove([wide])


def _admits(node: ir.Node, lowering: Lowering) -> bool:
    """Whether the operator is defined for the lower type."""
    opset = lowering.model.graph.opset_imports.get("", 1)
    schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    wanted = f"tensor({lowering.half.name.lower()})"
    return any(
        wanted in constraint.allowed_type_strs
        for constraint in schema.type_constraints
        if constraint.type_param_str == "V"
    )


def _is_lowered(value: ir.Value, half: ir.DataType) -> bool:
    """Whether all readers of an input of a body are Casts to the lower type."""
    readers = list(value.consumers())
    return (
        value.dtype is WIDE
        and bool(readers)
        and not value.is_graph_output()
        and not value.is_initializer()
        and all(_casts(user, half) for user in readers)
    )


def _is_widened(body: ir.Graph, place: int, half: ir.DataType) -> bool:
    """Whether a body returns a Cast of a value of its own in the lower type, once."""
    value = body.outputs[place]
    node = value.producer()
    source = node.inputs[0] if node is not None and _casts(node, WIDE) else None
    made = source.producer() if source is not None else None
    return (
        node is not None
        and node.graph is body
        and source is not None
        and source.dtype is half
        and made is not None
        and made.graph is body
        and not source.is_graph_output()
        and list(body.outputs).count(value) == 1
    )


def _casts(node: ir.Node, kind: ir.DataType) -> bool:
    return node.op_type == "Cast" and not node.domain and node.outputs[0].dtype is kind


def _return_source(body: ir.Graph, place: int) -> None:
    value = body.outputs[place]
    node = value.producer()
    assert node is not None, "it was looked at"
    source = node.inputs[0]
    assert source is not None, "a Cast reads a value"
    body.outputs[place] = source
    _remove([node])


def _skip_casts(value: ir.Value, half: ir.DataType) -> None:
    """Let readers of Casts of a value to its own type read the value."""
    casts = [user for user in value.consumers() if _casts(user, half)]
    for node in casts:
        node.outputs[0].replace_all_uses_with(value, replace_graph_outputs=True)
    _remove(casts)


def _skip_casts_behind(value: ir.Value, half: ir.DataType) -> None:
    """Let readers of Casts of a value to float32 and back read the value."""
    wide = [user for user in value.consumers() if _casts(user, WIDE)]
    for node in wide:
        again = [user for user in node.outputs[0].consumers() if _casts(user, half)]
        kept = [user for user in again if user.outputs[0].is_graph_output()]
        for user in again:
            if user not in kept:
                user.outputs[0].replace_all_uses_with(value)
        _remove([user for user in again if user not in kept])
    _remove(wide)


def _remove(nodes: Sequence[ir.Node]) -> None:
    for node in nodes:
        (output,) = node.outputs
        if not output.uses() and not output.is_graph_output() and node.graph is not None:
            node.graph.remove(node, safe=True)
