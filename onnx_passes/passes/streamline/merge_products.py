"""Multiply by one matrix instead of two."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from onnx_passes import passes
from onnx_passes.passes._support.matches import node_of
from onnx_passes.passes.base import Op, Value, Var
from onnx_passes.passes.streamline._laws import Law, LawPass, Values, call
from onnx_passes.passes.streamline._terms import Array, constant, floats, rank_of


@passes.verify.tolerance
@passes.register()
@passes.register("algebraic")
class MergeProducts(LawPass):
    """Multiply by one matrix instead of two.

    Before: ``MatMul(MatMul(x, a), b)``, ``MatMul(a, MatMul(b, x))``,
            ``Add(MatMul(x, a), MatMul(x, b))``, ``Add(MatMul(a, x), MatMul(b, x))``,
            ``MatMul(Transpose(x), Transpose(y))``
    After:  ``MatMul(x, a @ b)``, ``MatMul(a @ b, x)``, ``MatMul(x, a + b)``,
            ``MatMul(a + b, x)``, ``Transpose(MatMul(y, x))``

    Sound because products of matrices are associative and distribute over sums, over the
    reals. The contract is a tolerance: sums of floats round at other places.

    Leaves alone: matrices that are computed, not finite or not of rank 2; a product that has
    more elements than both; sums that cancel each other; Transposes of other axes than the
    last two; values between that something else reads; other types than float32.
    """

    requires: ClassVar[Any] = ("shape-inference",)
    exclusive: ClassVar[bool] = True

    def laws(self) -> list[Law]:
        return _LAWS

    def pattern(self) -> list[Any]:
        return [*super().pattern(), _turned]

    def check(self) -> list[Any]:
        return [*super().check(), _are_matrices]

    def rewrite(self) -> list[Any]:
        return [*super().rewrite(), _turned_back]


def _product(values: Values) -> Array | None:
    """Return ``a @ b``, if it is no bigger than both."""
    a, b = floats(values["a"]), floats(values["b"])
    if a is None or b is None or a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        return None
    made = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
    fits = 0 < made.size <= a.size + b.size and np.isfinite(made).all()
    return made if fits and floats(values["x"]) is None else None


def _sum(values: Values) -> Array | None:
    """Return ``a + b``, if they do not cancel each other."""
    a, b = floats(values["a"]), floats(values["b"])
    if a is None or b is None or a.ndim != 2 or a.shape != b.shape or not a.size:
        return None
    made = a + b
    larger = np.maximum(np.abs(a), np.abs(b)).max()
    holds = np.isfinite(made).all() and np.abs(made).max() >= larger / 2
    return made if holds and floats(values["x"]) is None else None


def _merged(before: Any, merge: Any, *, first: bool) -> Law:
    """Return a law whose result is one product of ``x`` with a constant, before or behind."""

    def made(op: Op, values: Values) -> Value:
        array = merge(values)
        assert array is not None, "holds has seen to it"
        matrix, x = constant(op, array), values["x"]
        product: Value = op.MatMul(*((matrix, x) if first else (x, matrix)))
        return product

    return Law(before, made, lambda values: merge(values) is not None)


_LAWS = [
    _merged(call("MatMul", call("MatMul", "x", "a"), "b"), _product, first=False),
    _merged(call("MatMul", "a", call("MatMul", "b", "x")), _product, first=True),
    _merged(
        call("Add", call("MatMul", "x", "a"), call("MatMul", "x", "b")), _sum, first=False
    ),
    _merged(call("Add", call("MatMul", "a", "x"), call("MatMul", "b", "x")), _sum, first=True),
]


def _turned(op: Op, x: Var, y: Var) -> Var:
    return op.MatMul(op.Transpose(x, _outputs=["s"]), op.Transpose(y, _outputs=["t"]))


def _are_matrices(context: Any, x: Value, y: Value, s: Value, t: Value) -> bool:
    """Whether both change their last two axes, and have as many."""
    rank = rank_of(x)
    if rank is None or rank < 2 or rank != rank_of(y):
        return False
    swapped = [*range(rank - 2), rank - 1, rank - 2]
    return all(
        list(node_of(v).attributes.get_ints("perm") or range(rank)[::-1]) == swapped
        for v in (s, t)
    )


def _turned_back(op: Op, x: Value, y: Value, s: Value, **_: Value) -> Value:
    rank = rank_of(x)
    assert rank is not None, "check has seen to it"
    perm = [*range(rank - 2), rank - 1, rank - 2]
    made: Value = op.Transpose(op.MatMul(y, x), perm=perm)
    return made
