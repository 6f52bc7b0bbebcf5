"""Fuse a Transpose into the Gemm that reads it."""

from collections.abc import Iterator
from functools import partial

from onnx_passes import passes
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Rule, Transformation, Value, Var
from onnx_passes.passes.common.matches import node_of


@passes.verify.tolerance
@passes.register("fuse")
class FuseTransposeGemm(Transformation, RewriteRuleSetPass):
    """Fuse a Transpose into the Gemm that reads it.

    Before: ``Gemm(Transpose(a), b, c)``, ``Gemm<transB = 1>(a, Transpose(b), c)``
    After:  ``Gemm<transA = 1>(a, b, c)``, ``Gemm(a, b, c)``

    Sound because that is what ``transA`` and ``transB`` say, and a second transposition
    undoes the first. The contract is a tolerance: an engine may sum in another order.

    Leaves alone: a Transpose that changes nothing, which `eliminate-noop-transpose` removes.
    """

    def rules(self) -> Iterator[Rule]:
        def first(op: Op, a: Var, b: Var) -> Var:
            t = op.Transpose(a, _outputs=["t"])
            return op.Gemm(t, b, _allow_other_inputs=True, _outputs=["y"])

        def second(op: Op, a: Var, b: Var) -> Var:
            t = op.Transpose(b, _outputs=["t"])
            return op.Gemm(a, t, _allow_other_inputs=True, _outputs=["y"])

        yield Rule(first, partial(_turned, "transA"), _turns)
        yield Rule(second, partial(_turned, "transB"), _turns)


def _turned(
    attribute: str, op: Op, a: Value, b: Value, t: Value, y: Value, **_: object
) -> Value:
    gemm = node_of(y)
    flag = 0 if (gemm.attributes.get_int(attribute) or 0) else 1
    others = {k: v for k, v in gemm.attributes.items() if k != attribute}
    return op.Gemm(a, b, *gemm.inputs[2:], **others, **{attribute: flag})


def _turns(context: object, t: Value, **_: object) -> bool:
    return tuple(node_of(t).attributes.get_ints("perm") or (1, 0)) == (1, 0)
