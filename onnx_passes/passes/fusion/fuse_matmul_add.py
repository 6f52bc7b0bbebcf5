"""Fuse a MatMul and the sum behind it into one Gemm."""

from onnx_passes import passes
from onnx_passes.passes.base import MatchContext, Op, Value, Var
from onnx_passes.passes.common.matches import FLOATS, opset_at
from onnx_passes.passes.common.shapes import dims_of
from onnx_passes.passes.constants import constant_of


@passes.verify.tolerance
@passes.register("fuse")
class FuseMatmulAdd(passes.Transformation, passes.RewriteRulePass):
    """Fuse a MatMul and the sum behind it into one Gemm.

    Before: ``Add(MatMul(a, b), c)`` of two matrices
    After:  ``Gemm(a, b, c)``

    Sound because Gemm computes ``a b + c`` where its factors are 1. The contract is a
    tolerance: an engine may begin its sums with ``c``, and rounds in another order then.

    Leaves alone: tensors of other ranks than 2, or whose rank is not known; a summand that
    makes the product bigger, or whose shape is not known; integers, for which engines have no
    Gemm; a product that something else reads.
    """

    needs = ("shape-inference",)
    always_pays = False
    exclusive = True
    commute = True

    def pattern(self, op: Op, a: Var, b: Var, c: Var) -> Var:
        return op.Add(op.MatMul(a, b, _outputs=["t"]), c, _outputs=["y"])

    def check(
        self, context: MatchContext, a: Value, b: Value, c: Value, t: Value, y: Value
    ) -> bool:
        known = [value.dtype for value in (a, b, c, t, y) if value.dtype is not None]
        if not known or known[0] not in FLOATS or opset_at(context) < 7:
            return False
        left, right = dims_of(a), dims_of(b)
        if left is None or right is None or len(left) != 2 or len(right) != 2:
            return False
        tensor = constant_of(c)
        summand = dims_of(c) if tensor is None else [int(d) for d in tensor.shape.numpy()]
        if summand is None or len(summand) > 2:
            return False
        product = [left[0], right[1]]
        pairs = zip(reversed(product), reversed(summand), strict=False)
        return all(mine == 1 or (mine is not None and mine == its) for its, mine in pairs)

    def rewrite(self, op: Op, a: Value, b: Value, c: Value, t: Value, y: Value) -> Value:
        return op.Gemm(a, b, c)
