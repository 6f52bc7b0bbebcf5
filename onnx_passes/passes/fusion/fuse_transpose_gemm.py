"""Fuse a Transpose into the Gemm that reads it."""

from typing import Any

from onnx_passes import passes
from onnx_passes.passes._support.matches import node_of
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value, Var


@passes.verify.tolerance
@passes.register()
@passes.register("fuse")
class FuseTransposeGemm(Transformation, RewriteRuleSetPass):
    """Fuse a Transpose into the Gemm that reads it.

    Before: ``Gemm(Transpose(a), b, c)``, ``Gemm<transB = 1>(a, Transpose(b), c)``
    After:  ``Gemm<transA = 1>(a, b, c)``, ``Gemm(a, b, c)``

    Sound because that is what ``transA`` and ``transB`` say, and a second transposition
    undoes the first. The contract is a tolerance: an engine may sum in another order.

    Leaves alone: a Transpose that changes nothing, which `eliminate-noop-transpose` removes.
    """

    def pattern(self) -> list[Any]:
        def first(op: Op, a: Var, b: Var) -> Var:
            t = op.Transpose(a, _outputs=["t"])
            return op.Gemm(t, b, _allow_other_inputs=True, _outputs=["y"])

        def second(op: Op, a: Var, b: Var) -> Var:
            t = op.Transpose(b, _outputs=["t"])
            return op.Gemm(a, t, _allow_other_inputs=True, _outputs=["y"])

        return [first, second]

    def check(self) -> list[Any]:
        return [_turns, _turns]

    def rewrite(self) -> list[Any]:
        return [_TransposedGemm("transA"), _TransposedGemm("transB")]


class _TransposedGemm:
    def __init__(self, attribute: str) -> None:
        self.attribute = attribute

    def __call__(self, op: Op, a: Value, b: Value, t: Value, y: Value, **_: Any) -> Value:
        gemm = node_of(y)
        flag = 0 if (gemm.attributes.get_int(self.attribute) or 0) else 1
        others = {k: v for k, v in gemm.attributes.items() if k != self.attribute}
        made: Value = op.Gemm(a, b, *gemm.inputs[2:], **others, **{self.attribute: flag})
        return made


def _turns(context: Any, t: Value, **_: Any) -> bool:
    return tuple(node_of(t).attributes.get_ints("perm") or (1, 0)) == (1, 0)
