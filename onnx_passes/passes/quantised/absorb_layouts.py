"""Let a layout converter take in a Transpose beside it."""

from __future__ import annotations

from typing import Any

from onnx_passes import passes
from onnx_passes.ops.bodies.domains import CUSTOM
from onnx_passes.passes._support.matches import node_of
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value, Var
from onnx_passes.passes.quantised.convert_layouts import inverse


@passes.verify.equality
@passes.register()
class AbsorbLayouts(Transformation, RewriteRuleSetPass):
    """Let a layout converter take in a Transpose beside it.

    Before: ``LayoutConverter<assumes, perm = q>(Transpose<perm = p>(x))`` and
            ``Transpose<perm = q>(LayoutConverter<assumes, perm = p>(x))``
    After:  one LayoutConverter by both permutations, whose ``assumes`` names the axes of ``x``

    Sound because a converter is a Transpose, and a permutation of a permutation is one.

    Leaves alone: a Transpose that does not say its permutation, and a converter without one.
    """

    def pattern(self) -> list[Any]:
        def behind(op: Op, x: Var) -> Var:
            inner = op.Transpose(x, _outputs=["t"])
            return op.LayoutConverter(inner, _domain=CUSTOM, _outputs=["y"])

        def before(op: Op, x: Var) -> Var:
            inner = op.LayoutConverter(x, _domain=CUSTOM, _outputs=["t"])
            return op.Transpose(inner, _outputs=["y"])

        return [behind, before]

    def check(self) -> list[Any]:
        return [_is_told, _is_told]

    def rewrite(self) -> list[Any]:
        def behind(op: Op, x: Value, t: Value, y: Value) -> Value:
            undone = inverse(_permutation(t))
            axes = node_of(y).attributes["assumes"].as_strings()
            made: Value = op.LayoutConverter(
                x,
                perm=_composed(t, y),
                assumes=[axes[i] for i in undone],
                _domain=CUSTOM,
            )
            return made

        def before(op: Op, x: Value, t: Value, y: Value) -> Value:
            axes = list(node_of(t).attributes["assumes"].as_strings())
            made: Value = op.LayoutConverter(
                x, perm=_composed(t, y), assumes=axes, _domain=CUSTOM
            )
            return made

        return [behind, before]


def _is_told(context: Any, x: Value, t: Value, y: Value) -> bool:
    first, second = _permutation(t), _permutation(y)
    converter = next(node_of(v) for v in (t, y) if node_of(v).domain == CUSTOM)
    axes = converter.attributes.get("assumes")
    known = axes is not None and not axes.is_ref() and len(axes.as_strings()) == len(first)
    return bool(first) and len(first) == len(second) and known


def _composed(t: Value, y: Value) -> list[int]:
    first = _permutation(t)
    return [first[axis] for axis in _permutation(y)]


def _permutation(value: Value) -> list[int]:
    return list(node_of(value).attributes.get_ints("perm") or ())
