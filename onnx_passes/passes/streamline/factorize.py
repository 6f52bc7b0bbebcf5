"""Move a common factor out of constant weights, if what is left are integers."""

from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.passes.base import Op, Value
from onnx_passes.passes.common.matches import node_of
from onnx_passes.passes.common.rules import RulePass, TermRule, Values, call
from onnx_passes.passes.hints import Hint, Hints, Spec, ints
from onnx_passes.passes.streamline._rule_constants import constant, floats

_MOST = 2**15
"""Levels above which weights are not taken for quantised ones."""


@passes.verify.equality
@passes.register()
class Factorize(RulePass):
    """Move a common factor out of constant weights, if what is left are integers.

    Before: ``MatMul(x, w)``, ``Conv(x, w)``, ``Gather(w, i)`` with a constant ``w``
    After:  ``MatMul(x, Mul(n, s))`` and so on, with integers ``n``, and ``n * s`` equal to
            ``w`` bit for bit

    Moving the factor behind the operator is another step, with its own evidence.

    Sound because the product of ``n`` and ``s`` in float32 is ``w``, element by element. The
    seed system accepts what is close.

    Leaves alone: weights that are integers already, all zero, or no multiples of their
    smallest distance from 0; more than 32,768 levels; operands that are computed.
    """

    hints: ClassVar[Hints] = {
        "Gather": Hint(
            {"w": (Spec("4 b", mixed=(0.25, -0.5, 0.75)),), "x": ints("0 1", "3 0 2")},
            {"Gather.axis": (0, None)},
            (ir.DataType.FLOAT,),
        )
    }

    def table(self) -> list[TermRule]:
        return _RULES


def _factor(v: Values) -> tuple[Array, Array] | None:
    return common_factor(floats(v["w"]))


def common_factor(array: Array | None) -> tuple[Array, Array] | None:
    """Return integers and the factor that makes the array of them, bit for bit."""
    if array is None or array.size == 0 or np.array_equal(array, np.rint(array)):
        return None
    sizes = np.unique(np.abs(array))
    sizes = sizes[sizes > 0]
    gaps = np.diff(sizes.astype(np.float64))
    smallest = float(sizes[0])
    # Levels beside 0 may be missing: then the distance between neighbours shows it.
    for guess in (
        smallest,
        *(float(g) for g in (gaps.min(initial=smallest),) if g < smallest),
    ):
        levels = np.rint(array.astype(np.float64) / guess)
        if np.abs(levels).max() > _MOST:
            continue
        best = np.float32(_fit(array, levels))
        if np.array_equal(levels.astype(np.float32) * best, array):
            return levels.astype(np.float32), np.asarray(best)
    return None


def _fit(array: Array, levels: Array) -> float:
    """Return the factor that the largest level gives: it has the most digits."""
    place = int(np.abs(levels).argmax())
    return float(array.reshape(-1)[place]) / float(levels.reshape(-1)[place])


def _split(op: Op, v: Values, found: tuple[Array, Array]) -> Value:
    node = node_of(v["y"])
    product = op.Mul(constant(op, found[0]), constant(op, found[1]))
    inputs = [product if value is v["w"] else value for value in node.inputs]
    return getattr(op, node.op_type)(*inputs, **node.attributes)


_RULES = [
    TermRule(
        call(kind, *operands, result="y", more=kind == "Conv"), _factor, _split, name=kind
    )
    for kind, operands in (("MatMul", "xw"), ("Conv", "xw"), ("Gather", "wx"))
]
