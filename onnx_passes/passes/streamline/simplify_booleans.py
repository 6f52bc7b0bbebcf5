"""Merge two negations into one, and move it behind what it negates."""

from onnx_passes import passes
from onnx_passes.passes.common.rules import RulePass, TermRule, Values, call, law
from onnx_passes.passes.common.shapes import widens
from onnx_passes.passes.streamline._rule_constants import NEGATIONS, numbers


@passes.verify.equality
@passes.register("algebraic")
class SimplifyBooleans(RulePass):
    """Merge two negations into one, and move it behind what it negates.

    Before: ``And(Not(a), Not(b))``, ``Or(Not(a), Not(b))``, ``Xor(Not(a), Not(b))``,
            ``Xor(Not(a), b)``, ``Xor(a, true)``; the same of bits
    After:  ``Not(Or(a, b))``, ``Not(And(a, b))``, ``Xor(a, b)``, ``Not(Xor(a, b))``,
            ``Not(a)``

    Sound because of the laws of De Morgan, and because an exclusive disjunction with true is
    a negation, which commutes with others.

    Leaves alone: a negation that something else reads; constants that make ``a`` bigger. Two
    negations in a row are for ``eliminate-repeated-unary``.
    """

    needs = ("shape-inference",)
    exclusive = True

    def table(self) -> list[TermRule]:
        return _LAWS


def _is_all(values: Values) -> bool:
    """Whether ``c`` is true, or all of its bits are set."""
    known = numbers(values["c"])
    if known is None or widens(values["a"], values["c"]):
        return False
    full = known == (True if known.dtype == bool else ~known.dtype.type(0))
    return bool(full.all())


_LAWS = [
    rule
    for inverse, both, either, differ in NEGATIONS
    for rule in (
        law(
            call(both, call(inverse, "a"), call(inverse, "b")),
            call(inverse, call(either, "a", "b")),
        ),
        law(
            call(either, call(inverse, "a"), call(inverse, "b")),
            call(inverse, call(both, "a", "b")),
        ),
        law(call(differ, call(inverse, "a"), call(inverse, "b")), call(differ, "a", "b")),
        *law(
            call(differ, call(inverse, "a"), "b"), call(inverse, call(differ, "a", "b"))
        ).orders(),
        *law(call(differ, "a", "c"), call(inverse, "a"), _is_all).orders(),
    )
]
