"""One verdict with every seed: of the public rules with known faults, and of right rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onnxscript.rewriter import RewriteRule

from benchmarks.certify.apart import Row, resumed
from benchmarks.certify.correct_rules import correct_rules
from benchmarks.certify.findings import FINDINGS
from benchmarks.certify.public_rules import public_rules
from onnx_passes.verify.rules.rewrite_rule import Job

SEEDS = 10
STOP = 600.0
"""Seconds after which a judgement ends without a verdict."""


def subjects() -> dict[str, RewriteRule]:
    """Return by label the rules with a known fault, and right ones."""
    public = {rule.label: rule.rule for rule in public_rules()}
    faulty = dict.fromkeys(finding.rule for finding in FINDINGS)
    right = {f"right: {rule.name}": rule for rule in correct_rules()}
    return {**{label: public[label] for label in faulty}, **right}


def rows(
    path: Path | None = None, part: tuple[int, int] = (1, 1), seeds: int = SEEDS
) -> list[Row]:
    """Judge each rule with each seed, in a process of its own.

    Args:
        path: Where rows are kept, so that pieces add up.
        part: Which of how many parts.
        seeds: How many seeds.
    """
    rules = subjects()
    work = [(label, seed) for seed in range(seeds) for label in rules]
    return list(
        resumed(
            [f"seed {seed}: {label}" for label, seed in work],
            lambda index: _judged(rules[work[index][0]], *work[index]),
            rows=path,
            part=part,
            seconds=STOP,
        )
    )


def _judged(rule: RewriteRule, label: str, seed: int) -> Row:
    from onnx_passes.verify.rules.certification import verdict_of

    job = Job("seeds:none", 0, "test", STOP, seed)
    found: dict[str, Any] = verdict_of(None, rule, job)
    if found["verdict"] not in ("refuted", "undecided"):
        proof = verdict_of(None, rule, Job("seeds:none", 0, "prove", STOP, seed))
        if proof["verdict"] == "refuted":
            found = proof
    return {"rule": label, "seed": seed, "verdict": found["verdict"], "why": found["reason"]}


def table(found: Sequence[Row]) -> list[str]:
    """Return the verdicts by rule, those that depend on the seed first, as Markdown."""
    verdicts: dict[str, Counter[str]] = {}
    for row in found:
        label = row.get("rule") or row["key"].partition(": ")[2]
        verdicts.setdefault(label, Counter())[row.get("verdict", "undecided")] += 1
    seeds = max((sum(c.values()) for c in verdicts.values()), default=0)
    faulty = {label: c for label, c in verdicts.items() if not label.startswith("right: ")}
    right = {label: c for label, c in verdicts.items() if label.startswith("right: ")}
    refuted = sum(set(c) == {"refuted"} for c in faulty.values())
    accused = sum("refuted" in c for c in right.values())
    lines = [
        "## One verdict with every seed",
        "",
        f"{refuted} of {len(faulty)} public rules with a known fault are refuted with each of "
        f"{seeds} seeds; {accused} of {len(right)} right rules are refuted with any. "
        f"{sum(row['seconds'] for row in found):.0f} s for {len(found)} judgements.",
        "",
        "| Rule | Verdicts |",
        "|---|---|",
    ]
    odd = [(n, c) for n, c in faulty.items() if set(c) != {"refuted"}]
    odd += [(n, c) for n, c in right.items() if "refuted" in c or len(c) > 1]
    text = ", ".join
    return [*lines, *(f"| {n} | {text(f'{k} {v}' for k, v in c.items())} |" for n, c in odd)]
