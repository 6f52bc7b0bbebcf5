"""Remove a Transpose that moves nothing."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.common.rules import IdlePass
from onnx_passes.passes.common.shapes import dims_of


@passes.verify.equality
@passes.register("eliminate")
class EliminateNoopTranspose(IdlePass):
    """Remove a Transpose that moves nothing.

    Before: ``Transpose<perm = [0, 1]>(x)``
    After:  ``x``

    Sound because shape and order of the elements stay: the permutation is the identity, or
    moves only dimensions of size 1 among each other.

    Leaves alone: a Transpose without a permutation of a tensor of unknown rank.
    """

    operators = ("Transpose",)

    def is_idle(self, node: ir.Node, x: ir.Value) -> bool:
        """Whether the axes that hold something keep their order, and the shape is the same."""
        dims = dims_of(x)
        perm = list(node.attributes.get_ints("perm") or ())
        if not perm:
            return dims is not None and len(dims) <= 1
        if perm == sorted(perm):
            return True
        if dims is None or len(dims) != len(perm):
            return False
        moved = [axis for axis in perm if dims[axis] != 1]
        return moved == sorted(moved) and [dims[axis] for axis in perm] == dims
