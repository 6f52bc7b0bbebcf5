"""Compare with another number instead of computing what is compared."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes._support.matches import node_of, opset_at
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value, Var
from onnx_passes.passes.quantised._bisect import Table, find_table
from onnx_passes.passes.quantised._chains import Chain, Steps, chain_to
from onnx_passes.passes.quantised._monotone import COMPARES, CONVERSES
from onnx_passes.passes.streamline._rows import narrowed
from onnx_passes.passes.streamline._terms import Array, constant

_KINDS = sorted(COMPARES | CONVERSES)
_BEYOND = np.array([np.nan, -np.inf, np.inf], np.float32)
"""Numbers that bisection does not look at."""


@passes.verify.tolerance
@passes.register()
@passes.register("algebraic")
class AbsorbIntoComparisons(Transformation, RewriteRuleSetPass):
    """Compare with another number instead of computing what is compared.

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

    requires: ClassVar[Any] = ("shape-inference",)

    def pattern(self) -> list[Any]:
        return [_Comparison(kind) for kind in _KINDS]

    def check(self) -> list[Any]:
        return [self._is_chain for _ in _KINDS]

    def rewrite(self) -> list[Any]:
        return [self._replaced for _ in _KINDS]

    def _is_chain(self, context: Any, y: Value, **_: Any) -> bool:
        opset = opset_at(context)
        self._found = None if opset < 13 else _steps_to(node_of(y), opset)
        return self._found is not None

    def _replaced(self, op: Op, **_: Any) -> Value:
        # The driver asks `check` about the same node right before.
        assert self._found is not None, "check has seen to it"
        chain, starts_true, places = self._found
        x, values = chain.source, [constant(op, narrowed(place)) for place in places]
        made: Value
        if len(values) == 1:
            made = (op.Less if starts_true else op.GreaterOrEqual)(x, values[0])
        elif starts_true:
            made = op.Or(op.Less(x, values[0]), op.GreaterOrEqual(x, values[1]))
        else:
            made = op.And(op.GreaterOrEqual(x, values[0]), op.Less(x, values[1]))
        return made


class _Comparison:
    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, op: Op, x: Var, c: Var) -> Var:
        return getattr(op, self.kind)(x, c, _outputs=["y"])


_Steps = tuple[Chain, bool, list[Array]]


def _steps_to(node: ir.Node, opset: int) -> _Steps | None:
    """Return a chain, whether it starts true, and where it changes, by channel."""
    chain = chain_to(node, opset)
    if chain is None or len(chain.nodes) == 1:
        return None
    try:
        steps = Steps(chain)
        table = find_table(steps, lambda results: results.astype(np.float64), 1)
        found = None if table is None else _places(table)
        if found is None or not _holds_beyond(steps, *found):
            return None
    except Exception:
        return None  # the engine has no kernel for the chain as it is
    return chain, *found


def _places(table: Table) -> tuple[bool, list[Array]] | None:
    """Return whether all channels start true, and their steps if they have the same."""
    first = bool(table.start.flat[0])
    used = (table.weights != 0).any(tuple(range(table.weights.ndim - 1)))
    weights = table.weights[..., used]
    signs = [-1.0, 1.0] if first else [1.0, -1.0]
    same = (table.start == first).all() and 1 <= weights.shape[-1] <= 2
    if not same or (weights != signs[: weights.shape[-1]]).any():
        return None
    return first, list(np.moveaxis(table.thresholds[..., used], -1, 0))


def _holds_beyond(steps: Steps, starts_true: bool, places: list[Array]) -> bool:
    """Whether NaN and infinities are compared alike."""
    shape = (len(_BEYOND), *steps.chain.channels)
    x = np.broadcast_to(_BEYOND.reshape(-1, *[1] * (len(shape) - 1)), shape).copy()
    expected = x < places[0] if starts_true else x >= places[0]
    if len(places) == 2:
        expected = expected | (x >= places[1]) if starts_true else expected & (x < places[1])
    return bool((steps.of(x) == expected).all())
