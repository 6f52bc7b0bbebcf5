"""Replace a result by a constant if it is the same for all values of its operands."""

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.ops.domains.concrete import ConcreteSemantics
from onnx_passes.ops.operator_class import Element, operators
from onnx_passes.passes.base import Op, Value
from onnx_passes.passes.common.rules import RulePass, TermCall, TermRule, Values, call
from onnx_passes.passes.common.shapes import widens
from onnx_passes.passes.streamline._rule_constants import NEGATIONS, is_kind, numbers


@passes.verify.equality
@passes.register("algebraic")
class FoldDecidedResults(RulePass):
    """Replace a result by a constant if it is the same for all values of its operands.

    Before: ``And(x, false)``, ``Or(x, true)``, ``Mul(n, 0)``, ``Max(n, 127)`` of int8;
            ``And(x, Not(x))``, ``Or(x, Not(x))``; ``Xor(x, x)``, ``Sub(n, n)``,
            ``Equal(n, n)``, ``Less(x, x)``; the same of bits
    After:  the constant, with the shape of the operand

    Sound because these hold for each element of a type: ``n`` are integers. For floats NaN
    differs from itself, is no 0 times 0, and no infinity less an infinity.

    Leaves alone: floats, but for ``Less(x, x)`` and ``Greater(x, x)``; constants that make
    ``x`` bigger; types that are not known; opsets before 8.
    """

    needs = ("shape-inference",)

    def table(self) -> list[TermRule]:
        return _LAWS


_EXPAND = 8
"""Opset from which Expand repeats a constant."""


def _decide(before: TermCall, element: Element, dtype: ir.DataType | None = None) -> TermRule:
    """Return the rule that an expression of ``x`` is one element, of the type of ``x``.

    A second operand ``c`` is a constant of that element, and decides the result alone.
    """

    def find(values: Values) -> ir.DataType | None:
        x, c = values["x"], values.get("c")
        if x.dtype is None or not is_kind(element.kinds, x):
            return None
        known = None if c is None else numbers(c)
        if c is not None:
            same = known == ConcreteSemantics().literal(element.value, x.dtype)
            if known is None or not np.all(same) or widens(x, c):
                return None
        return dtype or x.dtype

    def make(op: Op, values: Values, kind: ir.DataType) -> Value:
        number = ConcreteSemantics().literal(element.value, kind)
        constant = op.Constant(value=ir.tensor(np.asarray(number)))
        return op.Expand(constant, op.Shape(values["x"]))

    return TermRule(before, find, make, _EXPAND)


_TRUE, _FALSE = (Element(value, "bi") for value in (1, 0))
_SELF = {
    **dict.fromkeys(("Equal", "LessOrEqual", "GreaterOrEqual"), _TRUE),
    **dict.fromkeys(("Less", "Greater"), Element(0, "if")),
}
"""What comparisons with itself say of a number; of NaN, the last two alone."""

_LAWS = [
    *(
        order
        for o in operators()
        if o.elementwise and not o.domain and 1 in o.algebra.absorbing
        for order in _decide(call(o.op_type, "x", "c"), o.algebra.absorbing[1]).orders()
    ),
    *(
        order
        for inverse, both, either, _ in NEGATIONS
        for kind, element in ((both, _FALSE), (either, Element(-1 if both != "And" else 1)))
        for order in _decide(call(kind, "x", call(inverse, "x")), element).orders()
    ),
    *(_decide(call(kind, "x", "x"), _FALSE) for kind in ("Xor", "BitwiseXor", "Sub")),
    *(_decide(call(kind, "x", "x"), e, ir.DataType.BOOL) for kind, e in _SELF.items()),
]
