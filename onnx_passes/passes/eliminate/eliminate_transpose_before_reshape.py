"""Remove a Transpose that moves no element, before a Reshape."""

from onnx_passes import passes
from onnx_passes.passes.base import Op, RewriteRulePass, Transformation, Value, Var
from onnx_passes.passes.common.matches import node_of
from onnx_passes.passes.common.shapes import dims_of, ints_of


@passes.verify.equality
@passes.register("eliminate")
class EliminateTransposeBeforeReshape(Transformation, RewriteRulePass):
    """Remove a Transpose that moves no element, before a Reshape.

    Before: ``Reshape(Transpose<perm = [0, 2, 1, 3]>(x), [1, -1])`` with ``x`` of shape
            [N, 1, 8, 4]
    After:  ``Reshape(x, [1, -1])``

    Sound because axes of size 1 may change places with others without any element doing so,
    and Reshape keeps the order of the elements.

    Leaves alone: axes of other or of unknown size that change places; a target that is
    computed, or that copies a dimension (0) of an axis that changes places.
    """

    needs = ("shape-inference",)

    def pattern(self, op: Op, x: Var, target: Var) -> Var:
        return op.Reshape(op.Transpose(x, _outputs=["t"]), target, _outputs=["y"])

    def check(self, context: object, x: Value, target: Value, t: Value, y: Value) -> bool:
        dims, sizes = dims_of(x), ints_of(target)
        if dims is None or sizes is None:
            return False
        given = node_of(t).attributes.get_ints("perm")
        perm = list(given) if given else list(reversed(range(len(dims))))
        if not node_of(y).attributes.get_int("allowzero"):
            copied = [axis for axis, size in enumerate(sizes) if size == 0]
            if any(perm[axis : axis + 1] != [axis] for axis in copied):
                return False
        moved = [axis for axis in perm if dims[axis] != 1]
        return moved == sorted(moved)

    def rewrite(self, op: Op, x: Value, target: Value, t: Value, y: Value) -> Value:
        return op.Reshape(x, target, **node_of(y).attributes)
