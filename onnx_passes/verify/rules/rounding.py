"""The verdict in IEEE arithmetic: is the rewrite equal bit for bit?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.domains.bitvectors import FLOAT16, FORMATS, FloatFormat, IeeeSemantics
from onnx_passes.ops.semantics import Unsupported
from onnx_passes.verify.rules.blocks import SUMMATION, block_argument
from onnx_passes.verify.rules.claims import Claim, claim
from onnx_passes.verify.rules.exact import Effort, not_replayed, refuted
from onnx_passes.verify.rules.pairs import ModelPair
from onnx_passes.verify.rules.proof import (
    Arithmetic,
    ArithmeticVerdict,
    Counterexample,
    Coverage,
    FloatMode,
    Outcome,
)
from onnx_passes.verify.rules.replay import Replayer
from onnx_passes.verify.rules.scalar import ScalarArgument, scalar_argument
from onnx_passes.verify.rules.solver import GAVE_UP

_SUMS = {"MatMul", "Gemm", "Conv", "Einsum", "Softmax", "LayerNormalization", "CumSum"}

Decision: TypeAlias = "bool | Counterexample | str"
"""Valid; or broken, on an engine; or why it is undecided."""


def judge_ieee(pair: ModelPair, replayer: Replayer, effort: Effort) -> ArithmeticVerdict:
    """Return the verdict in IEEE arithmetic, in the strongest mode that holds.

    Args:
        pair: Both graphs.
        replayer: Runs both on an engine.
        effort: How long it may take.
    """
    start = time.perf_counter()
    base = ArithmeticVerdict(Arithmetic.IEEE, Outcome.UNDECIDED)
    found = replayer.search(2 * effort.samples, real=False, seed=effort.seed)
    if found is not None and _is_finite(found):
        judgement = refuted(base, "replay", found)
    else:
        by_blocks = _by_blocks(base, pair) if found is None else None
        judgement = by_blocks or _by_z3(
            base, pair, replayer, effort, found, scalar_argument(pair)
        )
        filled = scalar_argument(pair, numbers=True)
        if judgement.outcome == Outcome.UNDECIDED and filled is not None:
            again = _by_z3(base, pair, replayer, effort, found, filled)
            judgement = again if again.outcome == Outcome.PROVED else judgement
    return replace(judgement, seconds=time.perf_counter() - start)


def _is_finite(found: Counterexample) -> bool:
    arrays = (*found.feeds.values(), *found.expected.values())
    floats = (a.astype(np.float64) for a in arrays if a.dtype.kind not in "biu")
    return all(bool(np.isfinite(a).all()) for a in floats)


def _by_blocks(base: ArithmeticVerdict, pair: ModelPair) -> ArithmeticVerdict | None:
    if scalar_argument(pair) is not None:
        return None
    try:
        coverage = block_argument(pair, ring=False)
    except Unsupported:
        return None
    return replace(
        base,
        outcome=Outcome.PROVED,
        method="block normal form",
        coverage=coverage,
        mode=FloatMode.STRICT,
        formats=("every float format",),
    )


def _by_z3(
    base: ArithmeticVerdict,
    pair: ModelPair,
    replayer: Replayer,
    effort: Effort,
    found: Counterexample | None,
    argument: ScalarArgument | None,
) -> ArithmeticVerdict:
    if argument is not None:
        coverage = argument.coverage
    else:
        summed = (SUMMATION,) if _sums(pair) else ()
        coverage = Coverage(False, pair.shapes, (*pair.constants(), *summed))
    asked = replace(
        base, method="scalar argument" if argument else "bounded z3", coverage=coverage
    )
    modes = [FloatMode.FINITE] if found is not None else list(FloatMode)
    broken, reason = found, ""
    for mode in modes:
        decision, formats = _decide(pair, argument, mode, replayer, effort)
        if decision is True:
            why = f"not for all values: {broken.reason}" if broken is not None else ""
            return replace(
                asked, outcome=Outcome.PROVED, mode=mode, formats=formats, reason=why
            )
        if isinstance(decision, Counterexample):
            broken = decision
            if _is_finite(decision):
                break
        elif isinstance(decision, str):
            reason = decision
            if decision.startswith(GAVE_UP):
                # A weaker mode is not easier for z3.
                break
    if broken is not None:
        return refuted(asked, "replay" if broken is found else asked.method, broken)
    return replace(base, reason=reason)


def _decide(
    pair: ModelPair,
    argument: ScalarArgument | None,
    mode: FloatMode,
    replayer: Replayer,
    effort: Effort,
) -> tuple[Decision, tuple[str, ...]]:
    """Put one mode to z3, in half precision first, if that represents the real one."""
    decision: Decision = "no format applies"
    if argument is None and _sums(pair):
        # Floats under uninterpreted sums: z3 sees at once that it is so, or hardly ever.
        effort = replace(effort, milliseconds=effort.milliseconds // 4)
    proved: list[str] = []
    for form in _formats(pair):
        try:
            statement = claim(pair, IeeeSemantics(form), argument)
            if statement.mismatch is not None:
                return statement.mismatch, ()
            decision = _ask(statement, mode, replayer, effort)
        except Unsupported as unsupported:
            return str(unsupported), ()
        if isinstance(decision, Counterexample):
            return decision, ()
        if isinstance(decision, str) and decision.startswith(GAVE_UP):
            break
        if decision is True:
            names = [form.name] if form else sorted(FORMATS[t].name for t in pair.float_types)
            proved += names
    # Half precision alone decides where the wider format is out of reach.
    return (True, tuple(dict.fromkeys(proved))) if proved else (decision, ())


def _ask(statement: Claim, mode: FloatMode, replayer: Replayer, effort: Effort) -> Decision:
    answer = statement.check(effort.milliseconds, mode)
    if answer.holds:
        return True
    if answer.holds is None:
        return answer.reason
    if mode == FloatMode.STRICT:
        return "zeros of unlike sign differ"
    feeds = statement.inputs(answer.model)
    return replayer.compare(feeds, real=False) or not_replayed(feeds, replayer)


def _formats(pair: ModelPair) -> Iterator[FloatFormat | None]:
    """Yield half precision, where it is faithful, and the pair's own formats."""
    if pair.float_types in ({ir.DataType.FLOAT}, {ir.DataType.DOUBLE}) and _fits_half(pair):
        yield FLOAT16
    yield None


def _fits_half(pair: ModelPair) -> bool:
    """Whether every float constant is a normal number of half precision, nearly."""
    for number in pair.float_constants():
        if np.isfinite(number) and number and not 6.2e-5 < abs(number) < 65504:
            return False
    return True


def _sums(pair: ModelPair) -> bool:
    nodes = [n for m in (pair.before, pair.after) for n in m.graph]
    return any(n.op_type in _SUMS or n.op_type.startswith("Reduce") for n in nodes)
