"""The foot of the page: engines, the end result, inputs, pipeline, versions, machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnx_passes.plain import PlainDict
from onnx_passes.report import summary
from onnx_passes.report.page.overview import Fact
from onnx_passes.report.page.pass_lines import check_row
from onnx_passes.report.run_report import EngineReport, RunReport
from onnx_passes.report.text import bound, size

_MOST_ROWS = 200
_SPREADS = 5
_WHEN = {"each": "after each pass", "checkpoint": "at checkpoints", "end": "at the end"}


def foot_of(report: RunReport) -> PlainDict:
    """Return what the template shows below the passes."""
    # Here only the verdict of a check is shown; its outputs are those of the failure above.
    final = [check_row(check) for check in report.final[:_MOST_ROWS]]
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
    yield "Model", "", _facts(_model(report))
    yield (
        "Inputs of the checks",
        f"{told}.",
        _facts(reference.inputs.items() if reference else []),
    )
    yield "Versions", "", _facts(report.versions.items())
    yield "Machine", "", _facts(report.machine.items())


def _facts(rows: Iterable[tuple[str, str]]) -> list[Fact]:
    return [(key[:400], value[:1000], "") for key, value in rows][:_MOST_ROWS]


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
