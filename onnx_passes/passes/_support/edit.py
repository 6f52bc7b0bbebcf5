"""Edits that leave a valid graph with the user's names on its outputs."""

from __future__ import annotations

from collections import Counter

import onnx_ir as ir

from onnx_passes.passes._support.scopes import nodes_within


def discard(node: ir.Node) -> None:
    """Take a node out of its graph, and its subgraphs with it.

    The nodes of its subgraphs would otherwise stay on as readers of outer values, and keep
    these alive.

    Raises:
        ValueError: An output is still read, or returned by the graph.
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
    takes them over where it can, and otherwise an Identity carries them.

    Args:
        old: A node's output; afterwards nothing reads or returns it.
        new: A value that is computed before ``old`` and visible where it is.
        names: Count of values by name in the model; kept up to date.
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
