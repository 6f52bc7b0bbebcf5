"""``python -m benchmarks certify``: the yardsticks of rules verified on their own.

All three, or one of them, in pieces whose rows add up in a file:

    python -m benchmarks certify public --rows rows.jsonl --part 1/4
    python -m benchmarks certify mutants --rows rows.jsonl --part 1/4

A row is judged again if the verifier has changed since. TASO's substitutions are read from the
file that the variable ``TASO_RULES`` names.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.certify import mutation, seeds
from benchmarks.certify.apart import Row, resumed
from benchmarks.certify.public_rules import PublicRule, public_rules
from onnx_passes.verify.rules.rewrite_rule import Job

SUBJECT = "benchmarks.certify.public_rules:everything"
SECONDS, MODELS = 600.0, 100
"""For the property test of one rule: the models are the budget, the seconds only stop."""

YARDSTICKS = ("public", "seeds", "taso", "mutants", "places")


def tables(arguments: Sequence[str] = ()) -> list[str]:
    """Return the yardsticks that are named: public rules, TASO's substitutions, mutants."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks certify")
    parser.add_argument("only", nargs="*", default=[], help=f"of {', '.join(YARDSTICKS)}")
    parser.add_argument("--part", default="1/1", help="which of how many parts, such as 1/4")
    parser.add_argument("--rows", type=Path, help="JSON lines that pieces add up in")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.only if name not in YARDSTICKS]:
        parser.error(f"no yardstick {unknown[0]!r}; there are {', '.join(YARDSTICKS)}")
    part = part_of(given.part)
    path = os.environ.get("TASO_RULES")
    taso_file = Path(path) if path else None
    wanted = given.only or YARDSTICKS
    lines: list[str] = []
    if "public" in wanted:
        lines += [*public_table(certified(given.rows, part)), ""]
    if "seeds" in wanted:
        lines += [*seeds.table(seeds.rows(given.rows, part)), ""]
    if "taso" in wanted:
        lines += [*taso_table(taso_file), ""]
    if "mutants" in wanted or "places" in wanted:
        rows = mutation.rule_rows(rows=given.rows, part=part) if "mutants" in wanted else []
        places = mutation.place_rows(given.rows, part) if "places" in wanted else []
        # A few seconds in all: with the first part.
        taken = taso_file and part[0] == 1 and "mutants" in wanted
        pairs = mutation.pair_rows(taso_file) if taso_file and taken else []
        lines += mutation.table(rows, pairs, places)
    return lines


def part_of(text: str) -> tuple[int, int]:
    """Return part and parts of a text such as "1/4"."""
    number, _, parts = text.partition("/")
    if not (number.isdigit() and parts.isdigit() and 1 <= int(number) <= int(parts)):
        raise SystemExit(f"{text!r} is no part: give one such as 1/4")
    return int(number), int(parts)


def certified(rows: Path | None = None, part: tuple[int, int] = (1, 1)) -> list[Row]:
    """Test and prove the public rules of one part, each in a process of its own."""
    logging.getLogger("onnx_ir").setLevel(logging.CRITICAL)
    rules = public_rules()
    labels = [rule.label for rule in rules]
    return list(
        resumed(
            labels,
            lambda index: _judged(rules[index], index),
            rows=rows,
            part=part,
            seconds=SECONDS,
        )
    )


def _judged(public: PublicRule, index: int) -> Row:
    from onnx_passes.verify.rules.certification import verdict_of

    row: Row = {"label": public.label, "code": public.code}
    for level in ("test", "prove"):
        start = time.perf_counter()
        job = Job(SUBJECT, index, level, SECONDS, models=MODELS)
        row[level] = verdict_of(None, public.rule, job)
        row[level]["seconds"] = time.perf_counter() - start
    return row


def verdict(row: Row) -> str:
    """Return what both levels together say of a rule."""
    if "ended" in row:
        return "undecided"
    said = {row["test"]["verdict"], row["prove"]["verdict"]}
    if "refuted" in said:
        return "arguable" if _arguable(row) else "refuted"
    order = ("proved", "tested", "never fired", "undecided")
    return next((v for v in order if v in said), "undecided")


def _arguable(row: Row) -> bool:
    wrong = [row[k] for k in ("test", "prove") if row[k]["verdict"] == "refuted"]
    return all(found["arguable"] for found in wrong)


def distinct(rows: Sequence[Row]) -> int:
    """Return how many different faults there are, with those of one cause counted once.

    One cause is one piece of code (a class, or the functions of a factory) and one sort of
    harm: values, the model, or the rule itself.
    """
    wrong = [row for row in rows if verdict(row) == "refuted"]
    return len({(row["code"], _harm(row)) for row in wrong})


def _harm(row: Row) -> str:
    sort = str(row["test"].get("sort", ""))
    return sort.partition(";")[0] if sort.startswith(("engine", "model")) else "values"


def public_table(rows: Sequence[Row]) -> list[str]:
    """Return the counts by family, and every rule that is not right, as Markdown."""
    families: dict[str, Counter[str]] = {}
    for row in rows:
        family = row["key"].partition(":")[0]
        families.setdefault(family, Counter())[verdict(row)] += 1
    total = sum(families.values(), Counter[str]())
    columns = ("proved", "tested", "refuted", "arguable", "never fired", "undecided")
    lines = [
        "## onnxscript's public rules",
        "",
        f"| Family | Rules | {' | '.join(columns)} |",
        f"|---|{'---|' * (len(columns) + 1)}",
    ]
    for family, counts in (*families.items(), ("all", total)):
        cells = " | ".join(str(counts[c]) for c in columns)
        lines.append(f"| {family} | {sum(counts.values())} | {cells} |")
    judged = [row for row in rows if "ended" not in row]
    fired = [row for row in judged if row["test"]["verdict"] != "never fired"]
    clean = [row for row in fired if row["test"]["verdict"] == "tested"]
    lines += [
        "",
        f"{len(fired)} of {len(rows)} rules fired, {len(clean)} of them were tested clean; "
        f"{distinct(rows)} distinct causes among the {total['refuted']} refuted. "
        '"Arguable": refuted only by a constant that the pattern or guard takes for another '
        f"within a tolerance. {_times(judged)}",
        "",
        "| Rule | Verdict | Why |",
        "|---|---|---|",
    ]
    for row in rows:
        said = verdict(row)
        if said not in ("proved", "tested"):
            lines.append(f"| {row['key']} | {said} | {_reason(row)} |")
    return lines


def _times(judged: Sequence[Row]) -> str:
    if not judged:
        return ""
    times = {k: [row[k]["seconds"] for row in judged] for k in ("test", "prove")}
    said = [
        f"level {n}: median {statistics.median(times[k]):.2f} s a rule, "
        f"at most {max(times[k]):.1f} s"
        for n, k in ((2, "test"), (1, "prove"))
    ]
    return f"{said[0]}; {said[1]}; one at a time, imports left out."


def _reason(row: Row) -> str:
    if "ended" in row:
        return str(row["ended"])
    said = "refuted" if verdict(row) == "arguable" else verdict(row)
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
