"""Replace the condition of an If by a constant if its branches compute the same."""

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.model.walk import graphs_within
from onnx_passes.passes.common.graph_edits import roots
from onnx_passes.passes.common.value_numbering import Determinism, graph_key
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.replace import Namer


@passes.verify.equality
@passes.register("inline")
class EliminateEqualBranches(passes.Transformation):
    """Replace the condition of an If by a constant if its branches compute the same.

    Before: ``y = If(c) <then_branch = { t = Exp(x) }, else_branch = { e = Exp(x) }>``
    After:  ``y = If(true) <...>``, which inline-constant-if makes ``y = Exp(x)``

    Branches are compared by structure: operators, attributes, constants by content, and what
    they read from outside.

    Sound because both branches give the same result bit for bit, whatever the condition is.

    Leaves alone: branches that draw random numbers or contain operators of unknown domains;
    branches whose outputs are declared with different types or shapes.
    """

    followed_by = ("inline-constant-if",)

    needed_operators = frozenset({("", "If")})

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Look at every If, in subgraphs and functions too."""
        deterministic, namer = Determinism(model), Namer(model)
        modified = False
        for root, imports in roots(model):
            for graph in list(graphs_within(root)):
                for node in list(graph):
                    if _is_open(node) and deterministic.holds(node, imports):
                        _decide(graph, node, namer)
                        modified = True
        return ir.passes.PassResult(model, modified=modified)


def _is_open(node: ir.Node) -> bool:
    """Whether it is an If that does not depend on its condition, which is not known."""
    if (node.domain, node.op_type) != ("", "If") or constant_of(node.inputs[0]) is not None:
        return False
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return False
    branches = [node.attributes[name].as_graph() for name in ("then_branch", "else_branch")]
    return graph_key(branches[0]) == graph_key(branches[1])


def _decide(graph: ir.Graph, node: ir.Node, namer: Namer) -> None:
    name = namer.value(f"{node.outputs[0].name}_condition")
    output = ir.Value(name=name, type=ir.TensorType(ir.DataType.BOOL), shape=ir.Shape([]))
    value = ir.AttrTensor("value", ir.Tensor(np.array(True), name=name))
    constant = ir.Node("", "Constant", [], [value], outputs=[output], name=namer.node(name))
    graph.insert_before(node, constant)
    node.replace_input_with(0, output)
