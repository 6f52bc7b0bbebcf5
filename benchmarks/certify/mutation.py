"""The verifier verified: how many wrong rules it refutes, and whether it spares right ones."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript.rewriter import RewriteRule

from benchmarks.certify.correct_rules import correct_rules
from benchmarks.certify.mutants import Mutant, edits_of, mutants_of
from onnx_passes.verify.rules import Arithmetic, Effort, Outcome, prove_pair, prove_rule
from onnx_passes.verify.rules.fuzz import fuzz_rule
from onnx_passes.verify.rules.instantiate import instances

SECONDS = 8.0


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
    tested = fuzz_rule(mutant.rule, seconds=SECONDS, seed=seed)
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


def pair_mutants(path: Path, count: int) -> Iterator[tuple[str, str, ir.Model, ir.Model]]:
    """Yield mutants of TASO's substitutions: name, change, graph before, graph mutated."""
    from benchmarks import taso

    rules = json.loads(path.read_text())["rules"]
    made = 0
    for number, rule in enumerate(rules[:: max(1, len(rules) // max(count, 1))]):
        sizes = taso.Shapes(rule, 1).solve()
        if sizes is None or made >= count:
            continue
        before = taso.build(rule["source"], rule, sizes, 0, None)
        ends = [[int(str(d)) for d in o.shape or ()] for o in before.graph.outputs]
        after = taso.build(rule["target"], rule, sizes, 1, ends)
        if prove_pair(before, after)[Arithmetic.REAL].outcome != Outcome.PROVED:
            continue
        sites = [
            (index, change)
            for index, node in enumerate(after.graph)
            for change, _ in edits_of(node)
        ]
        index, change = sites[number % len(sites)]
        node = after.graph[index]
        if dict(edits_of(node))[change](node):
            made += 1
            yield f"TASO {number}", f"{change} of {node.op_type}", before, after


def judge_pair(origin: str, change: str, before: ir.Model, after: ir.Model) -> Result:
    """Prove or refute a mutant of a substitution."""
    from onnx_passes.errors import OnnxPassesError

    try:
        verdict = prove_pair(before, after)[Arithmetic.REAL]
    except OnnxPassesError as error:
        return Result(origin, change, "refuted", str(error.message))
    if verdict.outcome == Outcome.REFUTED:
        return Result(origin, change, "refuted", str(verdict)[:80])
    equivalent = verdict.outcome == Outcome.PROVED
    return Result(
        origin, change, "equivalent" if equivalent else "survived", str(verdict)[:80]
    )


def originals(seed: int = 0) -> list[Result]:
    """Judge the rules that are right; none may be refuted."""
    return [judge(Mutant(str(rule.name), "", rule), seed) for rule in correct_rules()]


def table(results: Sequence[Result], right: Sequence[Result], seconds: float) -> list[str]:
    """Return the counts, and every mutant that is not refuted, as Markdown."""
    counts = Counter(r.verdict for r in results)
    wrong = counts["refuted"] + counts["survived"]
    share = 100 * counts["refuted"] / max(wrong, 1)
    blamed = [r.origin for r in right if r.verdict == "refuted"]
    lines = [
        "## Mutants of right rules",
        "",
        f"{len(results)} mutants: {counts['refuted']} refuted, {counts['equivalent']} "
        f"proved equivalent, {counts['never fires']} never fire, {counts['survived']} "
        f"survived: "
        f"{share:.1f} % of the wrong ones refuted, in {seconds:.0f} s. Of {len(right)} "
        f"right rules, {len(blamed)} refuted"
        f"{': ' + ', '.join(blamed) if blamed else ''}.",
        "",
        "| Rule | Change | Verdict | |",
        "|---|---|---|---|",
    ]
    rest = [r for r in results if r.verdict != "refuted"]
    return [*lines, *(f"| {r.origin} | {r.change} | {r.verdict} | {r.how} |" for r in rest)]


def tables(taso: Path | None, count: int = 150, pairs: int = 60) -> list[str]:
    """Judge mutants of rules and, where TASO's file is given, of its substitutions."""
    logging.getLogger("onnx_ir").setLevel(logging.CRITICAL)
    start = time.perf_counter()
    chosen = spread(rule_mutants(), count if taso is not None else count + pairs)
    results = [judge(mutant) for mutant in chosen]
    if taso is not None:
        results += [judge_pair(*pair) for pair in pair_mutants(taso, pairs)]
    return table(results, originals(), time.perf_counter() - start)
