"""Faults of onnxscript's public rules, each with the smallest model that shows it.

``python -m benchmarks.certify.findings`` prints docs/onnxscript-findings.md.
"""

from __future__ import annotations

import onnxscript

from benchmarks.certify.findings.algebra import ALGEBRA
from benchmarks.certify.findings.elementwise import ELEMENTWISE
from benchmarks.certify.findings.finding import Finding, replay
from benchmarks.certify.findings.fusion import FUSIONS
from onnx_passes.verify.rules.proof import Fault

__all__ = ["FINDINGS", "Finding", "page", "replay"]

FINDINGS = (*ELEMENTWISE, *ALGEBRA, *FUSIONS)


def page() -> list[str]:
    """Return the page of findings as Markdown, with what the replay on this machine shows."""
    lines = [
        "# Faults of onnxscript's public rewrite rules",
        "",
        f"In onnxscript {onnxscript.__version__}; found by `onnx-passes certify` or by "
        "reading the rule, made small, and replayed on ONNX Runtime by a test of this "
        "project.",
        "Each model is valid and runs; the rule's own pattern and guard accept it; "
        "what the rule "
        "makes of it is another value, another shape, an invalid model, or an exception.",
        "The same fault in several rules counts once.",
        "",
        f"{len(FINDINGS)} faults in {len({f.rule for f in FINDINGS})} rules.",
    ]
    for number, finding in enumerate(FINDINGS, 1):
        found = replay(finding)
        assert found is not None, finding
        lines += ["", f"## {number}. `{finding.rule}`", "", _sentence(finding.fault)]
        if finding.also:
            lines += ["", f"Also in {', '.join(f'`{rule}`' for rule in finding.also)}."]
        lines += ["", "```", *_text(found).splitlines(), "```"]
    return lines


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _text(fault: Fault) -> str:
    # Where an engine was built and how it words the rest does not belong to the fault.
    first, *rest = fault.text().splitlines()
    first = first.replace(" (as found)", "").partition(" Status Message:")[0]
    return "\n".join([first, *rest])
