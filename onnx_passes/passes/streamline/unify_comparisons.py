"""Write comparisons from the greater side."""

from __future__ import annotations

from typing import Any

from onnx_passes import passes
from onnx_passes.passes.base import RewriteRuleSetPass, Transformation
from onnx_passes.passes.streamline._laws import Law, call


@passes.verify.equality
@passes.register()
@passes.register("algebraic")
class UnifyComparisons(Transformation, RewriteRuleSetPass):
    """Write comparisons from the greater side.

    Before: ``Less(x, y)``, ``LessOrEqual(x, y)``
    After:  ``Greater(y, x)``, ``GreaterOrEqual(y, x)``

    Sound because each is the converse of the other, NaN included.

    Leaves alone: every other comparison.
    """

    def pattern(self) -> list[Any]:
        return [law.pattern for law in _LAWS]

    def rewrite(self) -> list[Any]:
        return [law.rewrite for law in _LAWS]


_LAWS = [
    Law(call(f"Less{or_equal}", "x", "y"), call(f"Greater{or_equal}", "y", "x"))
    for or_equal in ("", "OrEqual")
]
