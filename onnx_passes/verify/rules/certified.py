"""What a certificate says, in a word for a table and in a line for a page."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from onnx_passes.plain import PlainDict, PlainMapping
from onnx_passes.verify.rules.proof import CUTS

VERDICTS = ("proved", "tested", "never fired", "undecided", "refuted")
"""From the strongest to the weakest."""


def read_certificates(folder: Path) -> dict[str, PlainDict]:
    """Return the certificates of a folder by pass, as they are: not checked to be fresh."""
    return {
        path.stem: json.loads(path.read_text("utf-8"))
        for path in sorted(folder.glob("*.json"))
    }


def level(content: PlainMapping) -> str:
    """Return the verdicts on the rules of a pass: ``proved``, or ``proved 3, tested 1``."""
    counts = Counter(str(rule["verdict"]) for rule in content["rules"])
    found = [verdict for verdict in VERDICTS if counts[verdict]]
    if len(found) == 1:
        return found[0]
    return ", ".join(f"{verdict} {counts[verdict]}" for verdict in found)


def line(content: PlainMapping) -> str:
    """Return what the verdicts of a certificate rest on, in one line."""
    rules = content["rules"]
    tests = [rule.get("tested") or {} for rule in rules]
    models, firings = (sum(t.get(key, 0) for t in tests) for key in ("models", "firings"))
    opsets = sorted({int(o) for t in tests for o in t.get("opsets", {})})
    types = {name for t in tests for name in t.get("dtypes", {})}
    if any("changed" in test for test in tests):
        changed, kind = sum(test["changed"] for test in tests), _count(models, "random model")
        return f"**{level(content)}** on {kind}, of which it changed {changed:,}"
    parts = [f"**{level(content)}** ({_count(len(rules), 'rule')})"]
    if any(rule["verdict"] == "proved" for rule in rules):
        templates = sum(
            (r.get("proof") or {}).get("templates", 0)
            for r in rules
            if r["verdict"] == "proved"
        )
        parts.append(f"proofs on {_count(templates, 'template')} {_coverage(rules)}")
    if models:
        parts.append(
            f"property test with {_count(firings, 'firing')} on {_count(models, 'model')} of "
            f"opsets {opsets[0]} to {opsets[-1]} and {_count(len(types), 'element type')}"
        )
    errors = [e["rtol"] for t in tests for e in t.get("errors", {}).values()]
    if errors:
        parts.append(f"largest error {max(errors):.1g} of the largest element")
    if any(rule.get("assumes") for rule in rules):
        parts.append("finite inputs only")
    return "; ".join(parts)


def _coverage(rules: list[PlainDict]) -> str:
    """Say whether the proofs hold for every size, or for the shapes of the templates alone."""
    judgements = [
        judgement
        for rule in rules
        if rule["verdict"] == "proved"
        for judgement in (rule.get("proof") or {}).get("judgements", [])
        if judgement["outcome"] == "proved" and judgement["arithmetic"] != "ieee"
    ]
    everywhere = [bool(j["coverage"] and j["coverage"]["everywhere"]) for j in judgements]
    if everywhere and all(everywhere):
        cut = any(CUTS in j["coverage"].get("conditions", ()) for j in judgements)
        return f"for all sizes{' where Split and Slice cut as in these' if cut else ''}"
    return "some for all sizes, some for their own" if any(everywhere) else "of given sizes"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
