"""Replace a result by a constant if it is the same for all values of its operands."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.ops.base import Element, operators
from onnx_passes.ops.domains.concrete import ConcreteSemantics
from onnx_passes.passes._support.matches import opset_at
from onnx_passes.passes._support.shapes import widens
from onnx_passes.passes.base import Op, Value
from onnx_passes.passes.streamline._laws import (
    NEGATIONS,
    Call,
    Law,
    LawPass,
    Values,
    call,
    is_kind,
    numbers,
)


@passes.verify.equality
@passes.register()
@passes.register("algebraic")
class FoldDecidedResults(LawPass):
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

    requires: ClassVar[Any] = ("shape-inference",)

    def laws(self) -> list[Law]:
        return _LAWS

    def check(self) -> list[Any]:
        return [_since(law) for law in _LAWS]


_EXPAND = 8
"""Opset from which Expand repeats a constant."""


def _since(law: Law) -> Any:
    def check(context: Any, **values: Value) -> bool:
        return opset_at(context) >= _EXPAND and law.check(context, **values)

    return check


def _decided(before: Call, element: Element, dtype: ir.DataType | None = None) -> Law:
    """Return the law that an expression of ``x`` is one element, of the type of ``x``."""

    def holds(values: Values) -> bool:
        return is_kind(element.kinds, values["x"])

    def made(op: Op, values: Values) -> Value:
        x = values["x"]
        kind = dtype or x.dtype
        assert kind is not None, "holds has seen to it"
        number = ConcreteSemantics().literal(element.value, kind)
        constant = op.Constant(value=ir.tensor(np.asarray(number)))
        result: Value = op.Expand(constant, op.Shape(x))
        return result

    return Law(before, made, holds)


def _absorbing(kind: str, element: Element) -> Law:
    """Return the law of an element that decides a result alone."""
    decided = _decided(call(kind, "x", "c"), element)

    def holds(values: Values) -> bool:
        x, c = values["x"], values["c"]
        known = numbers(c)
        if known is None or x.dtype is None or not decided.check(None, **values):
            return False
        same = known == ConcreteSemantics().literal(element.value, x.dtype)
        return bool(np.all(same)) and not widens(x, c)

    return Law(decided.before, decided.after, holds)


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
        for order in _absorbing(o.op_type, o.algebra.absorbing[1]).orders()
    ),
    *(
        order
        for inverse, both, either, _ in NEGATIONS
        for kind, element in ((both, _FALSE), (either, Element(-1 if both != "And" else 1)))
        for order in _decided(call(kind, "x", call(inverse, "x")), element).orders()
    ),
    *(_decided(call(kind, "x", "x"), _FALSE) for kind in ("Xor", "BitwiseXor", "Sub")),
    *(_decided(call(kind, "x", "x"), e, ir.DataType.BOOL) for kind, e in _SELF.items()),
]
