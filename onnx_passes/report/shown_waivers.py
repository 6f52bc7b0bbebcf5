"""Waivers as every report shows them."""

from __future__ import annotations

from onnx_passes.report.run_report import RunReport, WaiverReport


def waiver_sentences(report: RunReport) -> list[str]:
    """Return each waiver of the pipeline file, and what became of it in this run."""
    return [
        f"waiver of {w.what}{'' if w.model == '*' else f' on {w.model}'}, {_became(w)}: "
        f"{w.reason}"
        for w in report.waivers
    ]


def _became(waiver: WaiverReport) -> str:
    if waiver.expired:
        return f"expired {waiver.expires}, and does not count"
    end = f"until {waiver.expires}" if waiver.expires else "without an end"
    return f"{'used' if waiver.used else 'not used'}, {end}"
