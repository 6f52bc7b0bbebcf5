"""Replace a Transpose of rank 3 between two Reshapes by one of rank 4."""

from typing import ClassVar

from onnx_passes import passes
from onnx_passes.passes.base import Op, RewriteRulePass, Transformation, Value, Var
from onnx_passes.passes.common.shapes import Dim, dims_of
from onnx_passes.passes.hints import Hint, Hints, data, ints


@passes.verify.equality
@passes.register("fuse")
class FuseReshapedTranspose(Transformation, RewriteRulePass):
    """Replace a Transpose of rank 3 between two Reshapes by one of rank 4.

    Before: ``Reshape(Transpose<perm = [0, 2, 1]>(Reshape(x, [a * b, c, d])), [a, b, d, c])``
    After:  ``Transpose<perm = [0, 1, 3, 2]>(x)`` of an ``x`` that is [a, b, c, d]

    So PyTorch's exporter swaps the last two axes of attention's keys.

    Sound because the Reshapes only merge the first two axes and part them again, and no number
    is computed.

    Leaves alone: dimensions that are not known to be the same again; inner values that are
    read elsewhere. Functions, where shapes are unknown.
    """

    needs = ("shape-inference",)
    exclusive = True
    hints: ClassVar[Hints] = {
        "*": Hint(
            {
                "x": data("a b c d"),
                "merged": ints("a*b c d", "-1 c d", "a*b c -1"),
                "parted": ints("a b d c", "a b d -1", "-1 b d c"),
            },
            {"Reshape.allowzero": (None, 1)},
        )
    }

    def pattern(self, op: Op, x: Var, merged: Var, parted: Var) -> Var:
        flat = op.Reshape(x, merged, _outputs=["flat"])
        turned = op.Transpose(flat, perm=[0, 2, 1])
        return op.Reshape(turned, parted, _outputs=["y"])

    def check(self, context: object, x: Value, flat: Value, y: Value, **_: object) -> bool:
        dims = dims_of(x)
        if dims is None or len(dims) != 4 or None in dims or 0 in dims:
            return False
        a, b, c, d = dims
        merged, parted = dims_of(flat), dims_of(y)
        if merged is None or parted is None or (len(merged), len(parted)) != (3, 4):
            return False
        both = a * b if isinstance(a, int) and isinstance(b, int) else None
        kept = merged[1:] == [c, d] or _follows(merged, [both, c, d])
        return kept and (parted == [a, b, d, c] or _follows(parted, [a, b, d, c]))

    def rewrite(self, op: Op, x: Value, **_: object) -> Value:
        return op.Transpose(x, perm=[0, 1, 3, 2])


def _follows(found: list[Dim], wanted: list[Dim]) -> bool:
    """Whether all dimensions but one are equal numbers, so that the last one is equal too."""
    equal = [a for a, b in zip(found, wanted, strict=True) if a == b and isinstance(a, int)]
    return len(equal) == len(wanted) - 1
