"""Remove operators over any number of tensors that are given one."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.common.rules import IdlePass


@passes.verify.equality
@passes.register("eliminate")
class EliminateSingleOperand(IdlePass):
    """Remove operators over any number of tensors that are given one.

    Before: ``Concat<axis = 0>(x)``, ``Max(x)``, ``Sum(x)``, ``Split<num_outputs = 1>(x)``
    After:  ``x``

    Sound because there is nothing to join, compare, add or part.

    Leaves alone: two tensors or more, and two parts or more.
    """

    operators = ("Concat", "Max", "Min", "Sum", "Mean", "Split")

    def is_idle(self, node: ir.Node, x: ir.Value) -> bool:
        """Whether there is one tensor on the side where there may be several."""
        if node.op_type == "Split":
            return len(node.outputs) == 1
        return len(node.inputs) == 1
