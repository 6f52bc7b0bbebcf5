"""``python -m benchmarks certify``: how many wrong rules are refuted, and no right ones."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript.rewriter import RewriteRule

from benchmarks.certify.correct_rules import correct_rules
from benchmarks.certify.mutants import Mutant, mutants_of
from benchmarks.certify.places import place_mutants
from onnx_passes.certifying import Effort, Outcome, prove_rule
from onnx_passes.certifying.rule_fuzzing import fuzz_rule
from onnx_passes.certifying.template_models import instances

COUNT = 220
"""Mutants of rules, spread over all."""

SECONDS, MODELS = 600.0, 200
"""For the property test of one mutant: the models are the budget, the seconds only stop."""


@dataclass(frozen=True)
class Result:
    """What the verifier says of one mutant, or of one rule that is right.

    Attributes:
        origin: The rule.
        change: What was changed; empty for the rule itself.
        verdict: "refuted", "equivalent" (proved to change nothing), "never fires" (so that
            nothing is known of it), "survived".
        how: Why, or how long it was looked at.
    """

    origin: str
    change: str
    verdict: str
    how: str


def judge(mutant: Mutant, seed: int = 0) -> Result:
    """Test a mutant, and where it survives, try to prove that it is right."""
    tested = fuzz_rule(mutant.rule, seconds=SECONDS, seed=seed, models=MODELS)
    if tested.fault is not None:
        return Result(mutant.origin, mutant.change, "refuted", tested.fault.reason)
    if tested.verdict == "never fired":
        return Result(
            mutant.origin, mutant.change, "never fires", "it fired on no model in its time"
        )
    proof = prove_rule(mutant.rule, effort=Effort(seed=seed))
    if proof.outcome == Outcome.REFUTED:
        found = proof.counterexample
        return Result(mutant.origin, mutant.change, "refuted", found.reason if found else "")
    if proof.outcome == Outcome.PROVED:
        return Result(mutant.origin, mutant.change, "equivalent", "proved")
    return Result(mutant.origin, mutant.change, "survived", f"{tested.models} models agree")


def new_nodes(rule: RewriteRule) -> list[ir.Node]:
    """Return the nodes that a rule's rewrite makes, the first time that it fires.

    Raises:
        LookupError: It fires on no template.
    """
    seen: list[ir.Node] = []
    replacement: Any = rule._replacement_pattern
    original = replacement._function

    def watched(op: Any, **bindings: Any) -> Any:
        outputs = original(op, **bindings)
        if outputs and not seen:
            seen.extend(op.nodes)
        return outputs

    spy = RewriteRule(rule._target_pattern, watched, rule._condition_function, name="spy")
    next(instances(spy, limit=1, attempts=2400), None)
    if not seen:
        raise LookupError(f"{rule.name} fires on no template")
    return seen


def rule_mutants(rules: Sequence[RewriteRule] | None = None) -> list[Mutant]:
    """Return the mutants of rules, of all of ``correct_rules`` unless given, in order."""
    chosen = correct_rules() if rules is None else rules
    return [m for rule in chosen for m in mutants_of(rule, new_nodes(rule))]


def spread(mutants: Sequence[Mutant], count: int) -> list[Mutant]:
    """Return ``count`` of the mutants, evenly spaced, so that every rule has some."""
    places = np.linspace(0, len(mutants) - 1, min(count, len(mutants))).astype(int)
    return [mutants[i] for i in dict.fromkeys(places.tolist())]


def tables() -> list[str]:
    """Judge right rules, mutants of them, and rules that are wrong in one place.

    Returns:
        The counts, and every mutant that is not refuted, as Markdown. A mutant that never
        fires changes no model, so that there is nothing to refute in it.
    """
    logging.getLogger("onnx_ir").setLevel(logging.CRITICAL)
    right = [judge(Mutant(str(rule.name), "", rule)) for rule in correct_rules()]
    groups = {
        "of rules": [judge(m) for m in spread(rule_mutants(), COUNT)],
        "in one place": [judge(m) for m in place_mutants()],
    }
    lines = [
        "## Mutants of right rules",
        "",
        "| Mutants | Judged | Refuted | Proved equivalent | Never fire | Survived |",
        "|---|---|---|---|---|---|",
    ]
    columns = ("refuted", "equivalent", "never fires", "survived")
    for name, group in groups.items():
        counts = Counter(r.verdict for r in group)
        cells = " | ".join(str(counts[c]) for c in columns)
        lines.append(f"| {name} | {len(group)} | {cells} |")
    blamed = [r.origin for r in right if r.verdict == "refuted"]
    lines += [
        "",
        f"Of {len(right)} right rules, {len(blamed)} refuted: {', '.join(blamed) or 'none'}.",
        "",
        "| Rule | Change | Verdict | |",
        "|---|---|---|---|",
    ]
    return lines + [
        f"| {r.origin} | {r.change} | {r.verdict} | {r.how} |"
        for group in groups.values()
        for r in group
        if r.verdict not in ("refuted", "equivalent")
    ]
