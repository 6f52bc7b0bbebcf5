"""Every third planted fault, judged on one engine alone.

    python -m benchmarks faults-on openvino
    python -m benchmarks faults-on onnxruntime
    python -m benchmarks faults-on openvino other

Prints a row for each fault that is not caught by default and named, or whose right twin fails,
and the counts. With ``seen`` or ``other`` it runs that half, and of the other half it prints
the counts alone, so that nobody mends by its rows. A right twin is accused where a check other
than of kind ``engine`` fails, or a rewrite is named.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.faults import runner
from benchmarks.faults.case import Fault
from benchmarks.faults.suite import FAULTS
from onnx_passes.report.run_report import RunReport
from onnx_passes.verify.evidence import ENGINE, Verdict

THIRD = 3
HALVES = {"seen": FAULTS[::THIRD][::2], "other": FAULTS[::THIRD][1::2]}


@dataclass(frozen=True)
class Row:
    """What one engine made of a fault.

    Attributes:
        fault: The fault.
        seen: What was made of it by default.
        caught: Whether a check refused it, by default or under the setting that it needs.
        applications: Number of rewrites of the right twin.
        twin: What was made of the right twin: "fine", "engine" or "accused".
        reason: Why the twin failed.
    """

    fault: Fault
    seen: runner.Seen
    caught: bool
    applications: int
    twin: str
    reason: str


def tables(words: list[str]) -> list[str]:
    """Return the lines of the report on the engine, and the half, that the words name."""
    engine, *half = words
    for settings in runner.SETTINGS.values():
        settings["engines"] = [engine]
    rows = [_row(fault) for fault in (HALVES[half[0]] if half else FAULTS[::THIRD])]
    shown = [
        row
        for row in rows
        if not row.seen.caught or row.seen.named in ("wrong", "none") or row.twin != "fine"
    ]
    shown = [] if half == ["other"] else shown
    lines = ["| fault | needs | by default | named | caught | right twin |", "|" + "---|" * 6]
    lines += [
        f"| {r.fault.name} | {r.fault.needs} | {r.seen.verdict} | {r.seen.named} | "
        f"{'yes' if r.caught else 'no'} | {r.twin}{f': {r.reason}' if r.reason else ''} |"
        for r in shown
    ]
    named = [r.seen.named for r in rows if r.seen.caught and r.seen.named != "-"]
    kinds = [row.twin for row in rows]
    default = sum(row.seen.caught for row in rows)
    return [
        *lines,
        "",
        f"- {engine}: {len(rows)} faults, caught by default {default}, "
        f"in all {sum(r.caught for r in rows)}; named {named.count('right')} of {len(named)}.",
        f"- Right twins: {sum(r.applications for r in rows)} applications, "
        f"{kinds.count('accused')} accused, {kinds.count('engine')} charged to the engine.",
    ]


def _row(fault: Fault) -> Row:
    clean = runner.run(fault, "", full=False)
    at = runner.chosen(fault, clean)
    seen = runner.judge(runner.run(fault, at, full=False), fault, at)
    caught = seen.caught
    others = (fault.needs, *(("given",) if fault.feeds else ()))
    for setting in dict.fromkeys(others):
        if not caught and setting != "default":
            found = runner.run(fault, at, full=False, setting=setting)
            caught = runner.judge(found, fault, at).caught
    twin, reason = _twin(clean.report)
    count = len(clean.report.passes[0].rewrites)
    return Row(fault, seen, caught, count, twin, reason)


def _twin(report: RunReport) -> tuple[str, str]:
    checks = [*report.passes[0].checks, *report.final]
    failed = [check for check in checks if check.verdict is Verdict.FAILED]
    if not failed and not report.blame:
        return "fine", ""
    charged = all(check.kind == ENGINE for check in failed) and not report.blame
    return ("engine" if charged else "accused"), str(failed[0].reason if failed else "")[:160]
