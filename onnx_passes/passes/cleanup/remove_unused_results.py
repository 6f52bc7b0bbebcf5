"""Remove results of If and Loop that nobody reads."""

from collections.abc import Iterable, MutableSequence, Sequence
from collections.abc import Set as AbstractSet

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.model.walk import subgraphs_of, topological_order
from onnx_passes.passes.common.graph_edits import discard, nodes_within, roots

COUNTERS = 2
"""A Loop has trip count and condition as inputs, its body a counter and the condition."""


@passes.verify.equality
@passes.register("remove-unused")
@passes.register("cleanup")
class RemoveUnusedResults(passes.Transformation):
    """Remove results of If and Loop that nobody reads.

    Before: ``y, z = If(c) <then_branch = { a = Exp(x) b = Neg(x) }, ...>``, ``z`` is not read
    After:  ``y = If(c) <then_branch = { a = Exp(x) }, ...>``

    Of a Loop, a carried value goes where it decides about nothing but itself, with what it
    starts from.

    Sound because a node acts through its outputs only: what no result that is read and no
    condition depends on need not be computed.

    Leaves alone: Scan; a node with no result that is read, which remove-unused-nodes takes;
    nodes whose bodies do not return as many values as they declare; bodies that refer to an
    attribute of a function.
    """

    precedes = ("remove-unused-nodes",)
    needed_operators = frozenset({("", "If"), ("", "Loop")})

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Look at outer nodes first: what they do not need, inner ones need not compute."""
        modified = False
        for root, _ in roots(model):
            pending = [root]
            while pending:
                graph = pending.pop()
                modified |= sum(map(_trim, reversed(topological_order(graph)))) > 0
                pending.extend(inner for node in graph for inner in subgraphs_of(node))
        return ir.passes.PassResult(model, modified=modified)


def _trim(node: ir.Node) -> bool:
    if node.domain or node.op_type not in ("If", "Loop"):
        return False
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return False
    bodies = list(subgraphs_of(node))
    conditions = 0 if node.op_type == "If" else 1
    if any(len(body.outputs) != len(node.outputs) + conditions for body in bodies):
        return False
    read = {i for i, v in enumerate(node.outputs) if v.uses() or v.is_graph_output()}
    if not read:
        return False
    kept = read
    if node.op_type == "Loop":
        if len(bodies[0].inputs) != len(node.inputs):
            return False
        kept = _needed(bodies[0], read)
    if len(kept) == len(node.outputs):
        return False
    for body in bodies:
        _keep(body.outputs, [*range(conditions), *(i + conditions for i in kept)])
    inputs = list(node.inputs)
    if node.op_type == "Loop":
        carried = len(node.inputs) - COUNTERS
        places = [0, 1, *(i + COUNTERS for i in kept if i < carried)]
        _sweep(bodies[0])
        _keep(bodies[0].inputs, places)
        inputs = [inputs[i] for i in places]
    _replace(node, inputs, sorted(kept))
    return True


def _keep(values: MutableSequence[ir.Value], places: Iterable[int]) -> None:
    for place in sorted({*range(len(values))} - {*places}, reverse=True):
        values.pop(place)  # del would not be noted on the value


def _needed(body: ir.Graph, read: AbstractSet[int]) -> set[int]:
    """Return the results of a Loop that are read, and those that decide about others."""
    carried = {value: place for place, value in enumerate(body.inputs[COUNTERS:])}
    needed, seen = set(read), set[ir.Value]()
    pending = [body.outputs[0], *(body.outputs[i + 1] for i in read)]
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        place = carried.get(value)
        if place is not None and place not in needed:
            needed.add(place)
            pending.append(body.outputs[place + 1])
        producer = value.producer()
        if producer is not None:
            pending.extend(
                v for n in nodes_within(producer) for v in n.inputs if v is not None
            )
            # A subgraph may return what it reads from outside without a node in between.
            pending.extend(v for g in subgraphs_of(producer) for v in g.outputs)
    return needed


def _sweep(graph: ir.Graph) -> None:
    for node in reversed(topological_order(graph)):
        if not any(value.uses() or value.is_graph_output() for value in node.outputs):
            discard(node)


def _replace(node: ir.Node, inputs: Sequence[ir.Value | None], kept: Sequence[int]) -> None:
    """Replace a node by one with fewer inputs and outputs."""
    assert node.graph is not None, "the node is in a graph"
    new = ir.Node(
        node.domain,
        node.op_type,
        inputs,
        list(node.attributes.values()),
        num_outputs=len(kept),
        name=node.name,
        doc_string=node.doc_string,
        metadata_props=dict(node.metadata_props),
    )
    node.graph.insert_before(node, new)
    for place, value in zip(kept, new.outputs, strict=True):
        old = node.outputs[place]
        value.name, old.name = old.name, None
        value.type, value.shape, value.doc_string = old.type, old.shape, old.doc_string
        value.metadata_props.update(old.metadata_props)
        value.meta.update(old.meta)
        old.replace_all_uses_with(value, replace_graph_outputs=True)
    node.graph.remove(node, safe=True)
