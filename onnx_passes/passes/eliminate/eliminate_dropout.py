"""Remove Dropout, which does nothing outside of training."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.common.rules import IdlePass
from onnx_passes.passes.constants import constant_of


@passes.verify.equality
@passes.register("eliminate")
class EliminateDropout(IdlePass):
    """Remove Dropout, which does nothing outside of training.

    Before: ``Dropout(x)``
    After:  ``x``

    Sound because Dropout passes its input on unless it trains.

    Leaves alone: a Dropout in training mode, or whose mode is computed; one whose mask is
    read; opset 6 and before, where training is the default.
    """

    operators = ("Dropout",)

    def is_idle(self, node: ir.Node, x: ir.Value) -> bool:
        """Whether it does not train."""
        assert node.graph is not None, "a matched node is in a graph"
        if len(node.inputs) < 3 or node.inputs[2] is None:
            return not self._trains_by_default
        mode = constant_of(node.inputs[2])
        return mode is not None and not mode.numpy().any()

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Apply the rule, knowing what the default mode is."""
        opsets = [model.opset_imports, *(f.opset_imports for f in model.functions.values())]
        self._trains_by_default = any(imports.get("", 7) < 7 for imports in opsets)
        return super().call(model)

    _trains_by_default = False
