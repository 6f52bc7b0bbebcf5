"""Remove reductions over axes of size 1."""

from typing import ClassVar

from onnx_passes import passes
from onnx_passes.passes.common.rules import RulePass, TermRule, Values, call, law
from onnx_passes.passes.common.shapes import dims_of
from onnx_passes.passes.hints import Hint, Hints, data


@passes.verify.equality
@passes.register("algebraic")
@passes.register("eliminate")
class EliminateNoopReduce(RulePass):
    """Remove reductions over axes of size 1.

    Before: ``ReduceSum(x, axes)``, where each of the axes has one element and stays; also
            ReduceMean, ReduceMax, ReduceMin and ReduceProd, and GlobalAveragePool of one pixel
    After:  ``x``

    Sound because the sum, mean, product, greatest and least of one element is the element.

    Leaves alone: results of another shape than the operand's; shapes that are not known;
    GlobalMaxPool, which ONNX Runtime computes as the least float of minus infinity.
    """

    needs = ("shape-inference",)
    hints: ClassVar[Hints] = {
        "GlobalAveragePool": Hint({"x": data("n c 1 1", "n c 1", "n c 1 1 1")})
    }

    def table(self) -> list[TermRule]:
        return _RULES


def _is_same(v: Values) -> bool:
    dims = dims_of(v["x"])
    return dims is not None and None not in dims and dims == dims_of(v["y"])


_RULES = [
    law(call(kind, "x", result="y", more=True), "x", _is_same, name=kind)
    for kind in ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")
] + [law(call("GlobalAveragePool", "x", result="y"), "x", _is_same, name="GlobalAveragePool")]
