"""Put the body of a function into the graph that calls it."""

from collections import Counter

import onnx_ir as ir

from onnx_passes.model.walk import graphs_within
from onnx_passes.passes.common.graph_edits import discard, nodes_within, own_values, supersede


class Names:
    """How often each name is used.

    Nodes count because ONNX Runtime refuses two of one name.
    """

    def __init__(self, *graphs: ir.Graph) -> None:
        """Count the names in graphs; subgraphs are given too."""
        self.values: Counter[str] = Counter()
        self.nodes: Counter[str] = Counter()
        for graph in graphs:
            self.values.update(str(v.name) for v in own_values(graph) if v.name)
            self.nodes.update(node.name for node in graph if node.name)


def inline_call(
    graph: ir.Graph, call: ir.Node, function: ir.Function, names: Names
) -> list[ir.Node]:
    """Replace a call by a copy of the function's body; return the new nodes.

    The call has no more inputs and outputs than the function. ``names`` is kept up to date.
    """
    body = function.clone().graph
    results = list(body.outputs)
    body.outputs.clear()
    given = dict(zip(body.inputs, call.inputs, strict=False))
    for formal in list(body.inputs):
        actual = given.get(formal)
        for user, index in formal.uses():
            user.replace_input_with(index, actual)
    for inner in (n for outer in body for n in nodes_within(outer)):
        inner.name = free(inner.name, names.nodes) if inner.name else inner.name
        _resolve_attributes(inner, call, function)
        for key, text in call.metadata_props.items():
            inner.metadata_props.setdefault(key, text)
    formals = set(body.inputs)
    for value in (v for part in list(graphs_within(body)) for v in own_values(part)):
        if value.name and value not in formals:
            value.name = free(value.name, names.values)
    nodes = list(body)
    for value in (v for node in nodes for v in node.outputs):
        # What the function notes of its values need not hold for this call.
        value.type = value.shape = None
    body.remove(nodes)
    graph.insert_before(call, nodes)
    for old, new in zip(call.outputs, results, strict=False):
        actual = given.get(new, new)
        assert actual is not None, "an obstacle otherwise"
        fresh = actual.producer() in nodes and not actual.is_graph_output()
        if fresh and not old.is_graph_output() and old.name:
            # Readers go on reading the name that they know.
            names.values[str(actual.name)] -= 1
            name, old.name = old.name, None
            actual.name = name
            actual.type, actual.shape = old.type, old.shape
        supersede(old, actual, names.values)
    names.values.subtract(str(v.name) for v in call.outputs if v.name)
    names.nodes.subtract([call.name] if call.name else [])
    discard(call)
    return nodes


def free(wish: str, names: Counter[str]) -> str:
    """Return a name that is not used yet, and count it."""
    name, count = wish, 0
    while names[name] > 0:
        count += 1
        name = f"{wish}_{count}"
    names[name] += 1
    return name


def _resolve_attributes(node: ir.Node, call: ir.Node, function: ir.Function) -> None:
    for name, attribute in list(node.attributes.items()):
        if not attribute.is_ref():
            continue
        wanted = str(attribute.ref_attr_name)
        found = call.attributes.get(wanted) or function.attributes.get(wanted)
        if found is not None and found.is_ref():
            referred = str(found.ref_attr_name)
            node.attributes[name] = ir.RefAttr(name, referred, found.type)
        elif found is not None and found.value is not None:
            node.attributes[name] = ir.Attr(name, found.type, _copy(found))
        else:
            del node.attributes[name]


def _copy(attribute: ir.Attr) -> ir.Attr | ir.Graph | list[ir.Graph]:
    """Return a value that may be held by another node too."""
    match attribute.type:
        case ir.AttributeType.GRAPH:
            return attribute.as_graph().clone(allow_outer_scope_values=True)
        case ir.AttributeType.GRAPHS:
            return [g.clone(allow_outer_scope_values=True) for g in attribute.as_graphs()]
        case _:
            return attribute.value


def renamed(name: str | None, names: Counter[str]) -> str | None:
    """Return a name that nothing else has; the same one if it is so already."""
    if not name or names[name] == 1:
        return name
    names[name] -= 1
    return free(name, names)
