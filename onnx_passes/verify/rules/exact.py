"""The verdict over booleans, integers modulo 2^n, and reals."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from onnx_passes.ops.domains.concrete import FieldSemantics
from onnx_passes.ops.domains.reals import RealSemantics
from onnx_passes.ops.evaluation import evaluate, unknowns
from onnx_passes.ops.semantics import Unsupported
from onnx_passes.verify.rules.blocks import block_argument
from onnx_passes.verify.rules.claims import Claim, claim
from onnx_passes.verify.rules.pairs import ModelPair
from onnx_passes.verify.rules.proof import (
    Arithmetic,
    ArithmeticVerdict,
    Counterexample,
    Coverage,
    Outcome,
)
from onnx_passes.verify.rules.replay import Replayer
from onnx_passes.verify.rules.running import Feeds
from onnx_passes.verify.rules.scalar import ScalarArgument, scalar_argument


@dataclass(frozen=True, slots=True)
class Effort:
    """How much the prover spends.

    Attributes:
        milliseconds: Limit of one query to z3, counted in its own steps so that verdicts
            are the same on every machine.
        samples: Random inputs run on the engine before anything is proved.
        points: Random points in the finite field.
        templates: Models that a rule is proved on, whatever they are; of those beyond, ones of
            other ranks are proved up to ``most``, ones of other types always.
        most: Models of other ranks that a rule is proved on, those before them included.
        limit: Models that are drawn besides those that enumerate ranks, types and opsets.
        ieee: Whether to ask for equal bits too; pointless where some are known to differ.
        seed: Of everything random.
    """

    milliseconds: int = 1000
    samples: int = 12
    points: int = 4
    templates: int = 6
    most: int = 14
    limit: int = 24
    ieee: bool = True
    seed: int = 0


_ROUNDED = frozenset({"Sqrt", "Pow", "BatchNormalization", "Gelu", "Erf", "Tanh"})
"""Operators whose rounded constants may be roots, or lie in the argument of a curve."""
_EXPONENTIAL = frozenset(
    {"Exp", "Log", "Sigmoid", "Softmax", "LogSoftmax", "Softplus", "Mish"}
)
_NEAR = "roots of constants to 40 digits, curves of arguments within 1e-6 by their slope"


def judge_exact(pair: ModelPair, replayer: Replayer, effort: Effort) -> ArithmeticVerdict:
    """Return the verdict in the pair's own exact arithmetic.

    An engine is asked first, because a run takes a millisecond; then come, in this order,
    the arguments that cover most: scalars, blocks, the given shapes, random points.

    Args:
        pair: Both graphs.
        replayer: Runs both on an engine.
        effort: How long it may take.
    """
    start = time.perf_counter()
    if pair.has_floats:
        arithmetic = Arithmetic.REAL
    else:
        arithmetic = Arithmetic.INT if pair.has_integers else Arithmetic.BOOL
    judgement = ArithmeticVerdict(arithmetic, Outcome.UNDECIDED)
    found = replayer.search(effort.samples, real=pair.has_floats, seed=effort.seed)
    if found is not None:
        judgement = refuted(judgement, "replay", found)
    else:
        judgement = _prove(judgement, pair, replayer, effort)
    return replace(judgement, seconds=time.perf_counter() - start)


def refuted(base: ArithmeticVerdict, method: str, found: Counterexample) -> ArithmeticVerdict:
    """Return ``base`` refuted by a counterexample that an engine showed.

    Args:
        base: The verdict so far.
        method: How the counterexample was found.
        found: The counterexample.
    """
    return replace(
        base,
        outcome=Outcome.REFUTED,
        method=method,
        counterexample=found,
        reason=found.reason,
        coverage=None,
        mode=None,
    )


def _prove(
    base: ArithmeticVerdict, pair: ModelPair, replayer: Replayer, effort: Effort
) -> ArithmeticVerdict:
    reasons: list[str] = []
    argument = scalar_argument(pair)
    result = None
    if argument is not None:
        asked = replace(base, method="scalar argument", coverage=argument.coverage)
        result = _ask(asked, pair, argument, replayer, effort, reasons)
    if result is None and (filled := scalar_argument(pair, numbers=True)) is not None:
        asked = replace(base, method="scalar argument", coverage=filled.coverage)
        result = _ask(asked, pair, filled, replayer, effort, reasons)
    if result is None:
        result = _by_blocks(base, pair, reasons)
    if result is None:
        # One element may represent too many: what the engine does not show is not an answer.
        coverage = Coverage(False, pair.shapes, tuple(pair.constants()))
        asked = replace(base, method="bounded z3", coverage=coverage)
        result = _ask(asked, pair, None, replayer, effort, reasons)
    if result is None and pair.has_floats:
        result = _evaluate_in_field(base, pair, effort, reasons)
    return result or replace(base, reason="; ".join(dict.fromkeys(reasons)))


def _by_blocks(
    base: ArithmeticVerdict, pair: ModelPair, reasons: list[str]
) -> ArithmeticVerdict | None:
    try:
        coverage = block_argument(pair, ring=True)
    except Unsupported as unsupported:
        reasons.append(f"no block normal form: {unsupported}")
        return None
    return replace(base, outcome=Outcome.PROVED, method="block normal form", coverage=coverage)


def _ask(
    asked: ArithmeticVerdict,
    pair: ModelPair,
    argument: ScalarArgument | None,
    replayer: Replayer,
    effort: Effort,
    reasons: list[str],
) -> ArithmeticVerdict | None:
    """Put a claim to z3; return the judgement, or None where it decides nothing."""
    try:
        statement = claim(pair, RealSemantics(), argument)
        answer = statement.check(effort.milliseconds)
        if not answer.holds and _has(pair, _EXPONENTIAL):
            lawful = claim(pair, RealSemantics(laws=True), argument)
            if lawful.check(effort.milliseconds).holds:
                return replace(asked, outcome=Outcome.PROVED)
    except Unsupported as unsupported:
        reasons.append(f"{asked.method}: {unsupported}")
        return None
    if statement.mismatch is not None:
        reasons.append(f"{asked.method}: {statement.mismatch}")
        return None
    if answer.holds:
        return replace(asked, outcome=Outcome.PROVED)
    if answer.holds is None:
        reasons.append(f"{asked.method}: {answer.reason}")
        return None
    close = _close(statement, effort) if pair.has_floats else None
    if close is not None and asked.coverage is not None:
        coverage = replace(asked.coverage, conditions=(*asked.coverage.conditions, close))
        return replace(asked, outcome=Outcome.PROVED, coverage=coverage)
    feeds = statement.inputs(answer.model)
    found = replayer.compare(feeds, real=pair.has_floats)
    if found is not None:
        return refuted(asked, asked.method, found)
    reasons.append(f"{asked.method}: {not_replayed(feeds, replayer)}")
    return None


def _close(statement: Claim, effort: Effort) -> str | None:
    """Return how close the sides of a claim are, if need be with roots of constants near."""
    found = statement.close(effort.milliseconds)
    if found is not None or not _has(statement.pair, _ROUNDED):
        return found
    near = claim(statement.pair, RealSemantics(near=True), statement.argument)
    found = near.close(effort.milliseconds)
    return None if found is None else f"{found}; {_NEAR}"


def _has(pair: ModelPair, operators: frozenset[str]) -> bool:
    return any(n.op_type in operators for m in (pair.before, pair.after) for n in m.graph)


def not_replayed(feeds: Feeds, replayer: Replayer) -> str:
    """Say what z3 found and why it does not count.

    Args:
        feeds: The counterexample, arrays by name, of the shapes of the graphs.
        replayer: Runs both graphs on an engine.
    """
    shown = ", ".join(f"{k} = {v.reshape(-1)[:4].tolist()}" for k, v in feeds.items())
    failure = replayer.runs(feeds)
    why = (
        f"which does not run: {failure}" if failure else "where the engine sees no difference"
    )
    return f"z3 has a counterexample, {shown}, {why}"


def _evaluate_in_field(
    base: ArithmeticVerdict, pair: ModelPair, effort: Effort, reasons: list[str]
) -> ArithmeticVerdict | None:
    try:
        for point in range(effort.points):
            semantics = FieldSemantics(effort.seed + point)
            feeds = unknowns(pair.inputs, semantics)
            before = evaluate(pair.before.graph, feeds, semantics)
            after = evaluate(pair.after.graph, feeds, semantics)
            for name, left in before.items():
                right = after[name]
                same = left.shape == right.shape and left.dtype == right.dtype
                if not same or list(left.data.flat) != list(right.data.flat):
                    reasons.append(f"finite field: output {name} differs")
                    return None
    except Unsupported as unsupported:
        reasons.append(f"finite field: {unsupported}")
        return None
    coverage = Coverage(
        False, pair.shapes, (f"{effort.points} random points", *pair.constants())
    )
    return replace(
        base,
        outcome=Outcome.TESTED,
        method="finite field",
        coverage=coverage,
        reason="; ".join(dict.fromkeys(reasons)),
    )
