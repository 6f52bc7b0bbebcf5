"""Reports of runs as one self-contained HTML page: no scripts, no network, nothing to trust.

The templates escape what they show, so names from a model stay text. The policy of the page
forbids scripts, requests and styles other than its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from onnx_passes.plain import PlainDict
from onnx_passes.report import summary
from onnx_passes.report.pages import render_page
from onnx_passes.report.run_report import (
    Blame,
    EngineReport,
    PassReport,
    RewriteSummary,
    RunReport,
)
from onnx_passes.report.summary import FailureRows, Row, blames, plain_error
from onnx_passes.report.text import (
    Glyphs,
    bound,
    change,
    duration,
    number,
    percent,
    plural,
    size,
)
from onnx_passes.verify.evidence import Check, OutputCheck, Verdict

_MOST_NODES = 12
UNNAMED = "\N{ZERO WIDTH SPACE}"
"""Begins the name of a value that is not shown."""
_LONGEST = 22  # characters of a label
_CHARACTER = 7.3  # width of one in pixels
_HEIGHT, _GAP_X, _GAP_Y, _EDGE = 30, 18, 34, 8


@dataclass(frozen=True)
class NodeText:
    """A node as the text of a report shows it."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass
class GraphBox:
    """A box of a drawn graph: a node, or a value that comes in or goes out.

    The style is "op", "value", "right" or "wrong". The level counts from the top.
    """

    label: str
    style: str
    level: int
    left: float = 0.0

    @property
    def width(self) -> float:
        return max(34.0, len(self.label) * _CHARACTER + 18)

    @property
    def top(self) -> float:
        return _EDGE + self.level * (_HEIGHT + _GAP_Y)

    @property
    def middle(self) -> float:
        return self.left + self.width / 2


@dataclass(frozen=True)
class DrawnGraph:
    """Nodes as a graph in pixels, what they read on top and what they compute below."""

    boxes: Sequence[GraphBox]
    wires: Sequence[str]
    width: float
    height: float
    label: str
    box_height: int = _HEIGHT


def read_nodes(texts: Iterable[str]) -> list[NodeText] | None:
    """Return nodes from lines such as ``y = Add(a, b)``; None if one is of another form."""
    found = []
    for text in texts:
        outputs, _, call = text.partition(" = ")
        op, _, rest = call.partition("(")
        end = rest.find(") {") if rest.endswith("}") else len(rest) - rest.endswith(")")
        if not op or end in (-1, len(rest)):
            return None
        found.append(NodeText(op.strip(), _names(rest[:end]), _names(outputs)))
    return found


def drawing(blame: Blame) -> tuple[PlainDict, PlainDict] | None:
    """Return the nodes before and after a rewrite as graphs; None if they cannot be drawn."""
    before, after = read_nodes(blame.nodes), read_nodes(blame.new_nodes)
    if not before or after is None or max(len(before), len(after)) > _MOST_NODES:
        return None
    wrong = blame.value
    return (
        _side("Before", before, wrong, wrong.expected if wrong else None, "right"),
        _side("After", after, wrong, wrong.actual if wrong else None, "wrong"),
    )


def _side(
    title: str, nodes: list[NodeText], wrong: OutputCheck | None, told: str | None, style: str
) -> PlainDict:
    value = None
    if told is not None and wrong is not None:
        place = "" if wrong.worst is None else f"[{', '.join(map(str, wrong.worst))}]"
        value = f"{_short(wrong.output)}{place} = {told[:60]}"
    shown = graph(nodes, wrong.output if wrong else None, style) if nodes else None
    return {"title": title, "graph": shown, "value": value, "style": style}


def graph(
    nodes: Sequence[NodeText], wrong: str | None, style: str, *, loose: Sequence[str] = ()
) -> DrawnGraph:
    """Return nodes, in topological order, as a graph.

    ``wrong`` is drawn in ``style``, and loose values if there is no node.
    """
    boxes, edges = _boxes(nodes, wrong, style)
    if not nodes:
        boxes = {name: GraphBox(name, "value", 0) for name in loose}
    levels: dict[int, list[GraphBox]] = {}
    for box in boxes.values():
        levels.setdefault(box.level, []).append(box)
    wide = max(sum(b.width + _GAP_X for b in row) - _GAP_X for row in levels.values())
    spare = 30 if any(boxes[b].level - boxes[a].level > 1 for a, b in edges) else 0
    for row in levels.values():
        x = (wide - sum(b.width + _GAP_X for b in row) + _GAP_X) / 2 + spare + _EDGE
        for box in row:
            box.left = x
            x += box.width + _GAP_X
    return DrawnGraph(
        list(boxes.values()),
        [_wire(boxes[start], boxes[end]) for start, end in edges],
        wide + 2 * (_EDGE + spare),
        (max(levels) + 1) * (_HEIGHT + _GAP_Y) - _GAP_Y + 2 * _EDGE,
        f"{plural(len(nodes), 'node')}: {', '.join(n.op for n in nodes)}",
    )


def _boxes(
    nodes: Sequence[NodeText], wrong: str | None, style: str
) -> tuple[dict[str, GraphBox], list[tuple[str, str]]]:
    """Return boxes by key, and edges: inputs of the part on top, what it gives below."""
    makers = {name: index for index, node in enumerate(nodes) for name in node.outputs}
    read = {name for node in nodes for name in node.inputs}
    levels: list[int] = []
    for index, node in enumerate(nodes):
        above = [levels[makers[n]] for n in node.inputs if makers.get(n, index) < index]
        levels.append(max(above, default=0) + 1)
    boxes: dict[str, GraphBox] = {}
    edges: list[tuple[str, str]] = []
    for index, node in enumerate(nodes):
        for name in node.inputs:
            if name not in makers:
                # Right above the first node that reads it.
                boxes.setdefault(
                    f"in {name}", GraphBox(_short(name), "value", levels[index] - 1)
                )
        boxes[f"node {index}"] = GraphBox(_short(node.op), "op", levels[index])
        edges += [
            (f"node {makers[n]}" if n in makers else f"in {n}", f"node {index}")
            for n in node.inputs
            if makers.get(n, -1) < index
        ]
    last = max((box.level for box in boxes.values()), default=0) + 1
    for name, index in makers.items():
        if (name not in read or name == wrong) and not name.startswith(UNNAMED):
            boxes[f"out {name}"] = GraphBox(
                _short(name), style if name == wrong else "value", last
            )
            edges.append((f"node {index}", f"out {name}"))
    return boxes, edges


def _wire(start: GraphBox, end: GraphBox) -> str:
    x1, x2, y1, y2 = start.middle, end.middle, start.top + _HEIGHT, end.top
    middle = (y1 + y2) / 2
    # Past the boxes between, which stand in the middle.
    aside = 0.0 if end.level - start.level == 1 else 20 + max(start.width, end.width)
    points = ((x1 + aside, middle), (x2 + aside, middle), (x2, y2))
    curve = " ".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f"M{x1:.1f} {y1:.1f} C{curve}"


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(", ")))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:9]}…{text[-12:]}"


_MOST_SENTENCES = 50
_MOST_FAILURES = 5
_MOST_DRAWN = 2

Fact = tuple[str, str, str]
"""A label, a text, and its style class; "code" for a name from the model."""


def top_of(report: RunReport) -> PlainDict:
    """Return what the template shows above the figures."""
    words = summary.outcome(report)
    failed = [p for p in report.passes if p.verdict is Verdict.FAILED]
    told = FailureRows(Glyphs.of("utf-8"), report)
    return {
        "words": words,
        "lead": _sentence(report, words),
        "error": plain_error(summary.run_error(report) or ""),
        "rows": _facts(told.full(None)) if summary.failing(report.final) else [],
        "cards": [_card(done, told) for done in failed[:_MOST_FAILURES]],
        "more_failed": failed[_MOST_FAILURES:],
        "doubts": _doubts(report),
        "without": _without(report),
        "tiles": list(_tiles(report)),
    }


def _doubts(report: RunReport) -> list[str]:
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


def _facts(rows: Iterable[Row]) -> list[Fact]:
    return [(label, told, "") for label, told in rows]


def _card(done: PassReport, told: FailureRows) -> PlainDict:
    drawn = (drawing(blame) for blame in blames(done)[:_MOST_DRAWN])
    return {
        "done": done,
        "error": plain_error(done.error or ""),
        "rows": _facts(told.full(done)),
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
    worst = summary.margin(summary.all_checks(report))
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


# What a page may hold: some megabytes, however long the run.
_MOST_PASSES = 2000
_MOST_CHECKS = 30
_MOST_OUTPUTS = 10
_MOST_BUDGETS = 5
_MOST_REWRITES_OF_PASS = 50
_MOST_REWRITES = 3000


def passes_of(all_passes: list[PassReport], above: set[int]) -> PlainDict:
    """Return what the template shows of the passes, without the failures above."""
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
        "facts": list(_pass_facts(done)),
        "checks": [check_row(check) for check in ranked],
        "more_checks": _more(done.checks, ranked, "check"),
        "rewrites": taken,
        "more_rewrites": _more(done.rewrites, taken, "rewrite"),
        "culprits": {r.number for r in summary.blamed(done)} if done.error else set(),
    }


def _more(every: Sequence[object], shown: Sequence[object], noun: str) -> str:
    more = len(every) - len(shown)
    return plural(more, noun) if more else ""


def _pass_facts(done: PassReport) -> Iterator[Fact]:
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
    worst = summary.margin(done.checks)
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
    worst = summary.margin([check])
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


_MOST_FOOT_ROWS = 200
_SPREADS = 5
_WHEN = {"each": "after each pass", "checkpoint": "at checkpoints", "end": "at the end"}


def foot_of(report: RunReport) -> PlainDict:
    """Return what the template shows below the passes."""
    # Here only the verdict of a check is shown; its outputs are those of the failure above.
    final = [check_row(check) for check in report.final[:_MOST_FOOT_ROWS]]
    # A metric judges all that was before it.
    judged = [p.name for p in summary.kept(report) if any(c.metrics for c in p.checks)]
    for row in final if judged else []:
        row["what"] = row["what"].replace("drift", f"drift since {judged[-1]}")
    return {
        "final": [{**row, "outputs": (), "more": ""} for row in final],
        "engines": [_engine(*found) for found in summary.tallies(report).items()],
        "blocks": list(_blocks(report)),
        "waivers": [str(waiver) for waiver in report.waivers],
    }


def _engine(name: str, tally: summary.EngineTally) -> PlainDict:
    engine = tally.engine
    counts = [
        (tally.passed, "passed"),
        (tally.failed, "failed"),
        (tally.not_verified, "compared nothing" if tally.level else "could not be run"),
    ]
    told = [f"{key} {value}" for key, value in engine.details.items()] if engine else []
    when = f"asked {_WHEN.get(engine.when, engine.when)}" if engine else ""
    fallback = engine.fallback_for if engine else None
    return {
        "name": name,
        "words": tally.words,
        "instead": f"Stands in for {fallback}" if fallback else "",
        "checks": ", ".join(f"{n:,}\u00a0{what}" for n, what in counts if n),
        "error": "" if tally.max_abs is None else bound(tally.max_abs),
        "noise": "; ".join(_noise(engine)) if engine else "",
        "details": "; ".join(filter(None, [", ".join(told), when]))[:1000],
    }


def _noise(engine: EngineReport) -> Iterator[str]:
    if engine.noise is not None:
        yield bound(engine.noise)
    for spread in sorted(engine.spreads, key=lambda s: s.max_abs, reverse=True)[:_SPREADS]:
        yield (
            f"{spread.output} {bound(spread.max_abs)} (relative {bound(spread.max_rel)}) "
            f"between {spread.between}"
        )


def _blocks(report: RunReport) -> Iterator[tuple[str, str, list[Fact]]]:
    """Yield what is needed to repeat the run: a heading, a sentence, facts."""
    reference = report.reference
    told = str(reference) if reference else "None: nothing was run"
    yield "Model", "", _foot_facts(_model(report))
    yield (
        "Inputs of the checks",
        f"{told}.",
        _foot_facts(reference.inputs.items() if reference else []),
    )
    yield "Versions", "", _foot_facts(report.versions.items())
    yield "Machine", "", _foot_facts(report.machine.items())


def _foot_facts(rows: Iterable[tuple[str, str]]) -> list[Fact]:
    return [(key[:400], value[:1000], "") for key, value in rows][:_MOST_FOOT_ROWS]


def _model(report: RunReport) -> Iterator[tuple[str, str]]:
    for label, model in (("before", report.before), ("after", report.after)):
        if model is not None:
            opsets = ", ".join(f"{d or 'ai.onnx'} {v}" for d, v in model.opsets.items())
            yield f"hash {label}", model.hash
            yield f"opsets {label}", opsets
            yield f"initializers {label}", f"{model.initializers:,}"
    if found := report.read_back:
        told = f"{size(found.tensor_bytes)} of tensors"
        told = f": {found.reason}" if found.reason else f", {told}"
        yield "file read back", found.result + told


def to_html(report: RunReport) -> str:
    """Return a run as a page for a browser, of some megabytes at most.

    Long lists are cut, failures last, and say how much is left out.
    """
    top = top_of(report)
    return render_page(
        "report.html",
        f"{top['words'].head}: {report.model[:200]}",
        "report.css",
        report=report,
        **top,
        **passes_of(report.passes, {card["done"].index for card in top["cards"]}),
        **foot_of(report),
    )
