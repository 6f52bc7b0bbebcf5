"""Round thresholds up to integers where integers reach them."""

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.ops.bodies.operator_bodies import CUSTOM
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.replace import Namer
from onnx_passes.passes.streamline._integer_ranges import IntegerRange, integer_ranges


@passes.verify.equality
@passes.register()
class RoundThresholds(passes.Transformation):
    """Round thresholds up to integers where integers reach them.

    Before: ``MultiThreshold(x, [0.3, 7.5, 1e9])`` where ``x`` holds integers from -4 to 8
    After:  ``MultiThreshold(x, [1, 8, 9])``: one that nothing reaches becomes the integer
            behind the greatest, one that everything reaches becomes the least

    Whether a value holds integers, and which, follows from the thresholds before it, the
    integers of weights and the operators between. Sums must stay below 2 ** 24, up to which
    float32 holds every integer.

    Sound because an integer reaches a number exactly if it reaches the next integer above.

    Leaves alone: thresholds that are computed, shared or integers in that range already.
    """

    tested_on = ("qonnx",)
    tested_after = (
        *("raise-opset", "extract-weight-scales", "infer-thresholds", "sink-scales"),
        *("sink-past-movement", "fold-constants", "infer-thresholds"),
    )

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Round the thresholds of the main graph."""
        ranges, names, changed = integer_ranges(model.graph), Namer(model), False
        for node in model.graph:
            if (node.domain, node.op_type) == (CUSTOM, "MultiThreshold"):
                changed |= self._round(node, ranges, model.graph, names)
        return ir.passes.PassResult(model, modified=changed)

    def _round(
        self,
        node: ir.Node,
        ranges: dict[ir.Value, IntegerRange],
        graph: ir.Graph,
        names: Namer,
    ) -> bool:
        x, value = node.inputs[0], node.inputs[1]
        tensor = constant_of(value)
        if x is None or x not in ranges or tensor is None or value is None:
            return False
        if tensor.dtype != ir.DataType.FLOAT:
            return False
        array, bounds = tensor.numpy(), ranges[x]
        rounded = np.clip(np.ceil(array.astype(np.float64)), bounds.low, bounds.high + 1)
        rounded = np.where(np.isnan(array), array, rounded).astype(np.float32) + np.float32(0)
        if np.array_equal(rounded, array, equal_nan=True):
            return False
        name = names.value(f"{value.name}_rounded")
        new = ir.val(name, const_value=ir.tensor(rounded, name=name))
        graph.register_initializer(new)
        node.replace_input_with(1, new)
        return True
