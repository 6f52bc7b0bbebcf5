"""Replace comparisons by those from the greater side."""

from onnx_passes import passes
from onnx_passes.passes.common.rules import RulePass, TermRule, call, law


@passes.verify.equality
@passes.register("algebraic")
class UnifyComparisons(RulePass):
    """Replace comparisons by those from the greater side.

    Before: ``Less(x, y)``, ``LessOrEqual(x, y)``
    After:  ``Greater(y, x)``, ``GreaterOrEqual(y, x)``

    Sound because each is the converse of the other, NaN included.

    Leaves alone: every other comparison.
    """

    def table(self) -> list[TermRule]:
        return _LAWS


_LAWS = [
    law(call(f"Less{or_equal}", "x", "y"), call(f"Greater{or_equal}", "y", "x"))
    for or_equal in ("", "OrEqual")
]
