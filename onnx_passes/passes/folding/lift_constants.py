"""Convert Constant nodes to initializers."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.model.walk import graphs_within
from onnx_passes.passes.common.graph_edits import discard, require_free_initializers
from onnx_passes.passes.constants import constant_tensor


@passes.verify.equality
@passes.register("cleanup")
class LiftConstants(passes.Transformation):
    """Convert Constant nodes to initializers.

    Before: ``w = Constant <value = float[2] {1, 2}> ()  y = Add(x, w)``
    After:  ``<float[2] w = {1, 2}> { y = Add(x, w) }``

    In a subgraph the initializer belongs to the subgraph. Every form of the value is known:
    tensors, numbers, strings and lists of them.

    Sound because an initializer that is not an input is a constant.

    Leaves alone: sparse values; values that a graph returns; functions, which have no
    initializers.
    """

    preserves = ("shape-inference", "topological-sort")

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Lift the constants of the main graph and its subgraphs."""
        lifted = 0
        for graph in list(graphs_within(model.graph)):
            for node in list(graph):
                lifted += _lift(graph, node)
        if lifted:
            require_free_initializers(model)
        return ir.passes.PassResult(model, modified=lifted > 0)


def _lift(graph: ir.Graph, node: ir.Node) -> bool:
    tensor = constant_tensor(node)
    if tensor is None or node.outputs[0].is_graph_output():
        return False
    old = node.outputs[0]
    new = ir.Value(
        name=old.name,
        type=ir.TensorType(tensor.dtype),
        shape=ir.Shape(tensor.shape.numpy()),
        doc_string=old.doc_string or node.doc_string,
        const_value=tensor,
        metadata_props={**node.metadata_props, **old.metadata_props},
    )
    new.meta.update(old.meta)
    old.replace_all_uses_with(new)
    old.name = None
    discard(node)
    graph.register_initializer(new)
    return True
