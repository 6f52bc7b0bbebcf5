"""The verifier verified: how many wrong rules it refutes, and whether it spares right ones."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript.rewriter import RewriteRule

from benchmarks.certify.apart import Row, resumed
from benchmarks.certify.correct_rules import correct_rules
from benchmarks.certify.mutants import Mutant, edits_of, mutants_of
from benchmarks.certify.places import place_mutants
from onnx_passes.verify.rules import Arithmetic, Effort, Outcome, prove_pair, prove_rule
from onnx_passes.verify.rules.rule_fuzzing import fuzz_rule
from onnx_passes.verify.rules.template_models import instances

COUNT, PAIRS = 220, 60
"""Mutants of rules, and of TASO's substitutions."""

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


def rule_rows(
    count: int = COUNT, rows: Path | None = None, part: tuple[int, int] = (1, 1), seed: int = 0
) -> list[Row]:
    """Judge the rules that are right and mutants of them, each in a process of its own.

    Args:
        count: Mutants, spread over all.
        rows: Where rows are kept, so that pieces add up.
        part: Which of how many parts.
        seed: Of all choices.
    """
    logging.getLogger("onnx_ir").setLevel(logging.CRITICAL)
    right = [Mutant(str(rule.name), "", rule) for rule in correct_rules()]
    return _rows([*right, *spread(rule_mutants(), count)], rows, part, seed)


def place_rows(
    rows: Path | None = None, part: tuple[int, int] = (1, 1), seed: int = 0
) -> list[Row]:
    """Judge rules that are wrong in one place, each in a process of its own."""
    logging.getLogger("onnx_ir").setLevel(logging.CRITICAL)
    return _rows(place_mutants(), rows, part, seed)


def _rows(
    chosen: Sequence[Mutant], rows: Path | None, part: tuple[int, int], seed: int
) -> list[Row]:
    return list(
        resumed(
            [f"{m.origin}: {m.change}" for m in chosen],
            lambda index: asdict(judge(chosen[index], seed)),
            rows=rows,
            part=part,
            seconds=SECONDS,
        )
    )


def pair_rows(path: Path, count: int = PAIRS) -> list[Row]:
    """Judge mutants of TASO's substitutions."""
    return [asdict(judge_pair(*pair)) for pair in pair_mutants(path, count)]


def table(
    rows: Sequence[Row], pairs: Sequence[Row] = (), places: Sequence[Row] = ()
) -> list[str]:
    """Return the counts, and every mutant that is not refuted, as Markdown.

    A mutant that never fires changes no model, so that there is nothing to refute in it; it is
    counted apart. One whose process did not end or died is counted as surviving.

    Args:
        rows: What ``rule_rows`` returned; of right rules, the change is empty.
        pairs: What ``pair_rows`` returned.
        places: What ``place_rows`` returned.
    """
    results = [_result(row) for row in rows if not row["key"].endswith(": ")]
    right = [_result(row) for row in rows if row["key"].endswith(": ")]
    of_pairs = [Result(**row) for row in pairs]
    of_places = [_result(row) for row in places]
    lines = [
        "## Mutants of right rules",
        "",
        "| Mutants | Judged | Refuted | Proved equivalent | Never fire | Survived | Share |",
        "|---|---|---|---|---|---|---|",
    ]
    groups = {"of rules": results, "of TASO's pairs": of_pairs, "in one place": of_places}
    for name, group in groups.items():
        counts = Counter(r.verdict for r in group)
        wrong = counts["refuted"] + counts["survived"]
        share = f"{100 * counts['refuted'] / wrong:.1f} %" if wrong else "none"
        columns = ("refuted", "equivalent", "never fires", "survived")
        cells = " | ".join(str(counts[c]) for c in columns)
        lines.append(f"| {name} | {len(group)} | {cells} | {share} |")
    blamed = [r.origin for r in right if r.verdict == "refuted"]
    seconds = [row["seconds"] for row in (*rows, *places)]
    lines += [
        "",
        f"Of {len(right)} right rules, {len(blamed)} refuted"
        f"{': ' + ', '.join(blamed) if blamed else ''}. "
        f"{sum(seconds):.0f} s for {len(seconds)} judgements.",
        "",
        "| Rule | Change | Verdict | |",
        "|---|---|---|---|",
    ]
    rest = [
        r
        for r in (*results, *of_pairs, *of_places)
        if r.verdict not in ("refuted", "equivalent")
    ]
    return [*lines, *(f"| {r.origin} | {r.change} | {r.verdict} | {r.how} |" for r in rest)]


def _result(row: Row) -> Result:
    if "ended" in row:
        origin, _, change = row["key"].partition(": ")
        return Result(origin, change, "survived", row["ended"])
    return Result(row["origin"], row["change"], row["verdict"], row["how"])
