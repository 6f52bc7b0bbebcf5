"""Replace products of -1 and 1 by XnorPopcountMatMul."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.ops.bodies.operator_bodies import CUSTOM, QONNX
from onnx_passes.passes.base import Op, RewriteRulePass, Transformation, Value, Var
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.hints import Hint, Hints, Spec, data, filled
from onnx_passes.passes.quantised._quantisers import multi_threshold, table_of
from onnx_passes.passes.streamline._rule_constants import constant

_DEEPEST = 2**23
"""Products of a sum up to which float32 holds every number on the way."""


@passes.verify.equality
@passes.register()
class ConvertToXnorPopcount(Transformation, RewriteRulePass):
    """Replace products of -1 and 1 by XnorPopcountMatMul.

    Before: ``MatMul(Add(MultiThreshold(x, t, 2), -1), w)`` with one threshold for each
            element, and a constant ``w`` of -1 and 1
    After:  ``Add(Mul(XnorPopcountMatMul(MultiThreshold(x, t, 1), (w + 1) / 2), 2), -depth)``

    The operator is QONNX's: of bits, it counts those that are equal.

    Sound because ``depth`` factors with ``n`` equal ones have the sum ``2 n - depth``, and
    float32 adds integers up to 2 ** 24 without rounding.

    Leaves alone: more thresholds, other weights and other terms; matrices that are not of rank
    2; more than 2 ** 23 rows.
    """

    exclusive = True
    hints: ClassVar[Hints] = {
        "*": Hint(
            {
                "x": data("a b"),
                "t": (Spec("1", mixed=(-1.0, 0.5, 0.0)),),
                "v": filled("", 2.0),
                "a": filled("", -1.0),
                "w": (Spec("b 3", mixed=(-1.0, 1.0)),),
            },
            {},
            (ir.DataType.FLOAT,),
            13,
        )
    }

    def pattern(self, op: Op, x: Var, t: Var, v: Var, a: Var, w: Var) -> Var:
        return op.MatMul(op.Add(op.MultiThreshold(x, t, v, _domain=CUSTOM), a), w)

    def check(self, context: object, x: Value, t: Value, v: Value, a: Value, w: Value) -> bool:
        table, matrix, term = table_of(t, v), _floats(w), _floats(a)
        if table is None or matrix is None or term is None or matrix.ndim != 2:
            return False
        single = table[0].shape[-1] == 1 and (table[1] == 2).all()
        bipolar = matrix.size > 0 and (np.abs(matrix) == 1).all()
        fits = bool(single and bipolar and matrix.shape[0] <= _DEEPEST)
        return fits and term.size == 1 and term.ndim <= 1 and float(term.reshape(())) == -1

    def rewrite(self, op: Op, x: Value, t: Value, v: Value, a: Value, w: Value) -> Value:
        table, matrix = table_of(t, v), _floats(w)
        assert table is not None, "check has seen to it"
        assert matrix is not None, "check has seen to it"
        bits = multi_threshold(op, x, table[0], np.ones_like(table[1]))
        equal = op.XnorPopcountMatMul(bits, constant(op, (matrix + 1) / 2), _domain=QONNX)
        doubled = op.Mul(equal, constant(op, 2))
        made: Value = op.Add(doubled, constant(op, -matrix.shape[0]))
        return made


def _floats(value: Value) -> Array | None:
    tensor = constant_of(value)
    if tensor is None or tensor.dtype != ir.DataType.FLOAT:
        return None
    return tensor.numpy()
