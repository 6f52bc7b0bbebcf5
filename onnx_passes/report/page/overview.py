"""The top of the page: the verdict, what was not verified, the failures, the key numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx_passes.report import margins, summary
from onnx_passes.report.console_failure import (
    AFTER,
    BEFORE,
    MISMATCH,
    Row,
    blames,
    failure_rows,
    final_rows,
)
from onnx_passes.report.console_glyphs import Glyphs
from onnx_passes.report.page.markup import Element, named, tag
from onnx_passes.report.page.region_drawing import drawing
from onnx_passes.report.pass_report import PassReport
from onnx_passes.report.run_report import RunReport
from onnx_passes.report.text import bound, change, duration, number, plural, size
from onnx_passes.verify.result import Verdict

_GLYPHS = Glyphs.of("utf-8")
_SIGNS = {"good": "✓", "bad": "✗", "warn": "!", "plain": "·"}
_MOST_SENTENCES = 50
_MOST_FAILURES = 5
_MOST_DRAWN = 2


def badge(words: summary.Words) -> Element:
    """Return a verdict with its sign, so that colour is never the only difference."""
    sign = tag("span", _SIGNS[words.tone], class_="sign", aria_hidden="true")
    return tag("span", sign, words.head, class_=f"verdict {words.tone}")


def hero(report: RunReport) -> Element:
    """Return the header: which model, which verdict."""
    words = summary.outcome(report)
    goal = (" → ", named(report.output)) if report.output else None
    return tag(
        "header",
        tag(
            "p",
            tag("strong", "onnx-passes"),
            f" {version}" if (version := report.versions.get("onnx-passes")) else None,
            tag("span", report.started.replace("T", " ", 1), class_="when"),
            class_="brand",
        ),
        tag("h1", badge(words)),
        tag("p", named(report.model), goal, class_="models"),
        tag("p", _sentence(report, words), class_="lead"),
        class_=f"hero {words.tone}",
    )


def warnings(report: RunReport) -> Element | None:
    """Return what was not verified and why."""
    doubts = [*report.not_verified, *(f"precondition: {p}" for p in report.preconditions)]
    sentences = [tag("li", told) for told in doubts[:_MOST_SENTENCES]]
    more = len(doubts) - len(sentences)
    if more > 0:
        sentences.append(tag("li", f"and {more:,} more, in the JSON report"))
    # A reader who skims must not take an unverified pass for a verified one.
    listed = [
        tag("li", tag("a", named(p.name), href=f"#pass-{p.index}"), _because(p))
        for p in report.passes
        if report.verify
        and p.verdict is Verdict.NOT_VERIFIED
        and not any(p.name in told for told in report.not_verified)
    ][:_MOST_SENTENCES]
    if not sentences and not listed and report.verify:
        return None
    off = tag(
        "p", "Verification was off. Nothing that these passes did was checked.", class_="loud"
    )
    return tag(
        "section",
        tag("h2", "Not verified"),
        None if report.verify else off,
        tag("ul", sentences) if sentences else None,
        [tag("h3", "Passes without a verdict"), tag("ul", listed)] if listed else None,
        class_="card warn",
        id="not-verified",
    )


def in_full(report: RunReport) -> list[PassReport]:
    """Return the failed passes that have a card of their own."""
    return [p for p in report.passes if p.verdict is Verdict.FAILED][:_MOST_FAILURES]


def failures(report: RunReport) -> Iterator[Element]:
    """Yield a card for every failure, the first ones in full."""
    error = summary.run_error(report)
    rows = _rows(final_rows(report, _GLYPHS))
    if error or rows:
        yield tag(
            "section",
            tag("h2", "The run failed"),
            tag("pre", error) if error else None,
            tag("dl", rows, class_="facts") if rows else None,
            class_="card bad",
        )
    failed = [p for p in report.passes if p.verdict is Verdict.FAILED]
    for done in in_full(report):
        yield _failure(done)
    if len(failed) > _MOST_FAILURES:
        rest = failed[_MOST_FAILURES:]
        links = [(" ", tag("a", named(p.name), href=f"#pass-{p.index}")) for p in rest[:50]]
        yield tag(
            "section",
            tag("p", f"and {plural(len(rest), 'pass')} more failed:", links),
            class_="card bad",
        )


def _rows(rows: Sequence[Row]) -> list[list[Element]]:
    kinds = {BEFORE: "old", AFTER: "new", MISMATCH: "wrong"}
    return [[tag("dt", k), tag("dd", told, class_=kinds.get(k))] for k, told in rows]


def _failure(done: PassReport) -> Element:
    rows = _rows(failure_rows(done, _GLYPHS))
    drawn = (drawing(blame) for blame in blames(done)[:_MOST_DRAWN])
    return tag(
        "section",
        tag("h2", tag("a", named(done.name), href=f"#pass-{done.index}"), " failed"),
        tag("pre", done.error) if done.error else None,
        tag("dl", rows, class_="facts"),
        list(drawn),
        class_="card bad",
        id=f"failure-{done.index}",
    )


def tiles(report: RunReport) -> Element:
    """Return the key numbers."""
    return tag("ul", _tiles(report), class_="tiles")


def _tiles(report: RunReport) -> Iterator[Element]:
    before, after = report.before, report.after
    if before and after:
        yield _tile(
            "Nodes", f"{before.nodes:,}", f"{after.nodes:,}", change(before.nodes, after.nodes)
        )
        yield _tile(
            "Weights",
            size(before.weight_bytes),
            size(after.weight_bytes),
            change(before.weight_bytes, after.weight_bytes),
        )
        old, new = before.opsets.get("", "none"), after.opsets.get("", "none")
        others = sorted((before.opsets.keys() | after.opsets.keys()) - {""})
        yield _tile("Opset", str(old), str(new), ", ".join(others[:3]))
    changed = sum(p.changed for p in report.passes)
    yield _tile("Passes", None, f"{len(report.passes):,}", f"{changed:,} changed the model")
    applied = summary.rules(report.passes)
    yield _tile("Rewrites", None, f"{applied.total():,}", f"by {plural(len(applied), 'rule')}")
    yield _tile(
        "Time in passes",
        None,
        duration(report.pass_seconds),
        f"of {duration(report.seconds)} in all",
    )
    told = duration(report.verify_seconds) if report.verify else "off"
    yield _tile("Verification", None, told, _checks(report))
    worst = margins.margin(margins.all_checks(report))
    if worst is not None:
        yield _tile(
            "Largest error", None, bound(worst.error) if worst.error else "0", share(worst)
        )


def share(margin: margins.Margin) -> str:
    """Return an error as a share of what was allowed, in words."""
    if margin.error == 0:
        return "equal bit for bit"
    if margin.limit is None:
        return "limit not recorded"
    if margin.limit == 0:
        return "none was allowed"
    percent = 100 * margin.ratio
    if percent > 1000:
        return f"{number(margin.ratio, 2)} times the limit"
    return f"{number(percent, 2) if percent < 100 else round(percent)} % of the limit"


def _tile(label: str, before: str | None, after: str, aside: str) -> Element:
    moved = before is not None and before != after
    old = (
        [tag("span", before, class_="was"), tag("span", " → ", class_="was")]
        if moved
        else None
    )
    return tag(
        "li",
        tag("span", label, class_="key"),
        tag("span", old, after, class_="value"),
        tag("span", aside, class_="aside"),
    )


def _checks(report: RunReport) -> str:
    made = [c for c in margins.all_checks(report) if c.verdict is not Verdict.NOT_VERIFIED]
    return plural(len(made), "check") if made else "nothing was checked"


def _sentence(report: RunReport, words: summary.Words) -> str:
    if words.tone == "bad":
        return words.why
    if words.why:
        return f"{words.why[0].upper()}{words.why[1:]}."
    engines = plural(sum(t.passed > 0 for t in summary.tallies(report).values()), "engine")
    changed = plural(sum(p.changed for p in report.passes), "pass")
    return (
        f"{changed} changed the model; {_checks(report)} on {engines} found no difference "
        "beyond what their contracts allow."
    )


def _because(done: PassReport) -> str:
    why = summary.verdict_words(done).why
    return f": {why}" if why else ""
