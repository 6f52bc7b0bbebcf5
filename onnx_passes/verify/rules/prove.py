"""Prove a rewrite, or break it: one verdict per arithmetic."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace

import onnx_ir as ir
from onnxscript.rewriter import RewriteRule

from onnx_passes.errors import ModelError, PassError
from onnx_passes.ops.domains.z3_module import z3
from onnx_passes.verify.rules import solver
from onnx_passes.verify.rules.applying import RuleLike, apply_rule, rules_of
from onnx_passes.verify.rules.exact import Effort, judge_exact
from onnx_passes.verify.rules.instantiate import instances
from onnx_passes.verify.rules.pairs import Pair
from onnx_passes.verify.rules.proof import NEAR, Arithmetic, Judgement, Outcome, Proof, merge
from onnx_passes.verify.rules.replay import Replayer
from onnx_passes.verify.rules.rounding import judge_ieee
from onnx_passes.verify.rules.running import engine_name
from onnx_passes.verify.rules.widening import is_half

_OPEN = (Outcome.UNDECIDED, Outcome.TESTED)


def prove_pair(before: ir.Model, after: ir.Model, *, effort: Effort | None = None) -> Proof:
    """Compare two models with the same inputs, in every arithmetic that applies to them.

    Args:
        before: The model before the rewrite; its inputs have concrete shapes.
        after: The model after it; outputs correspond by position.
        effort: Limits; the default spends about a second.

    Returns:
        The verdicts. Neither model is changed.

    Raises:
        UsageError: z3 is not installed.
        ModelError: The models have different interfaces.
    """
    start = time.perf_counter()
    effort = effort or Effort()
    versions = {"z3": solver.version(), "engine": engine_name()}
    pair = Pair.of(before, after)
    replayer = Replayer(pair.before, pair.after)
    judgements = {a: Judgement(a, Outcome.NOT_APPLICABLE) for a in Arithmetic}
    exact = judge_exact(pair, replayer, effort)
    judgements[exact.arithmetic] = exact
    if pair.has_floats and not effort.ieee:
        judgements[Arithmetic.IEEE] = Judgement(
            Arithmetic.IEEE, Outcome.UNDECIDED, reason="not asked: bits are known to differ"
        )
    elif pair.has_floats:
        judgements[Arithmetic.IEEE] = judge_ieee(pair, replayer, effort)
    seconds = time.perf_counter() - start
    return Proof(tuple(judgements[a] for a in Arithmetic), seconds, versions)


def prove_rule(
    rule: RuleLike,
    templates: Iterable[ir.Model] | None = None,
    *,
    effort: Effort | None = None,
) -> Proof:
    """Apply a rule to templates, as it stands, and compare before and after.

    The rule's own pattern, ``check`` and ``rewrite`` run. Templates on which it does not fire
    are counted in the notes.

    Args:
        rule: An onnxscript rule, a rule class, a pass of rules, or an object with ``pattern``,
            ``check`` and ``rewrite``. Of several rules, the verdicts hold for all.
        templates: Models with concrete shapes in which the pattern occurs; None to build
            them from the pattern.
        effort: Limits, per template.

    Returns:
        The verdicts that hold for every template on which the rule fired.

    Raises:
        UsageError: z3 is not installed, or the object is no rule.
    """
    start = time.perf_counter()
    effort = effort or Effort()
    z3()  # its absence is said before anything is built
    given = None if templates is None else list(templates)
    proofs: list[Proof] = []
    coarse: list[Proof] = []
    idle = 0
    for single in rules_of(rule):
        found = (
            instances(single, seed=effort.seed, limit=effort.limit) if given is None else given
        )
        kinds: set[frozenset[ir.DataType | None]] = set()
        for count, template in enumerate(found):
            kind = frozenset(v.dtype for v in template.graph.inputs)
            # Past the first few of known types, templates only serve to break the rule.
            screen = count >= effort.templates and kind in kinds
            kinds.add(kind)
            proof = _on_template(single, template, effort, screen=screen)
            if proof is None:
                idle += 1
                continue
            if is_half(template) and proof[Arithmetic.REAL].outcome in _OPEN:
                coarse.append(proof)
                continue
            proofs.append(proof)
            if proof.outcome == Outcome.REFUTED:
                break
        else:
            if given is None and (proof := _near(single, effort)) is not None:
                proofs.append(proof)
    seconds = time.perf_counter() - start
    notes = (f"{idle} more templates did not fire, or showed no difference",) if idle else ()
    if coarse and proofs:
        # Constants of 11 bits, folded and rounded again, are too far from the formula.
        notes = (*notes, f"{len(coarse)} templates of half precision are tested, not proved")
    proofs = proofs or coarse
    if not proofs:
        return _undecided("the rule fired on no template", templates=0, notes=notes)
    return merge(proofs, seconds, notes)


def _near(rule: RewriteRule, effort: Effort) -> Proof | None:
    """Return a refutation on a constant that the pattern only takes for its own, if any."""
    for template in instances(rule, limit=4, attempts=120, seed=effort.seed, near=True):
        proof = _on_template(rule, template, effort, screen=True)
        if proof is not None and proof.outcome == Outcome.REFUTED:
            return replace(proof, notes=(*proof.notes, NEAR))
    return None


def _on_template(
    rule: RewriteRule, template: ir.Model, effort: Effort, *, screen: bool
) -> Proof | None:
    try:
        after = apply_rule(rule, template)
    except PassError as error:
        return _undecided(error.message)
    except Exception as error:  # the rule is anyone's code
        return _undecided(f"the rule raised {type(error).__name__}: {error}")
    if after is None:
        return None
    try:
        if screen and _agrees(template, after, effort):
            return None
        return prove_pair(template, after, effort=effort)
    except ModelError as error:
        return _undecided(error.message)


def _agrees(before: ir.Model, after: ir.Model, effort: Effort) -> bool:
    pair = Pair.of(before, after)
    replayer = Replayer(pair.before, pair.after)
    found = replayer.search(effort.samples, real=pair.has_floats, seed=effort.seed)
    return found is None


def _undecided(reason: str, *, templates: int = 1, notes: tuple[str, ...] = ()) -> Proof:
    judgements = tuple(Judgement(a, Outcome.UNDECIDED, reason=reason) for a in Arithmetic)
    return Proof(judgements, 0.0, {"z3": solver.version()}, templates, notes)
