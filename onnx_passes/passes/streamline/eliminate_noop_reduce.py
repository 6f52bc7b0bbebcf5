"""Remove reductions over axes of size 1."""

from __future__ import annotations

from typing import Any, ClassVar

from onnx_passes import passes
from onnx_passes.passes._support.shapes import dims_of
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value, Var

_KINDS = ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")


@passes.verify.equality
@passes.register()
@passes.register("algebraic")
class EliminateNoopReduce(Transformation, RewriteRuleSetPass):
    """Remove reductions over axes of size 1.

    Before: ``ReduceSum(x, axes)``, where each of the axes has one element and stays; also
            ReduceMean, ReduceMax, ReduceMin and ReduceProd
    After:  ``x``

    Sound because the sum, mean, product, greatest and least of one element is the element.

    Leaves alone: results of another shape than the operand's; shapes that are not known.
    """

    requires: ClassVar[Any] = ("shape-inference",)

    def pattern(self) -> list[Any]:
        return [_Reduction(kind) for kind in _KINDS]

    def check(self) -> list[Any]:
        return [_is_same for _ in _KINDS]

    def rewrite(self) -> list[Any]:
        return [_operand for _ in _KINDS]


class _Reduction:
    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, op: Op, x: Var) -> Var:
        return getattr(op, self.kind)(x, _allow_other_inputs=True, _outputs=["y"])


def _is_same(context: Any, x: Value, y: Value) -> bool:
    dims = dims_of(x)
    return dims is not None and None not in dims and dims == dims_of(y)


def _operand(op: Op, x: Value, y: Value) -> Value:
    return x
