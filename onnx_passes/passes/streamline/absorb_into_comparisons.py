"""Fold what computes a compared value into the number that it is compared with."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.passes.base import Op, Value
from onnx_passes.passes.common.matches import node_of
from onnx_passes.passes.common.rules import RulePass, TermRule, Values, call
from onnx_passes.passes.hints import Hint, Hints, Spec, Specs, data, filled
from onnx_passes.passes.quantised import _chains as chains
from onnx_passes.passes.streamline._rule_constants import constant, narrow

_BEYOND = np.array([np.nan, -np.inf, np.inf], np.float32)
"""Numbers that bisection does not look at."""


def _chains(operand: str) -> dict[str, Specs]:
    """Return chains of one operator over data, for one operand of the comparison."""
    return {
        operand: (
            *(Spec(node=kind, of=("u",)) for kind in ("Neg", "Relu", "HardSigmoid", "Elu")),
            *(Spec(node=kind, of=("u", "k")) for kind in ("Mul", "Add", "Sub", "Div", "Min")),
            Spec(node="Mul", of=("u", "u")),
        ),
        "u": data("a b", "a b c", "b"),
        "k": filled("", 2.0, -0.5, 0.75),
    }


@passes.verify.tolerance
@passes.register("algebraic")
class AbsorbIntoComparisons(RulePass):
    """Fold what computes a compared value into the number that it is compared with.

    Before: ``Greater(Relu(Add(Mul(x, a), b)), c)``, ``LessOrEqual(c, Sigmoid(x))``;
            ``GreaterOrEqual(SiLU(x), c)``, ``Less(Mul(x, x), c)``
    After:  ``GreaterOrEqual(x, t)``, or ``Less(x, t)`` where the chain falls; where it turns,
            ``Or(Less(x, s), GreaterOrEqual(x, t))`` or ``And(GreaterOrEqual(x, s),
            Less(x, t))``

    The chain is what ``infer-thresholds`` takes up to a quantiser.

    Sound because each operator is monotone as it is computed, rounding included, so that the
    comparison changes at one float32, which bisection over all floats finds on the chain
    itself. NaN and infinities are looked at as well. Kernels of Sigmoid, Tanh, Exp and their
    like waver by some floats around it: a tolerance, though booleans have none.

    Leaves alone: Equal; chains whose comparison is the same for all numbers, or changes more
    often than twice; channels that change in different directions; types other than float32;
    opsets before 13.
    """

    needs = ("shape-inference",)
    hints: ClassVar[Hints] = {
        "*": Hint(
            {},
            {},
            (ir.DataType.FLOAT,),
            13,
            cases=(
                Hint({**_chains("x"), "c": filled("", 0.5, 0.25)}),
                Hint({**_chains("c"), "x": filled("", 0.5, 0.25)}),
            ),
        )
    }

    def table(self) -> list[TermRule]:
        return _RULES


def _replace(op: Op, v: Values, found: _Steps) -> Value:
    chain, starts_true, places = found
    x, values = chain.source, [constant(op, narrow(place)) for place in places]
    made: Value
    if len(values) == 1:
        made = (op.Less if starts_true else op.GreaterOrEqual)(x, values[0])
    elif starts_true:
        made = op.Or(op.Less(x, values[0]), op.GreaterOrEqual(x, values[1]))
    else:
        made = op.And(op.GreaterOrEqual(x, values[0]), op.Less(x, values[1]))
    return made


_Steps = tuple[chains.Chain, bool, list[Array]]


def _steps_to(v: Values) -> _Steps | None:
    """Return a chain, whether it starts true, and where it changes, by channel."""
    chain = chains.chain_to(node_of(v["y"]), v.opset)
    if chain is None or len(chain.nodes) == 1:
        return None
    try:
        steps = chains.Steps(chain)
        table = chains.find_table(steps, lambda results: results.astype(np.float64), 1)
        found = None if table is None else _places(table)
        if found is None or not _holds_beyond(steps, *found):
            return None
    except Exception:
        return None  # the engine has no kernel for the chain as it is
    return chain, *found


def _places(table: chains.Table) -> tuple[bool, list[Array]] | None:
    """Return whether all channels start true, and their steps if they have the same."""
    first = bool(table.start.flat[0])
    used = (table.weights != 0).any(tuple(range(table.weights.ndim - 1)))
    weights = table.weights[..., used]
    signs = [-1.0, 1.0] if first else [1.0, -1.0]
    same = (table.start == first).all() and 1 <= weights.shape[-1] <= 2
    if not same or (weights != signs[: weights.shape[-1]]).any():
        return None
    return first, list(np.moveaxis(table.thresholds[..., used], -1, 0))


def _holds_beyond(steps: chains.Steps, starts_true: bool, places: list[Array]) -> bool:
    """Whether NaN and infinities are compared in the same way."""
    shape = (len(_BEYOND), *steps.chain.channels)
    x = np.broadcast_to(_BEYOND.reshape(-1, *[1] * (len(shape) - 1)), shape).copy()
    expected = x < places[0] if starts_true else x >= places[0]
    if len(places) == 2:
        expected = expected | (x >= places[1]) if starts_true else expected & (x < places[1])
    return bool((steps.of(x) == expected).all())


_RULES = [
    TermRule(call(kind, "x", "c", result="y"), _steps_to, _replace, since=13)
    for kind in sorted(chains.COMPARES | chains.CONVERSES)
]
