"""Move factors and terms behind operators that only move elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from onnx_passes import passes
from onnx_passes.passes._support.matches import node_of
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value, Var
from onnx_passes.passes.streamline._terms import constant, floats, is_single, rank_of, scalar

_MOVING = {
    "Transpose": 1,
    "Flatten": 1,
    "Identity": 1,
    "DepthToSpace": 1,
    "SpaceToDepth": 1,
    "Reshape": 2,
    "Squeeze": 2,
    "Unsqueeze": 2,
    "Gather": 2,
    "Expand": 2,
    "Tile": 2,
    "Slice": 5,
}
"""Operators whose results are elements of their first operand, with their operands."""

_LARGEST = ("MaxPool", "GlobalMaxPool", "Relu")
"""Operators that choose, which a positive factor does not disturb."""


@passes.verify.equality
@passes.register()
@passes.register("reorder")
class SinkPastMovement(Transformation, RewriteRuleSetPass):
    """Move factors and terms behind operators that only move elements.

    Before: ``Reshape(Mul(x, s), shape)``, ``Transpose(Add(x, a))``, ``MaxPool(Mul(x, s))``,
            ``Concat(Mul(x, s), Mul(y, s))``
    After:  ``Mul(Reshape(x, shape), s)``, ``Add(Transpose(x), a)``, ``Mul(MaxPool(x), s)``,
            ``Mul(Concat(x, y), s)``

    Constants are single numbers. Past MaxPool, GlobalMaxPool and Relu go positive factors,
    past MaxPool and GlobalMaxPool terms as well.

    Sound because each element of the result is one of the operand, on which the same operation
    rounds the same way; rounding keeps the order of numbers, so that the largest stays the
    largest.

    Leaves alone: constants that are computed, that are not finite, or that callers may
    override; a factor 0; a Relu behind a factor that is not positive; the indices of a
    MaxPool, where they are read; a rank that is not known.
    """

    requires: ClassVar[Any] = ("shape-inference",)

    def pattern(self) -> list[Any]:
        return [_Past(*place) for place in _PLACES] + [_Joined(kind) for kind in ("Mul", "Add")]

    def check(self) -> list[Any]:
        return [_check_of(*place) for place in _PLACES] + [_are_equal] * 2

    def rewrite(self) -> list[Any]:
        return [_rewrite_of(*place) for place in _PLACES] + [_join("Mul"), _join("Add")]


def _places() -> list[tuple[str, int, str]]:
    found = []
    for kind, most in _MOVING.items():
        least = {"Squeeze": 1, "Slice": 3}.get(kind, most)
        found += [
            (kind, count, arithmetic)
            for count in range(least, most + 1)
            for arithmetic in ("Mul", "Add")
        ]
    found += [(kind, 1, "Mul") for kind in _LARGEST]
    return found + [(kind, 1, "Add") for kind in _LARGEST if kind != "Relu"]


_PLACES = _places()
_NAMES = ("b", "c", "d", "e")


class _Past:
    def __init__(self, kind: str, count: int, arithmetic: str) -> None:
        self.kind, self.count, self.arithmetic = kind, count, arithmetic

    def __call__(self, op: Op, x: Var, s: Var, b: Var, c: Var, d: Var, e: Var) -> Var:
        inner = getattr(op, self.arithmetic)(x, s, _outputs=["t"])
        others = (b, c, d, e)[: self.count - 1]
        return getattr(op, self.kind)(inner, *others, _outputs=["y"])


def _check_of(kind: str, count: int, arithmetic: str) -> Callable[..., bool]:
    def check(context: Any, x: Value, s: Value, y: Value, **_: Any) -> bool:
        node, rank, number = node_of(y), rank_of(x), scalar(s)
        if rank is None or not is_single(s) or number is None or floats(x) is not None:
            return False
        array = floats(s)
        if array is None or array.ndim > rank:
            return False
        if any(out.uses() or out.is_graph_output() for out in node.outputs[1:]):
            return False
        if kind in _LARGEST and arithmetic == "Mul":
            return number > 0
        return arithmetic == "Add" or number != 0

    return check


def _rewrite_of(kind: str, count: int, arithmetic: str) -> Callable[..., Value]:
    def rewrite(op: Op, x: Value, s: Value, y: Value, **others: Value) -> Value:
        node = node_of(y)
        moved = getattr(op, kind)(x, *node.inputs[1:], **node.attributes)
        array = floats(s)
        assert array is not None, "check has seen to it"
        made: Value = getattr(op, arithmetic)(moved, constant(op, array.reshape(())))
        return made

    return rewrite


class _Joined:
    def __init__(self, arithmetic: str) -> None:
        self.arithmetic = arithmetic

    def __call__(self, op: Op, x: Var, s: Var, y: Var, t: Var) -> Var:
        add = getattr(op, self.arithmetic)
        return op.Concat(add(x, s), add(y, t), _outputs=["z"])


def _are_equal(context: Any, x: Value, s: Value, y: Value, t: Value, **_: Any) -> bool:
    ranks = rank_of(x), rank_of(y)
    arrays = floats(s), floats(t)
    known = all(rank is not None for rank in ranks) and all(
        a is not None and a.size == 1 and a.ndim <= (rank_of(x) or 0) for a in arrays
    )
    return known and scalar(s) == scalar(t) and scalar(s) != 0


def _join(arithmetic: str) -> Callable[..., Value]:
    def rewrite(op: Op, x: Value, s: Value, y: Value, t: Value, z: Value) -> Value:
        array = floats(s)
        assert array is not None, "check has seen to it"
        joined = op.Concat(x, y, **node_of(z).attributes)
        made: Value = getattr(op, arithmetic)(joined, constant(op, array.reshape(())))
        return made

    return rewrite
