"""The passes of the page: a line each, which opens to its checks and rewrites."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx_passes.report import margins, summary
from onnx_passes.report.console_failure import limits
from onnx_passes.report.page.markup import Child, Element, named, tag
from onnx_passes.report.page.overview import badge, in_full, share
from onnx_passes.report.page.table import table
from onnx_passes.report.pass_report import PassReport, RewriteSummary
from onnx_passes.report.run_report import RunReport
from onnx_passes.report.text import bound, change, duration, number, percent, plural, size
from onnx_passes.verify.result import Check, OutputCheck, Verdict

# What a page may hold: some megabytes, however long the run.
_MOST_PASSES = 2000
_MOST_CHECKS = 30
_MOST_OUTPUTS = 10
_MOST_BUDGETS = 5
_MOST_REWRITES_OF_PASS = 50
_MOST_REWRITES = 3000
_MOST_NODES = 8


def passes(report: RunReport) -> Element | None:
    """Return the list of passes, with a choice what to show."""
    if not report.passes:
        return None
    shown = _chosen(report.passes)
    rewrites = _Rewrites()
    above = {done.index for done in in_full(report)}
    rows = [_row(done, rewrites, above=done.index in above) for done in shown]
    left = len(report.passes) - len(shown)
    notes = []
    if left:
        notes.append(f"{plural(left, 'pass')} are left out here, and are in the JSON report.")
    if rewrites.left_out:
        told = plural(rewrites.left_out, "rewrite")
        notes.append(f"{told} are left out here, and are in the JSON report.")
    choices = [("all", "All"), ("changed", "Changed"), ("open", "Failed or not verified")]
    return tag(
        "section",
        tag("h2", "Passes"),
        tag(
            "fieldset",
            tag("legend", "Show", class_="hidden"),
            [
                tag(
                    "label",
                    tag(
                        "input",
                        type="radio",
                        name="show",
                        id=f"show-{key}",
                        checked=key == "all",
                    ),
                    told,
                )
                for key, told in choices
            ],
            class_="choices",
        ),
        tag("div", _heads(), rows, class_="passes"),
        [tag("p", note, class_="caption") for note in notes],
        id="passes",
    )


def _chosen(all_passes: list[PassReport]) -> list[PassReport]:
    if len(all_passes) <= _MOST_PASSES:
        return all_passes
    # Those that need a reader's eye come before those that do not.
    urgent = {Verdict.FAILED: 0, Verdict.NOT_VERIFIED: 1}
    ranked = sorted(
        all_passes, key=lambda p: (urgent.get(p.verdict, 2), not p.changed, p.index)
    )
    return sorted(ranked[:_MOST_PASSES], key=lambda p: p.index)


def _heads() -> Element:
    names = ["#", "Pass", "Nodes", "Rewrites", "Time", "Verdict"]
    return tag("div", [tag("span", n) for n in names], class_="pass heads", aria_hidden="true")


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


def _row(done: PassReport, rewrites: _Rewrites, *, above: bool) -> Element:
    words = summary.verdict_words(done)
    kinds = ["changed"] if done.changed else []
    kinds += ["open"] if words.tone in ("bad", "warn") else []
    group = tag("span", done.group, " / ", class_="group") if done.group else None
    nodes = f"{done.nodes_before:,}"
    if done.nodes_after != done.nodes_before:
        nodes += f" → {done.nodes_after:,}"
    applied = f"{len(done.rewrites):,}" if done.rewrites else ""
    return tag(
        "details",
        tag(
            "summary",
            tag("span", str(done.index + 1), class_="number"),
            tag("span", group, named(done.name), class_="name"),
            tag(
                "span",
                tag("span", nodes, _unit(" nodes"), class_="nodes"),
                tag("span", applied, _unit(" rewrites" if applied else ""), class_="count"),
                tag("span", duration(done.pass_seconds + done.verify_seconds), class_="time"),
                class_="numbers",
            ),
            badge(words),
            class_="pass",
        ),
        tag("div", _details(done, rewrites, above=above), class_="inside"),
        class_=" ".join(["row", *kinds]),
        id=f"pass-{done.index}",
        open=words.tone == "bad",
    )


def _unit(text: str) -> Element:
    return tag("span", text, class_="unit")


def _details(done: PassReport, rewrites: _Rewrites, *, above: bool) -> Iterator[Element]:
    if above:
        yield tag("p", tag("a", "What failed is said above.", href=f"#failure-{done.index}"))
    elif done.error:
        yield tag("pre", done.error, class_="error")
    yield tag("dl", [[tag("dt", k), tag("dd", v)] for k, v in _facts(done)], class_="facts")
    for note in done.notes:
        yield tag("p", note)
    if done.checks:
        yield _checks(done.checks)
    if done.rewrites:
        yield _applied(done, rewrites.take(done))


def _facts(done: PassReport) -> Iterator[tuple[str, str | Element]]:
    yield "contract", done.contract
    claim = "changed it" if done.claimed else "left it as it was"
    fact = "changed" if done.changed else "unchanged"
    agree = "" if done.claimed == done.changed else f", though the pass said that it {claim}"
    yield "the model", f"{fact}{agree}"
    if done.verdict is Verdict.FAILED:
        yield "then", done.action
    if done.bytes_before != done.bytes_after:
        by = change(done.bytes_before, done.bytes_after)
        told = f"{size(done.bytes_before)} → {size(done.bytes_after)}"
        yield "weights", f"{told} ({by})" if by else told
    seconds = f"{duration(done.pass_seconds)} in the pass"
    checked = f", {duration(done.verify_seconds)} in verification" if done.checks else ""
    yield "time", seconds + checked
    worst = margins.margin(done.checks)
    if worst is not None and worst.error:
        limit = f" of {number(worst.limit, 3)} allowed" if worst.limit else ""
        yield "error", f"{bound(worst.error)}{limit}, {share(worst)}"
    if done.budget_spent is not None:
        yield "budget", f"{number(100 * done.budget_spent, 2)} % spent after this pass"
    for check in done.checks:
        for spent in check.budget[:_MOST_BUDGETS]:
            told = f"{percent(spent.total)} spent, this pass {percent(spent.step)}"
            told += f", all steps {percent(spent.summed)}, limit {number(spent.limit, 3)}"
            yield "budget of", named(f"{spent.output}: {told}")
    if done.reproducer:
        yield "reproducer", named(done.reproducer)


def _checks(checks: list[Check]) -> Element:
    # Failures first, so that the cap never hides one.
    ranked = sorted(checks, key=lambda c: c.verdict is not Verdict.FAILED)[:_MOST_CHECKS]
    rows = [row for check in ranked for row in _check(check)]
    more = len(checks) - len(ranked)
    if more > 0:
        rows.append(tag("span", f"and {plural(more, 'check')} more"))
    return check_table(rows)


def check_table(rows: Sequence[Sequence[Child] | Element]) -> Element:
    """Return a table of the rows that :func:`check_row` gives."""
    return table("Checks", ["Check", "Engine", "Verdict", "Largest error", "Time"], rows)


def _check(check: Check) -> Iterator[Sequence[Child] | Element]:
    yield check_row(check)
    told = summary.check_words(check).why
    wrong = [o for o in check.outputs if not o.passed]
    for output in wrong[:_MOST_OUTPUTS]:
        yield tag("span", _output(output, told))
    if len(wrong) > _MOST_OUTPUTS:
        yield tag("span", f"and {plural(len(wrong) - _MOST_OUTPUTS, 'output')} more")


def check_row(check: Check) -> list[Child]:
    """Return the cells of a check."""
    words = summary.check_words(check)
    worst = margins.margin([check])
    scope = f", {check.scope}" if check.engine else ""
    sample = f", sample {check.sample}" if check.sample is not None else ""
    why = tag("span", words.why, class_="why") if words.why else None
    error = "" if worst is None else f"{bound(worst.error)}, {share(worst)}"
    return [
        f"{check.kind}{scope}{sample}",
        check.engine or "",
        (badge(words), why),
        error if worst and worst.error else "0" if worst else "",
        tag("span", duration(check.seconds), class_="time"),
    ]


def _output(output: OutputCheck, told: str) -> list[Element | str]:
    place = f" at [{', '.join(map(str, output.worst))}]" if output.worst is not None else ""
    parts: list[Element | str] = [named(output.output), place]
    if output.expected is not None:
        parts += [": expected ", tag("code", output.expected[:400], class_="right")]
    if output.actual is not None:
        parts += [", got ", tag("code", output.actual[:400], class_="wrong")]
    parts.append(
        f"; {output.mismatched:,} of {output.size:,} outside the limit ({limits(output)})"
    )
    if output.reason and output.expected is None and output.reason not in told:
        parts.append(f" ({output.reason[:400]})")
    return parts


def _applied(done: PassReport, shown: list[RewriteSummary]) -> Element:
    culprits = {r.number for r in summary.blamed(done)} if done.error else set()
    items = [
        tag(
            "li",
            tag("span", f"#{r.number} ", named(r.rule), class_="rule"),
            tag(
                "span",
                _nodes(r.nodes, "-", "old"),
                _nodes(r.new_nodes, "+", "new"),
                class_="diff",
            ),
            class_="culprit" if r.number in culprits else None,
        )
        for r in shown
    ]
    more = len(done.rewrites) - len(shown)
    if more > 0:
        items.append(tag("li", f"and {plural(more, 'rewrite')} more, in the JSON report"))
    title = tag("summary", plural(len(done.rewrites), "rewrite"))
    return tag("details", title, tag("ol", items, class_="rewrites"), open=bool(done.error))


def _nodes(nodes: list[str], sign: str, style: str) -> Iterator[Element]:
    for node in nodes[:_MOST_NODES]:
        yield tag("span", tag("span", f"{sign} ", class_="mark"), named(node), class_=style)
    if len(nodes) > _MOST_NODES:
        yield tag(
            "span", f"{sign} and {plural(len(nodes) - _MOST_NODES, 'node')} more", class_=style
        )
