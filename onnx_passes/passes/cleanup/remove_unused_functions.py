"""Remove functions that nobody calls."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.model.walk import graphs_within


@passes.verify.equality
@passes.register("remove-unused")
@passes.register("cleanup")
class RemoveUnusedFunctions(passes.Transformation):
    """Remove functions that nobody calls.

    Before: a model with a function ``local::F`` and no node that calls it
    After:  the model without the function

    Sound because a function acts through its calls only.

    Leaves alone: functions that the graph calls, directly or through other functions.
    """

    precedes = ("remove-unused-opsets",)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Follow the calls from the main graph."""
        called: set[ir.OperatorIdentifier] = set()
        pending = [model.graph]
        while pending:
            for graph in graphs_within(pending.pop()):
                for key in {node.op_identifier() for node in graph} & model.functions.keys():
                    if key not in called:
                        called.add(key)
                        pending.append(model.functions[key].graph)
        unused = [key for key in model.functions if key not in called]
        for key in unused:
            del model.functions[key]
        return ir.passes.PassResult(model, modified=bool(unused))
