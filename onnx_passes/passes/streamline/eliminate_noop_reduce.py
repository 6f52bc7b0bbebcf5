"""Remove reductions over axes of size 1."""

from __future__ import annotations

from typing import Any, ClassVar

from onnx_passes import passes
from onnx_passes.passes._support.rules import Rule, RulePass, Values, call, law
from onnx_passes.passes._support.shapes import dims_of


@passes.verify.equality
@passes.register()
@passes.register("algebraic")
@passes.register("eliminate")
class EliminateNoopReduce(RulePass):
    """Remove reductions over axes of size 1.

    Before: ``ReduceSum(x, axes)``, where each of the axes has one element and stays; also
            ReduceMean, ReduceMax, ReduceMin and ReduceProd
    After:  ``x``

    Sound because the sum, mean, product, greatest and least of one element is the element.

    Leaves alone: results of another shape than the operand's; shapes that are not known.
    """

    requires: ClassVar[Any] = ("shape-inference",)

    def table(self) -> list[Rule]:
        return _RULES


def _is_same(v: Values) -> bool:
    dims = dims_of(v["x"])
    return dims is not None and None not in dims and dims == dims_of(v["y"])


_RULES = [
    law(call(f"Reduce{kind}", "x", result="y", more=True), "x", _is_same)
    for kind in ("Max", "Mean", "Min", "Prod", "Sum")
]
