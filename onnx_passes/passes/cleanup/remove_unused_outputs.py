"""Remove optional outputs that nobody reads."""

from collections.abc import Mapping

import onnx
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.common.graph_edits import nodes_within, roots


@passes.verify.equality
@passes.register("remove-unused")
@passes.register("cleanup")
class RemoveUnusedOutputs(passes.Transformation):
    """Remove optional outputs that nobody reads.

    Before: ``y, indices = MaxPool(x)``, where nobody reads ``indices``
    After:  ``y = MaxPool(x)``

    Sound because the operator's schema declares the output optional.

    Leaves alone: outputs that the schema requires; variadic outputs (Split); calls of
    functions; BatchNormalization, where the number of outputs can decide between training and
    inference; Dropout before opset 7, where the mask did; the present keys and values of an
    Attention that is given past ones, without which ONNX Runtime does not run it.
    """

    precedes = ("remove-unused-nodes",)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Look at every node."""
        modified = False
        for graph, imports in roots(model):
            for node in (inner for outer in graph for inner in nodes_within(outer)):
                if node.op_identifier() not in model.functions:
                    modified |= _trim(node, imports)
        return ir.passes.PassResult(model, modified=modified)


def _trim(node: ir.Node, imports: Mapping[str, int]) -> bool:
    unused = [v for v in node.outputs if v.name and not v.uses() and not v.is_graph_output()]
    if not unused or (node.domain, node.op_type) == ("", "BatchNormalization"):
        return False
    if (node.domain, node.op_type) == ("", "Attention") and any(node.inputs[_PAST]):
        unused = [value for value in unused if value not in node.outputs[_PRESENT]]
    opset = imports.get(node.domain, 1)
    if (node.domain, node.op_type) == ("", "Dropout") and opset < 7:
        return False
    try:
        formal = onnx.defs.get_schema(node.op_type, opset, node.domain).outputs
    except onnx.defs.SchemaError:
        return False
    modified = False
    for index, value in enumerate(node.outputs[: len(formal)]):
        if value in unused and formal[index].option == _OPTIONAL:
            value.name, value.type, value.shape = "", None, None
            modified = True
    last = max((i for i, value in enumerate(node.outputs) if value.name), default=-1)
    # A node's first output stays in place, even if it is the optional one that nobody reads.
    node.resize_outputs(max(last + 1, 1))
    return modified


_PAST, _PRESENT = slice(4, 6), slice(1, 3)
"""Places among the inputs and outputs of Attention."""

_OPTIONAL = onnx.defs.OpSchema.FormalParameterOption.Optional
