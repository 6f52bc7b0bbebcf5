"""The top of the page: the verdict, what was not verified, the failures, the key numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx_passes.plain import PlainDict
from onnx_passes.report import margins, summary
from onnx_passes.report.console_failure import (
    AFTER,
    BEFORE,
    MISMATCH,
    FailureRows,
    Row,
    blames,
    plain_error,
)
from onnx_passes.report.console_glyphs import Glyphs
from onnx_passes.report.page.region_drawing import drawing
from onnx_passes.report.pass_report import PassReport
from onnx_passes.report.run_report import RunReport
from onnx_passes.report.text import bound, change, duration, plural
from onnx_passes.verify.result import Verdict

_TOLD = FailureRows(Glyphs.of("utf-8"))
_STYLES = {BEFORE: "right", AFTER: "wrong", MISMATCH: "wrong"}
_MOST_SENTENCES = 50
_MOST_FAILURES = 5
_MOST_DRAWN = 2

Fact = tuple[str, str, str]
"""A label, a text, and its style class; "code" for a name from the model."""


def top_of(report: RunReport) -> PlainDict:
    """Return what the template shows above the figures."""
    words = summary.outcome(report)
    failed = [p for p in report.passes if p.verdict is Verdict.FAILED]
    return {
        "words": words,
        "lead": _sentence(report, words),
        "error": plain_error(summary.run_error(report) or ""),
        "rows": _facts(_TOLD.of_result(report)),
        "cards": [_card(done) for done in failed[:_MOST_FAILURES]],
        "more_failed": failed[_MOST_FAILURES:],
        "doubts": _doubts(report),
        "without": _without(report),
        "tiles": list(_tiles(report)),
    }


def _doubts(report: RunReport) -> list[str]:
    """Return what was not verified and why, a sentence each."""
    doubts = [*report.not_verified, *(f"precondition: {p}" for p in report.preconditions)]
    more = len(doubts) - _MOST_SENTENCES
    told = [f"and {more:,} more, in the JSON report"] if more > 0 else []
    return doubts[:_MOST_SENTENCES] + told


def _without(report: RunReport) -> list[tuple[PassReport, str]]:
    """Return passes without a verdict that no sentence names, and why there is none."""
    # A reader who skims must not take an unverified pass for a verified one.
    return [
        (p, summary.verdict_words(p).why)
        for p in report.passes
        if report.verify
        and p.verdict is Verdict.NOT_VERIFIED
        and not any(p.name in told for told in report.not_verified)
    ][:_MOST_SENTENCES]


def _facts(rows: Sequence[Row]) -> list[Fact]:
    return [(label, told, _STYLES.get(label, "")) for label, told in rows]


def _card(done: PassReport) -> PlainDict:
    drawn = (drawing(blame) for blame in blames(done)[:_MOST_DRAWN])
    return {
        "done": done,
        "error": plain_error(done.error or ""),
        "rows": _facts(_TOLD.of_pass(done)),
        "drawings": [sides for sides in drawn if sides is not None],
    }


KeyNumber = tuple[str, str | None, str, str]
"""A key number: what it is, what it was if that is known, what it is now, a remark."""


def _tiles(report: RunReport) -> Iterator[KeyNumber]:
    before, after = report.before, report.after
    if before and after:
        for label, text, old, new in summary.sizes(before, after):
            yield label, text(old), text(new), change(old, new)
        first, last = (str(m.opsets.get("", "none")) for m in (before, after))
        others = sorted((before.opsets.keys() | after.opsets.keys()) - {""})
        yield "Opset", first, last, ", ".join(others[:3])
    changed = sum(p.changed for p in report.passes)
    yield "Passes", None, f"{len(report.passes):,}", f"{changed:,} changed the model"
    applied = summary.rules(summary.kept(report))
    by = f"by {plural(len(applied), 'rule')}" if applied else "in the result"
    yield "Rewrites", None, f"{applied.total():,}", by
    yield "Time", None, duration(report.seconds), summary.times_text(report)
    told = duration(report.verify_seconds) if report.verify else "off"
    yield "Verification", None, told, summary.evidence_text(report)
    worst = margins.margin(margins.all_checks(report))
    if worst is not None:
        told = bound(worst.error) if worst.error else "0"
        yield "Largest error", None, told, worst.share


def _sentence(report: RunReport, words: summary.Words) -> str:
    if words.tone == "bad":
        fate = "nothing was written" if report.output is None else ""
        return "; ".join(filter(None, [words.why, fate]))
    if words.why:
        return words.why
    told = summary.evidence_text(report)
    if not told:
        return "No pass changed what is computed."
    engines = plural(sum(t.passed > 0 for t in summary.tallies(report).values()), "engine")
    return f"{told}. On {engines} no difference is beyond what the passes may change."
