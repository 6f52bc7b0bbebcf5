"""Merge a Transpose into the layout converter beside it."""

from typing import ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.ops.bodies.operator_bodies import CUSTOM
from onnx_passes.passes.base import Op, Value
from onnx_passes.passes.common.graph_edits import inverse
from onnx_passes.passes.common.matches import node_of
from onnx_passes.passes.common.rules import RulePass, TermRule, Values, call
from onnx_passes.passes.hints import Hint, Hints, data

_TURNS = ([0, 2, 1], [2, 0, 1], [1, 0, 2], [2, 1, 0])


@passes.verify.equality
@passes.register()
class AbsorbLayouts(RulePass):
    """Merge a Transpose into the layout converter beside it.

    Before: ``LayoutConverter<assumes, perm = q>(Transpose<perm = p>(x))`` and
            ``Transpose<perm = q>(LayoutConverter<assumes, perm = p>(x))``
    After:  one LayoutConverter by both permutations, whose ``assumes`` names the axes of ``x``

    Sound because a converter is a Transpose, and a permutation of a permutation is one.

    Leaves alone: a Transpose that does not say its permutation, and a converter without one.
    """

    hints: ClassVar[Hints] = {
        "*": Hint(
            {"x": data("a b c")},
            {
                "LayoutConverter.assumes": (["N", "C", "W"],),
                "LayoutConverter.perm": _TURNS,
                "Transpose.perm": _TURNS,
            },
            (ir.DataType.FLOAT,),
            13,
        )
    }

    def table(self) -> list[TermRule]:
        return _RULES


def _compose(v: Values) -> tuple[list[int], list[str]] | None:
    """Return one permutation for two, and what the axes of ``x`` are."""
    first, second = (list(node_of(v[n]).attributes.get_ints("perm") or ()) for n in "ty")
    converter = next(node_of(v[n]) for n in "ty" if node_of(v[n]).domain == CUSTOM)
    assumed = converter.attributes.get("assumes")
    axes = [] if assumed is None or assumed.is_ref() else list(assumed.as_strings())
    if not first or not len(axes) == len(first) == len(second):
        return None
    if node_of(v["y"]) is converter:
        axes = [axes[i] for i in inverse(first)]
    return [first[axis] for axis in second], axes


def _converter(op: Op, v: Values, found: tuple[list[int], list[str]]) -> Value:
    perm, axes = found
    return op.LayoutConverter(v["x"], perm=perm, assumes=axes, _domain=CUSTOM)


_KINDS = (("Transpose", ""), ("LayoutConverter", CUSTOM))
_RULES = [
    TermRule(
        call(second, call(first, "x", result="t", domain=d), result="y", domain=e),
        _compose,
        _converter,
    )
    for (first, d), (second, e) in (_KINDS, _KINDS[::-1])
]
