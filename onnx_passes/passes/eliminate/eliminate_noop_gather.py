"""Remove a Gather of all elements in order."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.common.rules import IdlePass
from onnx_passes.passes.common.shapes import dims_of
from onnx_passes.passes.constants import constant_of


@passes.verify.equality
@passes.register("eliminate")
class EliminateNoopGather(IdlePass):
    """Remove a Gather of all elements in order.

    Before: ``Gather<axis = 0>(x, [0, 1, 2])`` of three rows
    After:  ``x``

    Sound because each element is taken once, from where it is put.

    Leaves alone: a dimension of unknown size.
    """

    operators = ("Gather",)

    def is_idle(self, node: ir.Node, x: ir.Value) -> bool:
        """Whether the indices count through the axis."""
        dims, indices = dims_of(x), constant_of(node.inputs[1])
        axis = node.attributes.get_int("axis", 0)
        if dims is None or indices is None or len(indices.shape) != 1:
            return False
        size = indices.size
        places = [int(i) + size * (i < 0) for i in indices.numpy()]
        return places == list(range(size)) and list(dims)[axis:][:1] == [size]
