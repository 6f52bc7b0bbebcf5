"""Simplify And and Or, their bitwise kin, Min and Max by the laws that they share."""

import numpy as np

from onnx_passes import passes
from onnx_passes.passes.common.rules import RulePass, TermRule, Values, call, law
from onnx_passes.passes.common.shapes import widens
from onnx_passes.passes.streamline._rule_constants import LATTICES, NEGATIONS, is_kind, numbers


@passes.verify.equality
@passes.register("algebraic")
class SimplifyLattices(RulePass):
    """Simplify And and Or, their bitwise kin, Min and Max by the laws that they share.

    Before: ``And(x, x)``, ``And(x, Or(x, y))``, ``Or(And(x, y), And(x, z))``; the same with
            And and Or exchanged, of BitwiseAnd and BitwiseOr, of Min and Max; and
            ``Xor(And(x, y), And(x, z))``
    After:  ``x``, ``x``, ``And(x, Or(y, z))``; ``And(x, Xor(y, z))``

    Operands may have any order.

    Sound because each pair is a distributive lattice, and And distributes over Xor. NaN goes
    through Min and Max from either operand; engines choose which of -0 and 0 is the greater.

    Leaves alone: an operand that makes the result bigger than ``x``; Min of Max that may have
    NaN in ``y``, which ``x`` has not; values between that something else reads.
    """

    needs = ("shape-inference",)
    exclusive = True

    def table(self) -> list[TermRule]:
        return _LAWS


def _is_absorbed(values: Values) -> bool:
    x, y = values["x"], values["y"]
    if widens(x, y):
        return False
    known = numbers(y)
    return is_kind("bi", x, y) or (known is not None and not np.isnan(known).any())


_PAIRS = [pair for one, other in LATTICES for pair in ((one, other), (other, one))]
_PARITIES = [(conjunction, parity) for _, conjunction, _, parity in NEGATIONS]

_LAWS = [
    *(law(call(f, "x", "x"), "x") for f, _ in _PAIRS),
    *(
        order
        for f, g in _PAIRS
        for order in law(call(f, "x", call(g, "x", "y")), "x", _is_absorbed).orders()
    ),
    *(
        order
        for f, g in (*_PAIRS, *_PARITIES)
        for order in law(
            call(g, call(f, "x", "y"), call(f, "x", "z")), call(f, "x", call(g, "y", "z"))
        ).orders()
    ),
]
