"""The passes of the page: a line each, which opens to its checks and rewrites."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx_passes.plain import PlainDict
from onnx_passes.report import margins, summary
from onnx_passes.report.page.overview import Fact
from onnx_passes.report.pass_report import PassReport, RewriteSummary
from onnx_passes.report.text import bound, change, duration, number, percent, plural, size
from onnx_passes.verify.result import Check, Verdict

# What a page may hold: some megabytes, however long the run.
_MOST_PASSES = 2000
_MOST_CHECKS = 30
_MOST_OUTPUTS = 10
_MOST_BUDGETS = 5
_MOST_REWRITES_OF_PASS = 50
_MOST_REWRITES = 3000


def passes_of(all_passes: list[PassReport], above: set[int]) -> PlainDict:
    """Return what the template shows of the passes.

    Args:
        all_passes: Every pass of the run.
        above: Indices of those whose failure is on the page already.
    """
    shown = _chosen(all_passes)
    rewrites = _Rewrites()
    rows = [_row(done, rewrites, above=done.index in above) for done in shown]
    counts = ((len(all_passes) - len(shown), "pass"), (rewrites.left_out, "rewrite"))
    return {"passes": rows, "left_out": [plural(n, noun) for n, noun in counts if n]}


def _chosen(all_passes: list[PassReport]) -> list[PassReport]:
    if len(all_passes) <= _MOST_PASSES:
        return all_passes
    # Those that need a reader's eye come before those that do not.
    urgent = {Verdict.FAILED: 0, Verdict.NOT_VERIFIED: 1}
    ranked = sorted(
        all_passes, key=lambda p: (urgent.get(p.verdict, 2), not p.changed, p.index)
    )
    return sorted(ranked[:_MOST_PASSES], key=lambda p: p.index)


class _Rewrites:
    """Hands out the room for rewrites, and counts what found none."""

    def __init__(self) -> None:
        self.room, self.left_out = _MOST_REWRITES, 0

    def take(self, done: PassReport) -> list[RewriteSummary]:
        culprits = {r.number for r in summary.blamed(done)}
        first = sorted(done.rewrites, key=lambda r: (r.number not in culprits, r.number))
        taken = first[: min(_MOST_REWRITES_OF_PASS, self.room)]
        self.room -= len(taken)
        self.left_out += len(done.rewrites) - len(taken)
        return sorted(taken, key=lambda r: r.number)


def _row(done: PassReport, rewrites: _Rewrites, *, above: bool) -> PlainDict:
    nodes = f"{done.nodes_before:,}"
    if done.nodes_after != done.nodes_before:
        nodes += f" → {done.nodes_after:,}"
    taken = rewrites.take(done)
    # Failures first, so that the cap never hides one.
    ranked = sorted(done.checks, key=lambda c: c.verdict is not Verdict.FAILED)[:_MOST_CHECKS]
    return {
        "done": done,
        "words": summary.verdict_words(done),
        "above": above,
        "nodes": nodes,
        "facts": list(_facts(done)),
        "checks": [check_row(check) for check in ranked],
        "more_checks": _more(done.checks, ranked, "check"),
        "rewrites": taken,
        "more_rewrites": _more(done.rewrites, taken, "rewrite"),
        "culprits": {r.number for r in summary.blamed(done)} if done.error else set(),
    }


def _more(every: Sequence[object], shown: Sequence[object], noun: str) -> str:
    more = len(every) - len(shown)
    return plural(more, noun) if more else ""


def _facts(done: PassReport) -> Iterator[Fact]:
    yield "contract", done.contract, ""
    claim = "changed it" if done.claimed else "left it as it was"
    fact = "changed" if done.changed else "unchanged"
    agree = "" if done.claimed == done.changed else f", though the pass said that it {claim}"
    yield "the model", f"{fact}{agree}", ""
    if done.verdict is Verdict.FAILED:
        yield "then", done.action, ""
    if done.bytes_before != done.bytes_after:
        by = change(done.bytes_before, done.bytes_after)
        told = f"{size(done.bytes_before)} → {size(done.bytes_after)}"
        yield "weights", f"{told} ({by})" if by else told, ""
    seconds = f"{duration(done.pass_seconds)} in the pass"
    checked = f", {duration(done.verify_seconds)} in verification" if done.checks else ""
    yield "time", seconds + checked, ""
    worst = margins.margin(done.checks)
    if worst is not None and worst.error:
        limit = f" of {number(worst.limit, 3)} allowed" if worst.limit else ""
        yield "error", f"{bound(worst.error)}{limit}, {worst.share}", ""
    if done.budget_spent is not None:
        yield "budget", f"{number(100 * done.budget_spent, 2)} % spent after this pass", ""
    for check in done.checks:
        for spent in check.budget[:_MOST_BUDGETS]:
            told = f"{percent(spent.total)} spent, this pass {percent(spent.step)}"
            told += f", all steps {percent(spent.summed)}, limit {number(spent.limit, 3)}"
            yield "budget of", f"{spent.output}: {told}", "code"
    if done.reproducer:
        yield "reproducer", done.reproducer, "code"


def check_row(check: Check) -> PlainDict:
    """Return a check as the page shows it."""
    worst = margins.margin([check])
    scope = f", {check.scope}" if check.engine else ""
    sample = f", sample {check.sample}" if check.sample is not None else ""
    wrong = [output for output in check.outputs if not output.passed]
    return {
        "check": check,
        "what": f"{check.kind}{scope}{sample}",
        "words": summary.check_words(check),
        "error": "" if worst is None else worst.told if worst.error else "0",
        "outputs": wrong[:_MOST_OUTPUTS],
        "more": _more(wrong, wrong[:_MOST_OUTPUTS], "output"),
    }
