"""Remove a Cast to a type that holds every value, where another Cast follows."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import Op, RewriteRulePass, Transformation, Value, Var

_BITS = {
    ir.DataType.FLOAT16: 11,
    ir.DataType.BFLOAT16: 8,
    ir.DataType.FLOAT: 24,
    ir.DataType.DOUBLE: 53,
}
"""Bits of an integer that a float type holds exactly."""

_WIDER = {
    ir.DataType.FLOAT16: {ir.DataType.FLOAT, ir.DataType.DOUBLE},
    ir.DataType.BFLOAT16: {ir.DataType.FLOAT, ir.DataType.DOUBLE},
    ir.DataType.FLOAT: {ir.DataType.DOUBLE},
}


@passes.verify.equality
@passes.register("eliminate")
class EliminateCastChain(Transformation, RewriteRulePass):
    """Remove a Cast to a type that holds every value, where another Cast follows.

    Before: ``Cast<to = float>(Cast<to = double>(x))`` of a float16 ``x``
    After:  ``Cast<to = float>(x)``, or ``x`` where that is its type

    Sound because the first Cast loses nothing: every value of the type of ``x`` is one of the
    type between.

    Leaves alone: a type between that is narrower (that Cast rounds, wraps or cuts off);
    strings, complex numbers, and types of under 8 bits.
    """

    needs = ("shape-inference",)

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Cast(op.Cast(x, _outputs=["between"]), _outputs=["y"])

    def check(self, context: object, x: Value, between: Value, y: Value) -> bool:
        to = _target(y)
        return x.dtype is not None and holds(_target(between), x.dtype) and to in _NUMBERS

    def rewrite(self, op: Op, x: Value, between: Value, y: Value) -> Value:
        to = _target(y)
        return x if to is x.dtype else op.Cast(x, to=int(to))


_NUMBERS = {
    ir.DataType.BOOL,
    *_BITS,
    *(ir.DataType[f"{sign}INT{bits}"] for sign in ("", "U") for bits in (8, 16, 32, 64)),
}


def holds(wide: ir.DataType, narrow: ir.DataType) -> bool:
    """Whether every value of one type is a value of another."""
    if wide not in _NUMBERS or narrow not in _NUMBERS:
        return False
    if wide is narrow:
        return True
    if narrow.is_floating_point():
        return wide in _WIDER.get(narrow, set())
    if narrow is ir.DataType.BOOL:
        return True
    if wide is ir.DataType.BOOL:
        return False
    signed = not narrow.name.startswith("U")
    magnitude = narrow.bitwidth - signed
    if wide.is_floating_point():
        return magnitude <= _BITS[wide]
    if signed and wide.name.startswith("U"):
        return False
    return magnitude <= wide.bitwidth - (not wide.name.startswith("U"))


def _target(value: ir.Value) -> ir.DataType:
    node = value.producer()
    assert node is not None, "the pattern has matched a node"
    return ir.DataType(node.attributes["to"].as_int())
