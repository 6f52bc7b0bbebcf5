"""What a report says, derived once for all writers: verdicts in words, margins, tallies."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from onnx_passes.report.margins import all_checks, margin_of
from onnx_passes.report.pass_report import PassReport, RewriteSummary
from onnx_passes.report.run_report import EngineReport, ModelSummary, RunReport
from onnx_passes.report.text import bound, duration, number, plural, size
from onnx_passes.verify.evidence import Evidence, Kind, count_kinds
from onnx_passes.verify.result import ENGINE, EXECUTED, Check, OutputCheck, Verdict

Tone: TypeAlias = Literal["good", "bad", "warn", "plain"]


_ENGINES = {
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
    "reference": "the reference engine of onnx",
}
_OPTIMIZATIONS = {"none": "optimisations off", "all": "optimisations on"}
_EVIDENCE = {
    Kind.PROVED: "proved",
    Kind.EXECUTED: "executed before and after",
    Kind.OUTPUTS_ONLY: "seen at the outputs only",
    Kind.BLIND: "that the outputs do not show",
    Kind.NOTHING: "with nothing to compare",
}

_PARTS = {
    "starting": "starting",
    "reading": "reading",
    "preparing": "preparing inputs and engines",
    "passes": "in passes",
    "checks": "checking them",
    "between passes": "between passes",
    "cause": "looking for the cause of a failure",
    "result": "checking the result",
    "writing": "writing",
}


@dataclass(frozen=True)
class Words:
    """A verdict for a reader.

    Attributes:
        head: A few words that stand alone and are never cut: "within 3e-7", "FAILED".
        tone: How to colour it.
        why: One sentence more, or nothing.
    """

    head: str
    tone: Tone
    why: str = ""


@dataclass(frozen=True)
class EngineTally:
    """What the checks on one engine found; None for an engine that the report lacks."""

    engine: EngineReport | None
    passed: int
    failed: int
    not_verified: int
    max_abs: float | None

    @property
    def level(self) -> str | None:
        """How far the result got on an engine that compiles."""
        return self.engine.level if self.engine else None

    @property
    def words(self) -> Words:
        """The engine's own verdict."""
        if self.failed:
            return Words("FAILED", "bad", plural(self.failed, "check") + " failed")
        if self.engine and self.level not in (None, EXECUTED):
            return Words(self.engine.level_reason or str(self.level), "warn")
        if self.not_verified:
            return Words("not verified", "warn", f"{self.not_verified} could not be run")
        if self.passed:
            return Words("agrees", "good", plural(self.passed, "check") + " passed")
        return Words("not needed", "plain", "nothing was run on it")


def outcome(report: RunReport) -> Words:
    """Return the verdict of the whole run."""
    failed = [p for p in report.passes if p.verdict is Verdict.FAILED]
    undone = [p for p in failed if p.action == "rolled back"]
    waived = [p for p in failed if p.action == "waived"]
    broken = [c for c in report.final if c.verdict is Verdict.FAILED]
    if report.error or broken or len(failed) > len(undone) + len(waived):
        checks = [*broken, *(c for p in failed if p not in undone + waived for c in p.checks)]
        head = f"FAILED{_only_on(checks)}"
        # An error of a pass stands whole beside the pass.
        why = _first_line(run_error(report)) or _blame(failed, broken)
        return Words(head, "bad", why or _first_line(report.error))
    asides = [f"{_named(undone)} failed and rolled back"] if undone else []
    asides += [f"{_named(waived)} failed and is accepted by a waiver"] if waived else []
    if report.preconditions:
        count = plural(len(report.preconditions), "part")
        asides.append(f"{count} may differ on values that no sample has")
    aside = "; ".join(asides)
    if not report.verify:
        return Words("NOT VERIFIED", "warn", "verification was off")
    unknown = [
        p for p in report.passes if p.verdict is Verdict.NOT_VERIFIED and p.action != "waived"
    ]
    open_checks = [c for c in report.final if c.verdict is Verdict.NOT_VERIFIED]
    only = [f"{c.engine} ({c.level})" for c in open_checks if c.level is not None]
    open_checks = [c for c in open_checks if c.level is None]
    if unknown or open_checks or report.not_verified:
        proved = any(p.verdict is Verdict.PASSED for p in report.passes)
        head = "PARTLY VERIFIED" if proved else "NOT VERIFIED"
        missing = [_named(unknown)] if unknown else []
        missing += ["the end result"] if open_checks else []
        missing += [f"the end result on {', '.join(only)}"] if only else []
        said = f"not verified: {' and '.join(missing)}" if missing else ""
        return Words(head, "warn", "; ".join(filter(None, [said, aside])))
    if not any(p.changed for p in kept(report)):
        return Words("UNCHANGED", "good", aside or "no pass changed the model")
    return Words("VERIFIED", "good", aside)


def _only_on(checks: Iterable[Check]) -> str:
    """Name the engines that failed where what failed is theirs alone; else nothing."""
    failed = [check for check in checks if check.verdict is Verdict.FAILED]
    if not failed or any(check.kind != ENGINE for check in failed):
        return ""
    return f" on {', '.join(dict.fromkeys(str(check.engine) for check in failed))}"


def _counts(done: PassReport, one: Evidence) -> bool:
    """Whether a part of a change is an application, and no more than what reads its result."""
    return bool(one.numbers) or not done.rewrites or not one.kind.verifies


def kept(report: RunReport) -> list[PassReport]:
    """Return the passes whose changes are in the result."""
    return [p for p in report.passes if p.action not in ("rolled back", "stopped")]


def evidence_text(report: RunReport) -> str:
    """Count the changes of all kept passes by what vouches for them, as text."""
    changed = (p for p in kept(report) if p.changed)
    counts = count_kinds(
        one for done in changed for one in done.evidence if _counts(done, one)
    )
    told = [f"{counts[kind]:,} {_EVIDENCE[kind]}" for kind in Kind if counts[kind]]
    return f"{plural(counts.total(), 'change')}: {', '.join(told)}" if told else ""


def verdict_words(done: PassReport) -> Words:
    """Return the verdict of one pass."""
    words = _verdict_words(done)
    return replace(words, head=f"{words.head} (resumed)") if done.resumed else words


def _verdict_words(done: PassReport) -> Words:
    if done.verdict is Verdict.FAILED:
        head = f"FAILED{_only_on(done.checks)}"
        head = head if done.action == "kept" else f"{head}, {done.action}"
        tone: Tone = "warn" if done.action == "waived" else "bad"
        return Words(head, tone, _first_reason(done.checks, Verdict.FAILED))
    if done.verdict is Verdict.NOT_VERIFIED:
        weak = [one for one in done.evidence if not one.kind.verifies]
        why = _first_reason(done.checks, Verdict.NOT_VERIFIED)
        blind = any(one.kind is Kind.BLIND for one in weak)
        head = "blind" if blind else "not verified"
        return Words(head, "warn", why or next((one.reason or "" for one in weak), ""))
    if done.verdict is Verdict.UNCHANGED:
        return Words("no change", "plain")
    return Words(passed_text(done.checks), "good")


def check_words(check: Check) -> Words:
    """Return the verdict of one check."""
    if check.verdict is Verdict.FAILED:
        head = f"FAILED{_only_on([check])}"
        return Words(head, "bad", check.reason or output_reason(check))
    if check.verdict is Verdict.NOT_VERIFIED:
        return Words("not verified", "warn", check.reason or "")
    if check.verdict is Verdict.UNCHANGED:
        return Words("no change", "plain", check.reason or "")
    return Words(passed_text([check]), "good", check.reason or "")


def failing(checks: Iterable[Check]) -> tuple[Check, OutputCheck | None] | None:
    """Return the first failed check, with the failed output furthest past its limit."""
    check = next((c for c in checks if c.verdict is Verdict.FAILED), None)
    if check is None:
        return None

    def badness(output: OutputCheck) -> tuple[float, float]:
        seen = margin_of(output, region=check.scope == "region")
        return (seen.ratio, seen.error) if seen else (math.inf, math.inf)

    return check, max((o for o in check.outputs if not o.passed), key=badness, default=None)


def run_error(report: RunReport) -> str | None:
    """Return the error that ended the run, unless one of its passes has it already."""
    error = report.error
    if error is None or any(
        p.error and (p.error in error or error in p.error) for p in report.passes
    ):
        return None
    return error


def blamed(done: PassReport) -> list[RewriteSummary]:
    """Return the rewrites that a failure is due to; empty where that is not known."""
    if len(done.rewrites) == 1:
        return done.rewrites
    return [r for r in done.rewrites if r.number in done.culprits]


def sizes(
    before: ModelSummary, after: ModelSummary
) -> Iterator[tuple[str, Callable[[int], str], int, int]]:
    """Yield each size of a model: its name, how it is written, and the two numbers.

    Args:
        before: The model before the first pass.
        after: The model after the last.
    """
    yield "Nodes", "{:,}".format, before.nodes, after.nodes
    if before.file_bytes is not None and after.file_bytes is not None:
        yield "File", size, before.file_bytes, after.file_bytes
    else:
        yield "Weights", size, before.weight_bytes, after.weight_bytes


def rules(passes: Iterable[PassReport]) -> Counter[str]:
    """Return the number of rewrites by rule."""
    return Counter(r.rule for p in passes for r in p.rewrites)


def engine_name(name: str, engine: EngineReport | None) -> tuple[str, str]:
    """Return an engine as a reader knows it, and how it runs.

    Args:
        name: Its name in reports.
        engine: What is known of it; None if the pipeline does not have it.
    """
    details = engine.details if engine is not None else {}
    base, _, options = name.partition("[")
    optimization = _OPTIMIZATIONS.get(str(details.get("optimization")), "")
    others = [
        option
        for option in options.removesuffix("]").split(", ")
        if option and not option.startswith(("prepacking=", "optimization="))
    ]
    version = details.get("version")
    known = f"{_ENGINES.get(base, base)}{f' {version}' if version else ''}"
    if engine is None and "threads=0" in others:
        return known, "as deployed, on one sample"
    return known, ", ".join(filter(None, [optimization, *others]))


def tallies(report: RunReport) -> dict[str, EngineTally]:
    """Return what each engine found, the engines of the report first and in its order.

    Checks of passes that were rolled back do not count.
    """
    found: dict[str, list[Check]] = {e.name: [] for e in report.engines}
    undone = {id(c) for p in report.passes if p.action == "rolled back" for c in p.checks}
    for check in (each for each in all_checks(report) if id(each) not in undone):
        if check.engine is not None:
            found.setdefault(check.engine, []).append(check)
    engines = {engine.name: engine for engine in report.engines}
    return {name: _tally(checks, engines.get(name)) for name, checks in found.items()}


def _tally(checks: list[Check], engine: EngineReport | None) -> EngineTally:
    count = Counter(c.verdict for c in checks if c.executes or c.verdict is not Verdict.PASSED)
    errors = [c.max_abs for c in checks if c.max_abs is not None]
    return EngineTally(
        engine,
        count[Verdict.PASSED],
        count[Verdict.FAILED],
        count[Verdict.NOT_VERIFIED],
        max(errors, default=None),
    )


def passed_text(checks: Iterable[Check]) -> str:
    """Return how near what was compared is: ``equal``, ``within 3e-7, accuracy 0.98``."""
    numeric = [c for c in checks if c.verdict is Verdict.PASSED and c.outputs]
    scores = [
        f"{m.name} {number(m.value, 6)}"
        for c in checks
        if c.verdict is Verdict.PASSED
        for m in c.metrics
    ]
    worst = max((c.max_abs or 0.0 for c in numeric), default=0.0)
    parts = [f"within {bound(worst)}" if worst else "equal"] if numeric else []
    return ", ".join(parts + list(dict.fromkeys(scores))) or "proved"


def times_text(report: RunReport) -> str:
    """Return the parts of a run's wall time; those of less than a hundredth are one."""
    found, other = [], 0.0
    for part, words in _PARTS.items():
        seconds = report.times.get(part, 0.0)
        if seconds < 0.01 * report.seconds:
            other += seconds
        else:
            found.append(f"{duration(seconds)} {words}")
    return ", ".join([*found, f"{duration(other)} other"] if other >= 0.0005 else found)


def _first_reason(checks: Iterable[Check], verdict: Verdict) -> str:
    reasons = (c.reason or output_reason(c) for c in checks if c.verdict is verdict)
    return next(filter(None, reasons), "")


def output_reason(check: Check) -> str:
    """Return what is wrong with the first output or metric that fails; nothing if none is."""
    wrong = next((o for o in check.outputs if not o.passed), None)
    if wrong is not None:
        return f"{wrong.output}: {wrong.reason}" if wrong.reason else wrong.output
    off = next((m for m in check.metrics if not m.passed), None)
    if off is None:
        return ""
    return f"{off.name} is {number(off.value)}, not in [{number(off.low)}, {number(off.high)}]"


def _first_line(text: str | None) -> str:
    return text.strip().splitlines()[0] if text and text.strip() else ""


def _named(passes: list[PassReport]) -> str:
    return passes[0].name if len(passes) == 1 else f"{len(passes)} passes"


def _blame(failed: list[PassReport], broken: list[Check]) -> str:
    if broken:
        reason = _first_reason(broken, Verdict.FAILED)
        if reason and _only_on(broken):
            return reason
        return f"the result differs from the original{f': {reason}' if reason else ''}"
    if not failed:
        return ""
    verb = {"warned": "failed and was kept"}.get(failed[0].action, "failed")
    return f"{_named(failed)} {verb}" if len(failed) == 1 else f"{_named(failed)} failed"
