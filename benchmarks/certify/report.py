"""``python -m benchmarks certify``: the yardsticks of rules verified on their own.

TASO's substitutions are read from the file that the variable ``TASO_RULES`` names.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.certify import mutation
from benchmarks.certify.public_rules import public_rules
from onnx_passes.verify.rules.fuzz_child import Job, certify_apart

SUBJECT = "benchmarks.certify.public_rules:everything"
JOBS, SECONDS = 2, 8.0


def tables() -> list[str]:
    """Return the three yardsticks: public rules, TASO's substitutions, mutants."""
    path = os.environ.get("TASO_RULES")
    taso_file = Path(path) if path else None
    return [
        *public_table(certified()),
        "",
        *taso_table(taso_file),
        "",
        *mutation.tables(taso_file),
    ]


def certified(jobs: int = JOBS, only: str = "") -> list[dict[str, Any]]:
    """Test and prove every public rule whose label contains ``only``, each in a process."""
    rules = public_rules()
    chosen = [i for i, public in enumerate(rules) if only in public.label]

    def one(index: int) -> dict[str, Any]:
        found = {}
        for level in ("test", "prove"):
            start = time.perf_counter()
            found[level] = certify_apart(Job(SUBJECT, index, level, SECONDS))
            found[level]["seconds"] = time.perf_counter() - start
        return {"label": rules[index].label, **found}

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, chosen))


def verdict(row: dict[str, Any]) -> str:
    """Return what both levels together say of a rule."""
    said = {row["test"]["verdict"], row["prove"]["verdict"]}
    order = ("refuted", "proved", "tested", "never fired", "undecided")
    return next((v for v in order if v in said), "undecided")


def public_table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the counts by family, and every rule that is not right, as Markdown."""
    families: dict[str, Counter[str]] = {}
    for row in rows:
        family = row["label"].partition(":")[0]
        families.setdefault(family, Counter())[verdict(row)] += 1
    total = sum(families.values(), Counter[str]())
    columns = ("proved", "tested", "refuted", "never fired", "undecided")
    lines = [
        "## onnxscript's public rules",
        "",
        f"| Family | Rules | {' | '.join(columns)} |",
        f"|---|{'---|' * (len(columns) + 1)}",
    ]
    for family, counts in (*families.items(), ("all", total)):
        cells = " | ".join(str(counts[c]) for c in columns)
        lines.append(f"| {family} | {sum(counts.values())} | {cells} |")
    fired = len(rows) - total["never fired"] - total["undecided"]
    times = {k: [row[k]["seconds"] for row in rows] for k in ("test", "prove")}
    median = {k: statistics.median(v) for k, v in times.items()}
    most = {k: max(v) for k, v in times.items()}
    lines += [
        "",
        f"{fired} of {len(rows)} rules fired. Level 2: median {median['test']:.1f} s a rule, "
        f"at most {most['test']:.1f} s; level 1: median {median['prove']:.1f} s, at most "
        f"{most['prove']:.1f} s; {JOBS} at a time, start of the process included.",
        "",
        "| Rule | Verdict | Why |",
        "|---|---|---|",
    ]
    for row in rows:
        said = verdict(row)
        if said in ("refuted", "never fired", "undecided"):
            lines.append(f"| {row['label']} | {said} | {_reason(row, said)} |")
    return lines


def _reason(row: dict[str, Any], said: str) -> str:
    reasons = [row[k]["reason"] for k in ("test", "prove") if row[k]["verdict"] == said]
    return next((r for r in reasons if r), "").replace("|", "/")[:140]


def taso_table(path: Path | None) -> list[str]:
    """Prove TASO's substitutions."""
    title = ["## TASO's substitutions", ""]
    if path is None:
        return [*title, "Not measured: TASO_RULES does not name the file of its rules."]
    from benchmarks import taso
    from onnx_passes.verify.rules import Arithmetic, Outcome

    rules = json.loads(path.read_text())["rules"]
    start = time.perf_counter()
    proofs = [taso.prove(rule, 1) for rule in rules]
    seconds = time.perf_counter() - start
    counts: Counter[str] = Counter()
    for proof in proofs:
        if proof is None:
            counts["no sizes fit"] += 1
            continue
        found = proof[Arithmetic.REAL]
        everywhere = found.coverage is not None and found.coverage.everywhere
        label = str(found.outcome)
        if found.outcome == Outcome.PROVED:
            label += " for all sizes" if everywhere else " for the sizes tried"
        elif found.outcome == Outcome.REFUTED:
            label += " with a replay"
        counts[label] += 1
    text = ", ".join(f"{n} {label}" for label, n in counts.most_common())
    return [*title, f"{len(rules)} rules: {text}, in {seconds:.1f} s."]
