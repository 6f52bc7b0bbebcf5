"""Edits that leave a valid graph with the user's names on its outputs.

It covers scopes and names, new and removed nodes, renamed values, and constants that replace
computed values.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.model import walk
from onnx_passes.passes.common.shapes import dims_of
from onnx_passes.passes.replace import Namer

QUANTIZATION = "quant_parameter_tensor_names"
"""Where onnx-ir keeps a value's quantization annotation: it refers to tensors by *name*."""


def roots(model: ir.Model) -> Iterator[tuple[ir.Graph, dict[str, int]]]:
    """Yield the main graph and every function body, with the opset imports that hold there."""
    yield model.graph, model.graph.opset_imports
    for function in model.functions.values():
        yield function.graph, function.opset_imports


def own_values(graph: ir.Graph) -> Iterator[ir.Value]:
    """Yield the values that a graph itself defines, each once."""
    seen: set[ir.Value] = set()
    for value in (*graph.inputs, *graph.initializers.values()):
        if value not in seen:
            seen.add(value)
            yield value
    for node in walk.nodes_of(graph):
        yield from walk.node_outputs(node)


def name_counts(model: ir.Model) -> Counter[str]:
    """Count the values of each name, over all graphs and functions."""
    return Counter(v.name for g in walk.all_graphs(model) for v in own_values(g) if v.name)


def nodes_within(node: ir.Node) -> Iterator[ir.Node]:
    """Yield a node, then every node of its subgraphs, at any depth."""
    yield node
    for subgraph in walk.subgraphs_of(node):
        for graph in walk.graphs_within(subgraph):
            yield from graph


def annotated_names(model: ir.Model) -> set[str]:
    """Return the names that quantization annotations refer to."""
    return {
        name
        for graph in walk.all_graphs(model)
        for store in map(walk.meta, own_values(graph))
        if store
        for name in (store.get(QUANTIZATION) or {}).values()
    }


FREE_INITIALIZERS = 4


def require_free_initializers(model: ir.Model) -> None:
    """Raise the IR version to 4 if needed: before, every initializer had to be an input."""
    model.ir_version = max(model.ir_version, FREE_INITIALIZERS)


def discard(node: ir.Node) -> None:
    """Take a node out of its graph, and its subgraphs with it.

    The nodes of its subgraphs would otherwise stay on as readers of outer values, and keep
    these alive. Raises ValueError if an output is still read or returned.
    """
    assert node.graph is not None, "the node is in no graph"
    node.graph.remove(node, safe=True)
    for inner in nodes_within(node):
        for index, value in enumerate(inner.inputs):
            if value is not None:
                inner.replace_input_with(index, None)


def supersede(old: ir.Value, new: ir.Value, names: Counter[str]) -> None:
    """Replace ``old`` by ``new`` everywhere, as input of nodes and as output of the graph.

    An output of the graph keeps its name, type and shape, which belong to the user: ``new``
    takes them over where it can, and otherwise an Identity carries them. ``new`` must be
    computed before ``old``, and visible where it is. ``names`` counts values by name in the
    model, and is kept up to date.
    """
    if not old.is_graph_output():
        old.replace_all_uses_with(new)
        return
    producer, graph = old.producer(), old.graph
    assert producer is not None, "an input or initializer is superseded by nothing"
    assert graph is not None, "the value is in no graph"
    name = old.name or ""
    source = new.producer()
    takes_over = (
        source is not None
        and source.graph is graph
        and not new.is_graph_output()
        # The name moves to an earlier place, where a subgraph may use it for its own.
        and names[name] == 1
    )
    if takes_over:
        standing = new
        names[new.name or ""] -= 1
    else:
        # Without a name onnx-ir numbers it, in every branch from 0.
        identity = ir.Node("", "Identity", [new], name=f"{name}_out")
        graph.insert_before(producer, identity)
        standing = identity.outputs[0]
        standing.name = None
    # Only now is the name free.
    old.name = None
    standing.name = name
    standing.doc_string = old.doc_string or standing.doc_string
    standing.type = old.type or standing.type
    standing.shape = old.shape if old.shape is not None else standing.shape
    standing.metadata_props.update(old.metadata_props)
    old.replace_all_uses_with(standing, replace_graph_outputs=True)


def _annotations_of(value: ir.Value) -> Iterator[dict[str, str]]:
    """Yield the quantization annotations that can refer to a value: those that see it."""
    if value.graph is not None:
        for graph in walk.graphs_within(value.graph):
            for other in own_values(graph):
                if other.meta.get(QUANTIZATION):
                    yield other.meta[QUANTIZATION]


def rename_value(value: ir.Value, new: str) -> None:
    """Give a value another name; quantization annotations follow it."""
    for annotation in list(_annotations_of(value)):
        for key in [k for k, name in annotation.items() if name == value.name]:
            annotation[key] = new
    value.name = new


def inverse(perm: Sequence[int]) -> list[int]:
    """Return the permutation that undoes another."""
    return [list(perm).index(axis) for axis in range(len(perm))]


_FIRST_WITH_SIZES_AS_INPUT = 13


def constant_node(tensor: ir.TensorProtocol, name: str) -> ir.Node:
    """Return a Constant whose result ``name`` notes its tensor, type and shape."""
    node = ir.Node("", "Constant", [], [ir.AttrTensor("value", tensor)])
    (value,) = node.outputs
    value.name, value.const_value = name, tensor
    value.type, value.shape = ir.TensorType(tensor.dtype), ir.Shape(tensor.shape.numpy())
    return node


def split_nodes(
    x: ir.Value, sizes: Sequence[int], axis: int, namer: Namer, *, opset: int, name: str
) -> list[ir.Node]:
    """Return a Split and, where its sizes are an input, the Constant in front of it.

    Parts get the type of ``x``, and their shapes if it has one. ``axis`` may count from the
    end; ``name`` is the base of the Split's name.
    """
    nodes, operands = [], [x]
    attributes: dict[str, int | Sequence[int]] = {"axis": axis}
    if opset < _FIRST_WITH_SIZES_AS_INPUT:
        attributes["split"] = sizes
    else:
        tensor = ir.tensor(np.asarray(sizes, np.int64))
        nodes.append(constant_node(tensor, namer.value("sizes")))
        operands += nodes[0].outputs
    split = ir.node("Split", operands, attributes=attributes, num_outputs=len(sizes))
    split.name, dims = namer.node(name), dims_of(x)
    for value, size in zip(split.outputs, sizes, strict=True):
        value.name, value.type = namer.value("part"), x.type
        if dims is not None:
            dims[axis] = size
            value.shape = ir.Shape(dims)
    return [*nodes, split]


def install(value: ir.Value, tensor: ir.TensorProtocol, *, in_function: bool) -> None:
    """Let every reader of a node's output read a constant of the same name.

    The constant is an initializer; a Constant node in functions, which have no initializers,
    and for outputs of a graph, which stay values that a node computes. Afterwards ``value``
    has no name and no readers. ``in_function`` includes graphs inside a function.
    """
    node = value.producer()
    assert node is not None, "only a node's output is replaced"
    graph = node.graph
    assert graph is not None, "the node is in a graph"
    name, value.name = value.name, None
    tensor.name = name
    new = ir.Value(
        name=name,
        type=ir.TensorType(tensor.dtype),
        shape=ir.Shape(tensor.shape.numpy()),
        doc_string=value.doc_string,
        metadata_props=dict(value.metadata_props),
    )
    new.meta.update(value.meta)
    if value.is_graph_output():
        new.type, new.shape = value.type or new.type, value.shape or new.shape
    if in_function or value.is_graph_output():
        attribute = ir.AttrTensor("value", tensor)
        constant = ir.Node(
            "",
            "Constant",
            [],
            [attribute],
            outputs=[new],
            # onnx-ir would count from 0 in each subgraph, and two nodes would share a name.
            name=f"{name}_constant",
            metadata_props=dict(node.metadata_props),
        )
        graph.insert_before(node, constant)
        value.replace_all_uses_with(new, replace_graph_outputs=True)
    else:
        new.const_value = tensor
        value.replace_all_uses_with(new)
        graph.register_initializer(new)


def discard_unread(nodes: Iterable[ir.Node]) -> None:
    """Remove the nodes that nobody reads any more, and what only they read."""
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if node.graph is None or not node.outputs:
            continue
        if any(value.uses() or value.is_graph_output() for value in node.outputs):
            continue
        inputs = {v for inner in nodes_within(node) for v in inner.inputs if v is not None}
        discard(node)
        producers = (value.producer() for value in inputs)
        pending.extend(dict.fromkeys(p for p in producers if p is not None))
