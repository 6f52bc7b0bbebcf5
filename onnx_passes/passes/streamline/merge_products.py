"""Merge products with two constant matrices into one."""

from collections.abc import Callable

import numpy as np

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.passes.base import Op, Value
from onnx_passes.passes.common.matches import node_of
from onnx_passes.passes.common.rules import RulePass, TermCall, TermRule, Values, call
from onnx_passes.passes.streamline._rule_constants import constant, floats, rank_of


@passes.verify.tolerance
@passes.register("algebraic")
class MergeProducts(RulePass):
    """Merge products with two constant matrices into one.

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

    needs = ("shape-inference",)
    exclusive = True

    def table(self) -> list[TermRule]:
        return _RULES


def _product(v: Values) -> Array | None:
    """Return ``a @ b``, if it is not bigger than both."""
    a, b = floats(v["a"]), floats(v["b"])
    if a is None or b is None or a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        return None
    made = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
    fits = 0 < made.size <= a.size + b.size and np.isfinite(made).all()
    return made if fits and floats(v["x"]) is None else None


def _sum(v: Values) -> Array | None:
    """Return ``a + b``, if they do not cancel each other."""
    a, b = floats(v["a"]), floats(v["b"])
    if a is None or b is None or a.ndim != 2 or a.shape != b.shape or not a.size:
        return None
    made = a + b
    larger = np.maximum(np.abs(a), np.abs(b)).max()
    holds = np.isfinite(made).all() and np.abs(made).max() >= larger / 2
    return made if holds and floats(v["x"]) is None else None


def _find_turn(v: Values) -> list[int] | None:
    """Return the permutation of two Transposes that change the last two axes."""
    rank = rank_of(v["x"])
    if rank is None or rank < 2 or rank != rank_of(v["y"]):
        return None
    swapped = [*range(rank - 2), rank - 1, rank - 2]
    perms = (node_of(v[name]).attributes.get_ints("perm") for name in "st")
    same = all(list(perm or range(rank)[::-1]) == swapped for perm in perms)
    return swapped if same else None


def _turn_back(op: Op, v: Values, perm: list[int]) -> Value:
    return op.Transpose(op.MatMul(v["y"], v["x"]), perm=perm)


def _merge(before: TermCall, find: Callable[[Values], object], *, first: bool) -> TermRule:
    """Return a rule whose result is one product of ``x`` with a constant, before or behind."""

    def make(op: Op, v: Values, found: Array) -> Value:
        matrix, x = constant(op, found), v["x"]
        return op.MatMul(*((matrix, x) if first else (x, matrix)))

    return TermRule(before, find, make)


_TRANSPOSES = (call("Transpose", n, result=r) for n, r in (("x", "s"), ("y", "t")))
_RULES = [
    _merge(call("MatMul", call("MatMul", "x", "a"), "b"), _product, first=False),
    _merge(call("MatMul", "a", call("MatMul", "b", "x")), _product, first=True),
    _merge(call("Add", call("MatMul", "x", "a"), call("MatMul", "x", "b")), _sum, first=False),
    _merge(call("Add", call("MatMul", "a", "x"), call("MatMul", "b", "x")), _sum, first=True),
    TermRule(call("MatMul", *_TRANSPOSES), _find_turn, _turn_back),
]
