"""Write comparisons from the greater side."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.passes.streamline._laws import Law, LawPass, call


@passes.verify.equality
@passes.register()
@passes.register("algebraic")
class UnifyComparisons(LawPass):
    """Write comparisons from the greater side.

    Before: ``Less(x, y)``, ``LessOrEqual(x, y)``
    After:  ``Greater(y, x)``, ``GreaterOrEqual(y, x)``

    Sound because each is the converse of the other, NaN included.

    Leaves alone: every other comparison.
    """

    def laws(self) -> list[Law]:
        return _LAWS


_LAWS = [
    Law(call(f"Less{or_equal}", "x", "y"), call(f"Greater{or_equal}", "y", "x"))
    for or_equal in ("", "OrEqual")
]
