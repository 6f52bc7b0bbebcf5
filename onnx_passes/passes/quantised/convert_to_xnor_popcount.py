"""Replace products of -1 and 1 by XnorPopcountMatMul."""

from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.ops.bodies.operator_bodies import CUSTOM, QONNX
from onnx_passes.passes.base import MatchResult, Op, Value, Var
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.hints import Hint, Hints, Spec, data, filled
from onnx_passes.passes.quantised._quantisers import multi_threshold, table_of
from onnx_passes.passes.streamline._rule_constants import constant

_DEEPEST = 2**23
"""Products of a sum up to which float32 holds every number on the way."""


@passes.verify.equality
@passes.register()
class ConvertToXnorPopcount(passes.Transformation, passes.RewriteRulePass):
    """Replace products of -1 and 1 by XnorPopcountMatMul.

    Before: ``MatMul(Add(MultiThreshold(x, t, 2), -1), w)`` with one threshold for each
            element, and a constant ``w`` of -1 and 1
    After:  ``Add(Mul(XnorPopcountMatMul(MultiThreshold(x, t, 1), (w + 1) / 2), 2), -depth)``

    The operator is QONNX's: of bits, it counts those that are equal.

    Sound because ``depth`` factors with ``n`` equal ones have the sum ``2 n - depth``, and
    float32 adds integers up to 2 ** 24 without rounding.

    Leaves alone: more thresholds, other weights and other terms; matrices that are not of rank
    2; more than 2 ** 23 rows; thresholds that ``export-qonnx`` has written, which comes after.
    ``--why-not`` says which of these it is.
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

    def check(
        self, context: object, x: Value, t: Value, v: Value, a: Value, w: Value
    ) -> MatchResult:
        found = MatchResult()
        reason = _obstacle(t, v, a, w)
        return found if reason is None else found.fail(reason)

    def rewrite(self, op: Op, x: Value, t: Value, v: Value, a: Value, w: Value) -> Value:
        table, matrix = table_of(t, v), _floats(w)
        assert table is not None, "check has seen to it"
        assert matrix is not None, "check has seen to it"
        bits = multi_threshold(op, x, table[0], np.ones_like(table[1]))
        equal = op.XnorPopcountMatMul(bits, constant(op, (matrix + 1) / 2), _domain=QONNX)
        doubled = op.Mul(equal, constant(op, 2))
        return op.Add(doubled, constant(op, -matrix.shape[0]))


def _obstacle(t: Value, v: Value, a: Value, w: Value) -> str | None:
    """Return why a product stays, None if it is one of -1 and 1."""
    table, matrix, term = table_of(t, v), _floats(w), _floats(a)
    if table is None or matrix is None or term is None:
        return "thresholds, the term or the matrix are no float32 constants"
    if matrix.ndim != 2 or not 0 < matrix.shape[0] <= _DEEPEST:
        return f"the matrix is not of rank 2 with up to {_DEEPEST} rows"
    if table[0].shape[-1] != 1:
        return f"it has {table[0].shape[-1]} thresholds in a row, not one"
    if (table[1] != 2).any() or term.size != 1 or term.ndim > 1 or (term != -1).any():
        return "what the thresholds make is not -1 or 1: their weight is 2, the term -1"
    if (np.abs(matrix) != 1).any():
        return "the matrix has other elements than -1 and 1"
    return None


def _floats(value: Value) -> Array | None:
    tensor = constant_of(value)
    if tensor is None or tensor.dtype != ir.DataType.FLOAT:
        return None
    return tensor.numpy()
