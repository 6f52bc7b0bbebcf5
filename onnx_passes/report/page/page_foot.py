"""The foot of the page: engines, the end result, inputs, pipeline, versions, machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnx_passes.report import summary
from onnx_passes.report.page.markup import Child, Element, named, tag
from onnx_passes.report.page.overview import badge
from onnx_passes.report.page.pass_lines import check_row, check_table
from onnx_passes.report.page.table import table
from onnx_passes.report.run_report import EngineReport, ReadBackReport, RunReport
from onnx_passes.report.shown_waivers import waiver_sentences
from onnx_passes.report.text import bound, plural, printable, size

_MOST_ROWS = 200


def engines(report: RunReport) -> Element | None:
    """Return the verdict of each engine, and what is needed to ask it again."""
    known = {e.name: e for e in report.engines}
    rows = [
        _engine(name, tally, known.get(name))
        for name, tally in summary.tallies(report).items()
    ]
    if not rows:
        return None
    names = ["Engine", "Verdict", "Checks", "Largest error", "Own noise", "Details"]
    return tag("section", tag("h2", "Engines"), table("Engines", names, rows))


def _engine(name: str, tally: summary.EngineTally, engine: EngineReport | None) -> list[Child]:
    details = engine.details if engine else {}
    when = f"asked {_WHEN.get(engine.when, engine.when)}" if engine else ""
    instead = None
    if engine and engine.fallback_for:
        instead = tag("span", f"Stands in for {engine.fallback_for}", class_="why")
    counts = [
        (tally.passed, "passed"),
        (tally.failed, "failed"),
        (tally.not_verified, "compared nothing" if tally.level else "could not be run"),
    ]
    noise = _noise(engine) if engine else ""
    told = ", ".join(f"{key} {value}" for key, value in details.items())
    return [
        (named(name), instead),
        badge(tally.words),
        ", ".join(f"{n:,}\u00a0{what}" for n, what in counts if n),
        "" if tally.max_abs is None else bound(tally.max_abs),
        noise,
        "; ".join(filter(None, [told, when]))[:1000],
    ]


def _noise(engine: EngineReport) -> str:
    told = [] if engine.noise is None else [bound(engine.noise)]
    told += [
        f"{printable(spread.output)} {bound(spread.max_abs)} "
        f"(relative {bound(spread.max_rel)}) between {spread.between}"
        for spread in sorted(engine.spreads, key=lambda s: s.max_abs, reverse=True)[:_SPREADS]
    ]
    return "; ".join(told)


_SPREADS = 5
_WHEN = {"each": "after each pass", "checkpoint": "at checkpoints", "end": "at the end"}


def end_result(report: RunReport) -> Element | None:
    """Return the checks of the result against the original."""
    if not report.final:
        return None
    return tag(
        "section",
        tag("h2", "Result against the original"),
        check_table([check_row(check) for check in report.final[:_MOST_ROWS]]),
    )


def background(report: RunReport) -> Element:
    """Return what is needed to repeat the run."""
    reference = report.reference
    blocks = [
        _block("Model", _model(report)),
        _block(
            "Inputs of the checks",
            reference.inputs.items() if reference else [],
            f"{reference.source}, {plural(reference.samples, 'sample')}."
            if reference
            else "None: nothing was run.",
        ),
        _block("Versions", report.versions.items()),
        _block("Machine", report.machine.items()),
    ]
    pipeline = tag("pre", report.pipeline, tabindex=0) if report.pipeline else None
    waivers = [tag("li", told) for told in waiver_sentences(report)[:_MOST_ROWS]]
    notes = [tag("li", note) for note in report.notes[:_MOST_ROWS]]
    return tag(
        "section",
        tag("h2", "To repeat it"),
        tag("div", blocks, class_="columns"),
        [tag("h3", "Pipeline"), pipeline] if pipeline is not None else None,
        [tag("h3", "Waivers"), tag("ul", waivers)] if waivers else None,
        [tag("h3", "Notes"), tag("ul", notes)] if notes else None,
    )


def _model(report: RunReport) -> Iterator[tuple[str, str]]:
    for label, model in (("before", report.before), ("after", report.after)):
        if model is not None:
            opsets = ", ".join(f"{d or 'ai.onnx'} {v}" for d, v in model.opsets.items())
            yield f"hash {label}", model.hash
            yield f"opsets {label}", opsets
            yield f"initializers {label}", f"{model.initializers:,}"
    if report.read_back is not None:
        yield "file read back", _read_back(report.read_back)


def _read_back(found: ReadBackReport) -> str:
    if found.reason:
        return f"{found.result}: {found.reason}"
    return f"{found.result}, {size(found.tensor_bytes)} of tensors"


def _block(
    title: str, rows: Iterable[tuple[str, str]], told: str | None = None
) -> Element | None:
    pairs = [[tag("dt", key[:400]), tag("dd", value[:1000])] for key, value in rows]
    if not pairs and not told:
        return None
    listed = tag("dl", pairs[:_MOST_ROWS], class_="facts") if pairs else None
    return tag("div", tag("h3", title), tag("p", told) if told else None, listed)
