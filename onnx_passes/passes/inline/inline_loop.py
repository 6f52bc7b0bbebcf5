"""Replace a Loop of a few iterations by its body."""

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.model.walk import all_graphs, graphs_within
from onnx_passes.passes.common import graph_edits
from onnx_passes.passes.common.inlining import Names, body_of, free, trips_of
from onnx_passes.passes.constants import constant_of

_FIRST_WITH_AXES_AS_INPUT = 13


@passes.verify.equality
@passes.register("inline")
class InlineLoop(passes.Transformation):
    """Replace a Loop of a few iterations by its body.

    Before: ``y = Loop(2, true, x) <body = { t = Exp(s) }>``, where ``s`` is carried
    After:  ``y = Exp(Exp(x))``

    An engine starts a body anew for each iteration, and no pass sees across its border.

    Sound because a Loop computes its body once for each iteration, with what the one before
    has carried on. What it collects is concatenated.

    Leaves alone: counts that are not constant; a condition that may end the Loop earlier;
    bodies that would take more nodes than ``nodes``; functions.

    Attributes:
        nodes: The most nodes that are left of a Loop of several iterations.
    """

    nodes: int = 16

    needs = ("topological-sort",)
    followed_by = ("topological-sort",)
    needed_operators = frozenset({("", "Loop")})
    always_pays = False  # several iterations take more nodes

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Inline from the outside in."""
        names, inlined = Names(*all_graphs(model)), 0
        version = model.graph.opset_imports.get("", 1)
        pending = [model.graph]
        while pending:
            graph = pending.pop()
            for node in list(graph):
                trips = self._trips(node)
                if trips is not None:
                    _Unroller(graph, node, names, version).run(trips)
                    inlined += 1
            pending += [inner for inner in graphs_within(graph) if inner is not graph]
        if inlined:
            graph_edits.require_free_initializers(model)
        return ir.passes.PassResult(model, modified=inlined > 0)

    def _trips(self, node: ir.Node) -> int | None:
        """Return how often a Loop runs, if it is to be replaced."""
        body = body_of(node)
        if node.op_type != "Loop" or body is None or None in node.inputs[2:]:
            return None
        trips = trips_of(node)
        if trips is None or len(body.outputs) != len(node.outputs) + 1:
            return None
        size = sum(len(graph) for graph in graphs_within(body))
        if trips > 1 and (trips * size > self.nodes or not _goes_on(body)):
            return None
        return trips


def _goes_on(body: ir.Graph) -> bool:
    """Whether a body leaves the condition as it is, which is true at the start."""
    value = body.outputs[0]
    tensor = constant_of(value)
    if tensor is not None:
        return bool(tensor.numpy().all())
    while value is not body.inputs[1]:
        producer = value.producer()
        if producer is None or (producer.domain, producer.op_type) != ("", "Identity"):
            return False
        source = producer.inputs[0]
        if source is None:
            return False
        value = source
    return True


class _Unroller:
    """Puts the body of one Loop in front of it, once for each iteration."""

    def __init__(self, graph: ir.Graph, loop: ir.Node, names: Names, version: int) -> None:
        self.graph, self.loop, self.names, self.version = graph, loop, names, version

    def run(self, trips: int) -> None:
        loop, names = self.loop, self.names
        carried = [value for value in loop.inputs[2:] if value is not None]
        collected: list[list[ir.Value]] = [[] for _ in loop.outputs[len(carried) :]]
        for trip in range(trips):
            results = self._iterate(trip, carried)[1:]
            for rows, value in zip(collected, results[len(carried) :], strict=True):
                rows.append(self._compute("Unsqueeze", [value], axes=0))
            carried = results[: len(carried)]
        joined = [
            rows[0] if len(rows) == 1 else self._compute("Concat", rows, axis=0)
            for rows in collected
        ]
        for old, new in zip(loop.outputs, [*carried, *joined], strict=True):
            graph_edits.supersede(old, new, names.values)
        for inner in graphs_within_node(loop):
            names.values.subtract(v.name for v in graph_edits.own_values(inner) if v.name)
            names.nodes.subtract(n.name for n in inner if n.name)
        names.values.subtract(v.name for v in loop.outputs if v.name)
        graph_edits.discard(loop)

    def _iterate(self, trip: int, carried: list[ir.Value]) -> list[ir.Value]:
        """Put one copy of the body in front of the Loop, and return what it returns."""
        original = body_of(self.loop)
        assert original is not None, "the Loop has one"
        body = original.clone(allow_outer_scope_values=True)
        results = list(body.outputs)
        body.outputs.clear()
        number, condition = body.inputs[:2]
        first = [
            self._constant(np.asarray(trip, np.int64), number),
            self._constant(np.asarray(True), condition),
        ]
        given = dict(zip(body.inputs, [*first, *carried], strict=True))
        for formal, actual in given.items():
            for user, index in formal.uses():
                user.replace_input_with(index, actual)
        for inner in graphs_within(body):
            for value in graph_edits.own_values(inner):
                if value not in given:
                    value.name = free(value.name, self.names.values) if value.name else None
            for node in inner:
                node.name = free(node.name, self.names.nodes) if node.name else node.name
        for value in (v for node in body for v in node.outputs):
            value.type = value.shape = None  # what is noted need not hold in each iteration
        constants, nodes = list(body.initializers.values()), list(body)
        body.initializers.clear()
        for value in constants:
            self.graph.initializers.add(value)
        body.remove(nodes)
        self.graph.insert_before(self.loop, nodes)
        return [given.get(value, value) for value in results]

    def _constant(self, array: Array, formal: ir.Value) -> ir.Value:
        rank = 0 if formal.shape is None else len(formal.shape)
        tensor = ir.tensor(array.reshape((1,) * rank))
        return self._add(ir.Node("", "Constant", [], [ir.AttrTensor("value", tensor)]))

    def _compute(self, operator: str, values: list[ir.Value], **numbers: int) -> ir.Value:
        operands: list[ir.Value] = list(values)
        attributes = [ir.AttrInt64(name, number) for name, number in numbers.items()]
        if "axes" in numbers:
            axes = np.asarray([numbers["axes"]], np.int64)
            attributes = [ir.AttrInt64s("axes", axes.tolist())]
            if self.version >= _FIRST_WITH_AXES_AS_INPUT:
                tensor = ir.AttrTensor("value", ir.tensor(axes))
                operands.append(self._add(ir.Node("", "Constant", [], [tensor])))
                attributes = []
        return self._add(ir.Node("", operator, operands, attributes))

    def _add(self, node: ir.Node) -> ir.Value:
        (value,) = node.outputs
        value.name = free(f"{self.loop.name or 'loop'}_part", self.names.values)
        node.name = free(value.name, self.names.nodes)
        self.graph.insert_before(self.loop, node)
        return value


def graphs_within_node(node: ir.Node) -> list[ir.Graph]:
    """Return the body of a Loop and the graphs within it."""
    body = body_of(node)
    return [] if body is None else list(graphs_within(body))
