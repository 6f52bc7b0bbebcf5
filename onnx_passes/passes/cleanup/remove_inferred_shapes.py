"""Remove types and shapes of inner values, which engines infer themselves."""

import onnx
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.model.walk import graphs_within


@passes.verify.equality
@passes.register()
class RemoveInferredShapes(passes.Transformation):
    """Remove types and shapes of inner values, which engines infer themselves.

    Before: ``float[n,4] t = Relu(x)  y = Neg(t)``
    After:  ``t = Relu(x)  y = Neg(t)``

    In a model of many small operators they are a third of the file.

    Sound because what is annotated of an inner value changes nothing that is computed.

    Leaves alone: inputs, outputs and initializers, of subgraphs too; outputs of operators that
    the ONNX standard does not define, whose types engines could not know; the bodies of
    functions; names, metadata and documentation of values.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Look at every output of a node."""
        modified = False
        for graph in graphs_within(model.graph):
            for node in graph:
                if not onnx.defs.has(node.op_type, domain=node.domain):
                    continue
                for value in node.outputs:
                    if value.type is None and value.shape is None:
                        continue
                    if not value.is_graph_output():
                        value.type = value.shape = None
                        modified = True
        return ir.passes.PassResult(model, modified=modified)
