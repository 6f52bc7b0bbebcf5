"""Merge two Transpose in a row, or remove both."""

from onnx_passes import passes
from onnx_passes.passes.base import Op, RewriteRulePass, Transformation, Value, Var
from onnx_passes.passes.common.shapes import dims_of


@passes.verify.equality
@passes.register("eliminate")
class EliminateDoubleTranspose(Transformation, RewriteRulePass):
    """Merge two Transpose in a row, or remove both.

    Before: ``Transpose<perm = q>(Transpose<perm = p>(x))``
    After:  one Transpose by both permutations; ``x`` where they undo each other

    Sound because a permutation of a permutation is one; no element is changed.

    Leaves alone: a Transpose without a permutation of a tensor of unknown rank.
    """

    needs = ("shape-inference",)

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Transpose(op.Transpose(x, _outputs=["inner"]), _outputs=["outer"])

    def check(self, context: object, x: Value, inner: Value, outer: Value) -> bool:
        return _composed(x, inner, outer) is not None

    def rewrite(self, op: Op, x: Value, inner: Value, outer: Value) -> Value:
        perm = _composed(x, inner, outer)
        assert perm is not None, "check has seen to it"
        return x if perm == sorted(perm) else op.Transpose(x, perm=perm)


def _composed(x: Value, inner: Value, outer: Value) -> list[int] | None:
    first, second = _permutation(inner), _permutation(outer)
    dims = dims_of(x)
    rank = next((len(p) for p in (first, second, dims) if p), None)
    if rank is None:
        return None
    turn = list(reversed(range(rank)))
    first, second = first or turn, second or turn
    return [first[axis] for axis in second] if len(first) == len(second) else None


def _permutation(value: Value) -> list[int]:
    node = value.producer()
    assert node is not None, "the pattern has matched a node"
    return list(node.attributes.get_ints("perm") or ())
