"""The part of a model that a pass changed, as a model of its own.

Values are matched by name. A node is *kept* if the model before had one of the same operator,
attributes, input names and output names (constants are matched by content, so that it does
not matter where they are stored); the others are *new*. If every value on the frontier
(computed by a new node, read by a kept one or an output) is equal, bit for bit, to the value
of that name before, then by induction over the graph every kept node computes what it did,
and so do the outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.passes.constants import is_constant
from onnx_passes.runtime.base import Array
from onnx_passes.surgery.digest import Key, leaf_key, tensor_digest
from onnx_passes.surgery.walk import captured_values


@dataclass(frozen=True)
class Region:
    """What changed in a model.

    Attributes:
        nodes: The new nodes of the main graph, in order.
        boundary: Names of the values that they read and do not compute, constants aside.
        frontier: Names of the values that they compute and others read.
    """

    nodes: tuple[ir.Node, ...]
    boundary: tuple[str, ...]
    frontier: tuple[str, ...]


def changed_region(before: ir.Model, after: ir.Model) -> Region | None:
    """Find what changed between two models.

    Returns:
        The region; None where values cannot be matched by name, so that only the whole model
        tells: other opset imports, functions or defaults of inputs, an output of no node.
    """
    if (
        dict(before.opset_imports) != dict(after.opset_imports)
        or _defaults(before) != _defaults(after)
        or not _functions(before, after)
    ):
        return None
    known = {_node_key(node) for node in before.graph}
    new = tuple(
        node
        for node in after.graph
        if not _is_constant_node(node) and _node_key(node) not in known
    )
    inside = {value for node in new for value in node.outputs}
    read = [value for node in new for value in (*node.inputs, *captured_values(node))]
    boundary = dict.fromkeys(
        str(v.name) for v in read if v is not None and v not in inside and not is_constant(v)
    )
    fresh = set(new)
    frontier = dict.fromkeys(
        str(value.name)
        for node in new
        for value in node.outputs
        if value.is_graph_output() or any(user not in fresh for user in _users(value, after))
    )
    names = {str(v.name) for v in before.graph.inputs}
    names.update(str(v.name) for node in before.graph for v in node.outputs)
    if any(name not in names for name in (*boundary, *frontier)):
        return None
    if any(v.producer() is None and not v.is_graph_input() for v in after.graph.outputs):
        return None
    if _constant_outputs(before) != _constant_outputs(after):
        return None  # no node computes them that could be run
    return Region(new, tuple(boundary), tuple(frontier))


def region_model(model: ir.Model, region: Region, values: Mapping[str, Array]) -> ir.Model:
    """Return the region as a model: inputs are its boundary, outputs all that it computes.

    Args:
        model: The model that the region was found in.
        region: The region.
        values: A value for each name of the boundary, for its type and rank.
    """
    whole = model.clone()
    graph = whole.graph
    by_name = {str(v.name): v for v in graph.inputs}
    by_name |= {str(v.name): v for node in graph for v in node.outputs}
    keep = {str(node.outputs[0].name) for node in region.nodes}
    nodes = [node for node in graph if node.outputs and str(node.outputs[0].name) in keep]
    inputs = []
    for name in region.boundary:
        array = values[name]
        old = by_name[name]
        dims = [None] * array.ndim
        entry = ir.Value(
            name=name,
            type=ir.TensorType(ir.DataType.from_numpy(array.dtype)),
            shape=ir.Shape(dims),
        )
        old.replace_all_uses_with(entry, replace_graph_outputs=True)
        inputs.append(entry)
    outputs = [v for node in nodes for v in node.outputs if v.name]
    constants = [n for n in graph if _is_constant_node(n)]
    initializers = [v for v in graph.initializers.values() if not v.is_graph_input()]
    graph.outputs.clear()
    graph.remove([*nodes, *constants])
    graph.initializers.clear()
    body = ir.Graph(
        inputs,
        outputs,
        nodes=[*constants, *nodes],
        initializers=initializers,
        opset_imports=dict(graph.opset_imports),
        name="region",
    )
    functions = list(whole.functions.values())
    return ir.Model(body, ir_version=model.ir_version, functions=functions)


def _defaults(model: ir.Model) -> dict[str, bytes]:
    """Return the digests of the initializers that callers may override, by name."""
    return {
        str(value.name): tensor_digest(value.const_value)
        for value in model.graph.inputs
        if value.const_value is not None
    }


def _constant_outputs(model: ir.Model) -> dict[str | None, Key | str | None]:
    return {v.name: _read_key(v) for v in model.graph.outputs if is_constant(v)}


def _functions(before: ir.Model, after: ir.Model) -> bool:
    """Whether every function left is what it was."""
    if not after.functions:
        return True
    shared = all(
        key in before.functions
        and _graph_key(before.functions[key].graph) == _graph_key(function.graph)
        for key, function in after.functions.items()
    )
    return shared


def _users(value: ir.Value, model: ir.Model) -> list[ir.Node]:
    """Return the nodes of the main graph that read a value, or hold a subgraph that does."""
    found = []
    for user in value.consumers():
        if user.graph is model.graph:
            found.append(user)
        else:
            found += [n for n in model.graph if value in captured_values(n)]
    return found


def _is_constant_node(node: ir.Node) -> bool:
    return node.op_type == "Constant" and node.domain == "" and is_constant(node.outputs[0])


def _node_key(node: ir.Node) -> Key:
    return (
        node.domain,
        node.op_type,
        node.overload,
        tuple(map(_read_key, node.inputs)),
        tuple(value.name for value in node.outputs),
        tuple(sorted((_attribute_key(a) for a in node.attributes.values()), key=repr)),
    )


def _read_key(value: ir.Value | None) -> Key | str | None:
    if value is None:
        return None
    if is_constant(value):
        tensor = ir.convenience.get_const_tensor(value)
        assert tensor is not None
        return ("constant", tensor_digest(tensor))
    return value.name


def _attribute_key(attribute: ir.Attr) -> Key:
    if not attribute.is_ref():
        if attribute.type is ir.AttributeType.GRAPH:
            return (attribute.name, _graph_key(attribute.as_graph()))
        if attribute.type is ir.AttributeType.GRAPHS:
            return (attribute.name, tuple(map(_graph_key, attribute.as_graphs())))
    return (attribute.name, leaf_key(attribute))


def _graph_key(graph: ir.Graph) -> Key:
    return (
        tuple(value.name for value in graph.inputs),
        tuple(map(_read_key, graph.outputs)),
        tuple(_node_key(node) for node in graph),
    )
