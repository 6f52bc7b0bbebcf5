"""Move small constants into the bodies that read them."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.model.walk import graphs_within
from onnx_passes.passes.common.graph_edits import annotated_names
from onnx_passes.passes.common.large_tensors import SMALL


@passes.verify.equality
@passes.register("suit-onnxruntime")
class SinkInitializers(passes.Transformation):
    """Move small constants into the bodies that read them.

    Before: ``<float[4] w> { y = Loop(n, c, x) <body = { o = Add(s, w) }> }``
    After:  ``y = Loop(n, c, x) <body = <float[4] w> { o = Add(s, w) }>``

    ONNX Runtime passes a value from outside to the body in each iteration, or in each run of
    a branch. A constant of the body itself costs nothing.

    Sound because a body sees the constant as before, and nothing else reads it.

    Leaves alone: constants that nodes of several graphs read; initializers that are inputs or
    outputs, or that a quantization annotation names; those of 64 KiB or more, beside which
    the passing costs nothing; functions.
    """

    preserves = ("shape-inference", "topological-sort")
    tested_on = ("lent",)
    tested_after = ("lift-constants",)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Move the constants of the main graph and of each subgraph."""
        fixed, sunk = annotated_names(model), 0
        for graph in list(graphs_within(model.graph)):
            for value in list(graph.initializers.values()):
                body = None if value.name in fixed else _only_reader(value, graph)
                if body is not None:
                    graph.initializers.pop(str(value.name))
                    body.register_initializer(value)
                    sunk += 1
        return ir.passes.PassResult(model, modified=sunk > 0)


def _only_reader(value: ir.Value, graph: ir.Graph) -> ir.Graph | None:
    """Return the body that alone reads a small constant of a graph around it."""
    tensor, readers = value.const_value, {node.graph for node, _ in value.uses()}
    if tensor is None or len(readers) != 1 or tensor.nbytes >= SMALL:
        return None
    if value.is_graph_input() or value.is_graph_output():
        return None
    (body,) = readers
    return body if isinstance(body, ir.Graph) and body is not graph else None
