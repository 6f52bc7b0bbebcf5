"""Constants moved from before an operator to behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.passes._support.matches import node_of
from onnx_passes.passes._support.rules import TermCall, TermRule, Values
from onnx_passes.passes.base import Op, Value
from onnx_passes.passes.streamline._terms import constant

Found: TypeAlias = "Sequence[Array | Value] | None"
"""Constants that can be moved behind an operator; None if there are none."""


def behind(
    before: TermCall,
    find: Callable[[Values], Found],
    *outer: str,
    dropped: str = "",
    name: str = "",
) -> TermRule:
    """Return the rule that puts constants behind an operator.

    Args:
        before: The operator; of operands that are sums or products, it reads the first
            operand afterwards.
        find: Returns the constants.
        outer: What is done with each constant; with fewer constants, the first ones.
        dropped: Name of an operand that the operator does not read afterwards.
        name: What reports call the rule.
    """

    def make(op: Op, values: Values, found: Sequence[Array | Value]) -> Value:
        first = [t if isinstance(t, str) else str(t.operands[0]) for t in before.operands]
        given = node_of(values[before.result]).attributes if before.result else {}
        made = getattr(op, before.kind)(*(values[n] for n in first if n != dropped), **given)
        for kind, number in zip(outer, found, strict=False):
            known = number if isinstance(number, ir.Value) else constant(op, number)
            made = getattr(op, kind)(made, known)
        return made

    return TermRule(before, find, make, name=name)
