"""Replace a match, and leave a valid graph.

A function says whether the new nodes have types and shapes that need no inference.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import chain
from typing import Any

import onnx_ir as ir

from onnx_passes.model import walk

Container = ir.Graph | ir.Function

_RESERVED: ContextVar[frozenset[str]] = ContextVar("reserved", default=frozenset())


@contextmanager
def reserve_names(model: ir.Model) -> Iterator[None]:
    """Give no new value a name that a value of this model has, even if it is removed.

    Values of a model before and after are matched by name. Between the two, a sequence of
    passes must not give the name of a value that one of them removed to another value.
    """
    token = _RESERVED.set(_RESERVED.get() | Namer(model).values)
    try:
        yield
    finally:
        _RESERVED.reset(token)


class Namer:
    """Gives names that no value or node of the model has, and that are not reserved.

    Names are unique over the whole model, since a subgraph sees the values around it.
    """

    def __init__(self, model: ir.Model) -> None:
        self.values: set[str] = set(_RESERVED.get())
        self.nodes: set[str] = set()
        self._last: dict[str, int] = {}
        for graph in walk.all_graphs(model):
            self.values.update(str(v.name) for v in graph.inputs)
            self.values.update(graph.initializers)
            nodes = walk.nodes_of(graph)
            made = chain.from_iterable(map(walk.node_outputs, nodes))
            self.values.update(filter(None, map(walk.value_name, made)))
            self.nodes.update(filter(None, map(walk.node_name, nodes)))

    def value(self, wish: str | None) -> str:
        """Return ``wish``, or a name like it that is free."""
        return self._free(wish or "value", self.values)

    def node(self, wish: str | None) -> str:
        """Return ``wish``, or a name like it that is free."""
        return self._free(wish or "node", self.nodes)

    def _free(self, wish: str, taken: set[str]) -> str:
        name = wish
        while name in taken:
            self._last[wish] = self._last.get(wish, 0) + 1
            name = f"{wish}_{self._last[wish]}"
        taken.add(name)
        return name


@dataclass(frozen=True)
class Touched:
    """What a replacement touched.

    ``outputs`` replace the matched ones, in the pattern's order. ``values`` lost or gained
    readers.
    """

    outputs: list[ir.Value]
    nodes: list[ir.Node]
    values: list[ir.Value]


def restores_itself(
    matched: Sequence[ir.Node], old: Sequence[ir.Value], new: Sequence[ir.Value]
) -> bool:
    """Whether the replacement would put back the one Identity that was matched.

    A graph output that is an input, an initializer or another output must keep an Identity.
    """
    (first, *others) = matched
    return (
        not others
        and (first.domain, first.op_type) == ("", "Identity")
        and any(
            value.is_graph_output() and _needs_identity(value, replacement)
            for value, replacement in zip(old, new, strict=True)
        )
    )


def _needs_identity(output: ir.Value, replacement: ir.Value) -> bool:
    producer = replacement.producer()
    return (
        producer is None
        or replacement.is_graph_output()
        or (producer.graph is not None and producer.graph is not output.graph)
    )


def creates_cycle(
    container: Container,
    matched: Sequence[ir.Node],
    old: Sequence[ir.Value],
    new_nodes: Sequence[ir.Node],
) -> bool:
    """Whether what reads the replaced values is also read by the replacement."""
    inside = {*matched, *new_nodes}
    owners = _owners(container)

    def readers(value: ir.Value) -> list[ir.Node]:
        return [owners.get(user.graph, user) for user in value.consumers()]

    needed = {v.producer() for n in new_nodes for v in n.inputs if v is not None}
    fringe = [user for value in old for user in readers(value)]
    seen: set[ir.Node] = set()
    while fringe:
        node = fringe.pop()
        if node in seen or node in inside:
            continue
        if node in needed:
            return True
        seen.add(node)
        fringe.extend(user for out in node.outputs for user in readers(out))
    return False


def _owners(container: Container) -> dict[ir.Graph | None, ir.Node]:
    """Map every graph nested in ``container`` to the node of ``container`` that holds it."""
    owners: dict[ir.Graph | None, ir.Node] = {}
    for node in container:
        pending = list(walk.subgraphs_of(node))
        while pending:
            graph = pending.pop()
            owners[graph] = node
            pending.extend(inner for n in graph for inner in walk.subgraphs_of(n))
    return owners


def replace(container: Container, root: ir.Node, delta: Any, namer: Namer) -> Touched:
    """Replace what was matched by ``delta`` (onnxscript's ReplacementSubgraph)."""
    matched: list[ir.Node] = list(delta.match.nodes)
    old: list[ir.Value] = list(delta.match.outputs)
    new_nodes: list[ir.Node] = [
        *_adopt_initializers(container, delta.new_initializers, namer),
        *delta.new_nodes,
    ]
    _inherit_metadata(root, matched, new_nodes)
    for node in new_nodes:
        node.name = namer.node(node.name or node.op_type)
        for value in node.outputs:
            value.name = namer.value(value.name or f"{node.op_type}_out")
    outputs: list[ir.Value] = []
    fresh = {value for node in new_nodes for value in node.outputs}
    for before, after in zip(old, delta.new_outputs, strict=True):
        standing = after
        if before.is_graph_output() and (
            after in outputs or (after not in fresh and _needs_identity(before, after))
        ):
            identity = ir.Node("", "Identity", [after], name=namer.node(f"{before.name}_out"))
            new_nodes.append(identity)
            standing = identity.outputs[0]
        if before.is_graph_output() or (after in fresh and after not in outputs):
            # Readers keep the name that they know, and so does the user of a graph output.
            namer.values.discard(str(standing.name))
            before.name, standing.name = namer.value("replaced"), before.name
        # What is declared of a graph output is its user's, whatever is known of the value.
        declared = before.is_graph_output()
        if before.type is not None and (declared or standing.type is None):
            standing.type = before.type
        if before.shape is not None and (declared or standing.shape is None):
            standing.shape = before.shape.copy()
        outputs.append(standing)
    container.insert_after(root, new_nodes)
    for before, standing in zip(old, outputs, strict=True):
        before.replace_all_uses_with(standing, replace_graph_outputs=True)
    if len(old) > 1:
        container.sort()
    left = _remove_dead(matched)
    values = [v for n in new_nodes for v in (*n.inputs, *n.outputs) if v is not None]
    return Touched(outputs, new_nodes, [*values, *outputs, *left])


def _adopt_initializers(
    container: Container, initializers: Iterable[ir.Value], namer: Namer
) -> list[ir.Node]:
    """Register initializers under free names; a function gets Constant nodes instead."""
    constants = []
    for value in initializers:
        value.name = namer.value(value.name)
        if isinstance(container, ir.Graph):
            container.register_initializer(value)
        elif value.const_value is not None:
            attribute = ir.AttrTensor("value", value.const_value)
            constants.append(ir.Node("", "Constant", [], [attribute], outputs=[value]))
    return constants


def _inherit_metadata(
    root: ir.Node, matched: Sequence[ir.Node], new_nodes: Sequence[ir.Node]
) -> None:
    for source in (root, *matched):
        for key, text in source.metadata_props.items():
            for node in new_nodes:
                node.metadata_props.setdefault(key, text)


def _remove_dead(nodes: Sequence[ir.Node]) -> list[ir.Value]:
    """Remove the nodes that nobody reads, and what only they read; return the values left."""
    left: list[ir.Value] = []
    pending = list(nodes)
    while pending:
        node = pending.pop(0)
        if node.graph is None:
            continue
        if any(out.uses() or out.is_graph_output() for out in node.outputs):
            left.extend(node.outputs)
            continue
        inputs = [value for value in node.inputs if value is not None]
        # Nodes of its subgraphs would stay registered as readers of outer values.
        for inner in (n for graph in walk.subgraphs_of(node) for n in graph.all_nodes()):
            for index, value in enumerate(inner.inputs):
                if value is not None and value.graph is node.graph:
                    inputs.append(value)
                    inner.replace_input_with(index, None)
        node.graph.remove(node, safe=True)
        for value in inputs:
            producer = value.producer()
            if producer is not None and not value.uses():
                pending.append(producer)
            left.append(value)
    return left


INVENTED = "unk__"
"""What inference begins the names with that it gives to unknown dimensions."""


def annotate_constants(nodes: Iterable[ir.Node]) -> None:
    """Note types and shapes of constants, unless they are outputs, which are their user's."""
    for value in (value for node in nodes for value in node.outputs):
        tensor = value.const_value
        if tensor is not None and value.type is None and not value.is_graph_output():
            value.type = ir.TensorType(tensor.dtype)
            value.shape = ir.Shape(tensor.shape.numpy())


def is_annotated(node: ir.Node) -> bool:
    """Whether types and shapes of a node's results are known, and it has no body.

    A dimension is known if it has a number, or a name that inference has not invented.
    """
    for value in node.outputs:
        if value.type is None or value.shape is None:
            return False
        if any(map(is_invented, value.shape.dims)):
            return False
    return not any(walk.subgraphs_of(node))


def is_invented(dim: int | ir.SymbolicDim) -> bool:
    """Whether a dimension has no number, and no name but one that inference gave to it."""
    return not isinstance(dim, int) and (dim.value is None or dim.value.startswith(INVENTED))
