"""Move what is equal in every iteration out of Loop and Scan."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.model.walk import all_graphs, graphs_within, subgraphs_of
from onnx_passes.ops.operator_class import operator_of
from onnx_passes.passes.common.graph_edits import require_free_initializers
from onnx_passes.passes.common.inlining import Names, body_of, renamed, trips_of
from onnx_passes.passes.common.shapes import sizes_of
from onnx_passes.passes.common.value_numbering import Determinism


@passes.verify.equality
@passes.register()
class MoveInvariants(passes.Transformation):
    """Move what is equal in every iteration out of Loop and Scan.

    Before: ``y = Loop(n, c, x) <body = { e = Exp(w)  o = Add(s, e) }>``, ``w`` from outside
    After:  ``e = Exp(w)  y = Loop(n, c, x) <body = { o = Add(s, e) }>``

    Sound because a deterministic node that reads the same values gives the same result, and
    is computed once in place of once for each iteration.

    Leaves alone: nodes that draw random numbers or hold graphs; results of the body; where a
    body may never run, nodes that are not elementwise over floats of known shape, as others
    may fail; functions.
    """

    needs = ("topological-sort", "shape-inference")
    preserves = ("topological-sort",)
    needed_operators = frozenset({("", "Loop"), ("", "Scan")})

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Begin with the innermost bodies: what leaves one may leave the next, too."""
        names, pure, moved = Names(*all_graphs(model)), Determinism(model), 0
        imports = model.graph.opset_imports
        for graph in reversed(list(graphs_within(model.graph))):
            for node in list(graph):
                body = body_of(node)
                if body is None or node.op_type not in ("Loop", "Scan"):
                    continue
                runs = _runs(node)
                for inner in list(body):
                    if not pure.holds(inner, imports) or not _is_invariant(inner, body):
                        continue
                    if runs or _cannot_fail(inner):
                        _move(inner, node, names)
                        moved += 1
        if moved:
            require_free_initializers(model)
        return ir.passes.PassResult(model, modified=moved > 0)


def _runs(node: ir.Node) -> bool:
    """Whether a body surely runs at least once."""
    if node.op_type == "Loop":
        return trips_of(node) is not None
    count = node.attributes.get_int("num_scan_inputs", 0)
    if "scan_input_axes" in node.attributes or not count:
        return False
    sizes = sizes_of(node.inputs[-count])
    return bool(sizes) and sizes is not None and sizes[0] > 0


def _is_invariant(node: ir.Node, body: ir.Graph) -> bool:
    """Whether a node of a body reads only what is outside of it, or its constants."""
    if not any(value is not None for value in node.inputs):
        return False  # a constant, which costs nothing
    if node.op_type == "Identity" or next(subgraphs_of(node), None) is not None:
        return False
    inside = any(value is not None and _is_computed_in(body, value) for value in node.inputs)
    named = any(attribute.is_ref() for attribute in node.attributes.values())
    return not inside and not named and not any(v.is_graph_output() for v in node.outputs)


def _is_computed_in(body: ir.Graph, value: ir.Value) -> bool:
    producer = value.producer()
    if producer is not None:
        return producer.graph is body
    return value.graph is body and (value.is_graph_input() or not value.is_initializer())


def _cannot_fail(node: ir.Node) -> bool:
    """Whether a node may be computed though the body never runs."""
    operator = operator_of(node)
    values = [v for v in (*node.inputs, *node.outputs) if v is not None]
    floats = all(v.dtype is not None and v.dtype.is_floating_point() for v in values)
    known = all(value.shape is not None for value in values)
    return operator is not None and operator.elementwise and floats and known


def _move(inner: ir.Node, node: ir.Node, names: Names) -> None:
    """Put a node of a body in front of the node that holds the body."""
    body, graph = inner.graph, node.graph
    assert isinstance(body, ir.Graph), "it is in a body"
    assert isinstance(graph, ir.Graph), "functions are left alone"
    for value in inner.inputs:
        if value is not None and value.graph is body and value.is_initializer():
            del body.initializers[str(value.name)]
            value.name = renamed(value.name, names.values)
            graph.initializers.add(value)
    body.remove(inner)
    inner.name = renamed(inner.name, names.nodes)
    for value in inner.outputs:
        value.name = renamed(value.name, names.values)
        if value.shape is not None and not value.shape.is_static():
            value.shape = None  # sizes are named within the body
    graph.insert_before(node, inner)
