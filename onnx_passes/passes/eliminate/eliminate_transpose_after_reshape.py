"""Remove a Transpose that moves no element, behind a Reshape."""

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import Op, RewriteRulePass, Transformation, Value, Var
from onnx_passes.passes.common.matches import node_of
from onnx_passes.passes.common.shapes import dims_of


@passes.verify.equality
@passes.register("eliminate")
class EliminateTransposeAfterReshape(Transformation, RewriteRulePass):
    """Remove a Transpose that moves no element, behind a Reshape.

    Before: ``Transpose<perm = [0, 2, 1, 3]>(Reshape(x, [-1, 1, 8, 4]))``
    After:  ``Reshape(x, [-1, 8, 1, 4])``

    So it is with heads of a sequence of one.

    Sound because axes of size 1 may change places with others without any element doing so,
    and Reshape keeps the order of the elements.

    Leaves alone: axes of other or of unknown size that change places; results with more than
    one unknown dimension, or with an empty one; a tensor between that something else reads.
    """

    needs = ("shape-inference",)
    exclusive = True

    def pattern(self, op: Op, x: Var) -> Var:
        shaped = op.Reshape(x, _allow_other_inputs=True, _outputs=["shaped"])
        return op.Transpose(shaped, _outputs=["y"])

    def check(self, context: object, x: Value, shaped: Value, y: Value) -> bool:
        dims = dims_of(shaped)
        if dims is None or 0 in dims:
            return False
        moved = [axis for axis in _perm(y, len(dims)) if dims[axis] != 1]
        return moved == sorted(moved) and sum(not isinstance(d, int) for d in dims) <= 1

    def rewrite(self, op: Op, x: Value, shaped: Value, y: Value) -> Value:
        dims = dims_of(shaped) or []
        target = [dims[axis] for axis in _perm(y, len(dims))]
        sizes = np.array([dim if isinstance(dim, int) else -1 for dim in target], np.int64)
        return op.Reshape(x, op.Constant(value=ir.tensor(sizes)))


def _perm(y: Value, rank: int) -> list[int]:
    """Return the permutation of a Transpose, which reverses the axes if it has none."""
    return list(node_of(y).attributes.get_ints("perm") or reversed(range(rank)))
