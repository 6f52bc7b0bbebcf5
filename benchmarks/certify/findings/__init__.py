"""Faults of onnxscript's public rules, each with the smallest model that shows it.

``python -m benchmarks.certify.findings`` prints docs/maintainers/onnxscript-findings.md, and
with numbers the models of these.
"""

from __future__ import annotations

import onnxscript

from benchmarks.certify.findings.finding import Finding, findings, replay
from benchmarks.certify.findings.table import TEXT

__all__ = ["FINDINGS", "Finding", "counterexample", "page", "replay"]

FINDINGS = (*findings(TEXT),)
LONGEST = 60


def page() -> list[str]:
    """Return the page of findings as Markdown, with what the replay on this machine shows."""
    lines = [
        "# Faults of onnxscript's public rewrite rules",
        "",
        f"In onnxscript {onnxscript.__version__}; found by `onnx-passes certify` or by "
        "reading the rule, made small, and replayed on ONNX Runtime by a test of this "
        "project.",
        "Each model is valid and runs, and the rule's own pattern and guard accept it. "
        "The last column says what the rule makes of it.",
        "The same fault in several rules counts once. "
        "`python -m benchmarks.certify.findings NUMBER` prints the models before and after.",
        "",
        f"{len(FINDINGS)} faults in {len({f.rule for f in FINDINGS})} rules.",
        "",
        "| | rule, and others with the fault | fault | shown by |",
        "|---|---|---|---|",
    ]
    for number, finding in enumerate(FINDINGS, 1):
        rules = ", ".join(f"`{rule}`" for rule in (finding.rule, *finding.also))
        shown = counterexample(finding)[0][:LONGEST].replace("|", "\\|")
        fault = f"{finding.fault[0].upper()}{finding.fault[1:]}"
        lines.append(f"| {number} | {rules} | {fault} | {shown} |")
    return lines


def counterexample(finding: Finding) -> list[str]:
    """Return what a fault shows, and the models before and after."""
    found = replay(finding)
    assert found is not None, finding
    # Where an engine was built and how it words the rest does not belong to the fault.
    first, *rest = found.text().splitlines()
    return [first.replace(" (as found)", "").partition(" Status Message:")[0], *rest]
