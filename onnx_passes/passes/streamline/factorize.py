"""Take a common factor out of constant weights, if what is left are integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_passes import passes
from onnx_passes.passes._support.matches import node_of
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value, Var
from onnx_passes.passes.streamline._terms import Array, constant, floats

_MOST = 2**15
"""Levels above which weights are not taken for quantised ones."""


@passes.verify.equality
@passes.register()
class Factorize(Transformation, RewriteRuleSetPass):
    """Take a common factor out of constant weights, if what is left are integers.

    Before: ``MatMul(x, w)``, ``Conv(x, w)``, ``Gather(w, i)`` with a constant ``w``
    After:  ``MatMul(x, Mul(n, s))`` and so on, with integers ``n``, and ``n * s`` equal to
            ``w`` bit for bit

    Moving the factor behind the operator is another step, with its own evidence.

    Sound because the product of ``n`` and ``s`` in float32 is ``w``, element by element. The
    seed system accepts what is close.

    Leaves alone: weights that are integers already, all zero, or no multiples of their
    smallest distance from 0; more than 32,768 levels; operands that are computed.
    """

    def pattern(self) -> list[Any]:
        def matmul(op: Op, x: Var, w: Var) -> Var:
            return op.MatMul(x, w, _outputs=["y"])

        def conv(op: Op, x: Var, w: Var) -> Var:
            return op.Conv(x, w, _allow_other_inputs=True, _outputs=["y"])

        def gather(op: Op, w: Var, x: Var) -> Var:
            return op.Gather(w, x, _outputs=["y"])

        return [matmul, conv, gather]

    def check(self) -> list[Any]:
        return [_has_factor] * 3

    def rewrite(self) -> list[Any]:
        return [_split] * 3


def _has_factor(context: Any, w: Value, **_: Any) -> bool:
    return common_factor(floats(w)) is not None


def common_factor(array: Array | None) -> tuple[Array, Array] | None:
    """Return integers and the factor that makes the array of them, bit for bit."""
    if array is None or array.size == 0 or np.array_equal(array, np.rint(array)):
        return None
    sizes = np.unique(np.abs(array))
    sizes = sizes[sizes > 0]
    gaps = np.diff(sizes.astype(np.float64))
    smallest = float(sizes[0])
    # Levels beside 0 may be missing: then the distance between neighbours tells.
    for guess in (
        smallest,
        *(float(g) for g in (gaps.min(initial=smallest),) if g < smallest),
    ):
        levels = np.rint(array.astype(np.float64) / guess)
        if np.abs(levels).max() > _MOST:
            continue
        best = np.float32(_fitted(array, levels))
        if np.array_equal(levels.astype(np.float32) * best, array):
            return levels.astype(np.float32), np.asarray(best)
    return None


def _fitted(array: Array, levels: Array) -> float:
    """Return the factor that the largest level gives: it has the most digits."""
    place = int(np.abs(levels).argmax())
    return float(array.reshape(-1)[place]) / float(levels.reshape(-1)[place])


def _split(op: Op, w: Value, y: Value, **_: Any) -> Value:
    found, node = common_factor(floats(w)), node_of(y)
    assert found is not None, "check has seen to it"
    product = op.Mul(constant(op, found[0]), constant(op, found[1]))
    inputs = [product if value is w else value for value in node.inputs]
    made: Value = getattr(op, node.op_type)(*inputs, **node.attributes)
    return made
