"""What a report says, derived once for all writers: verdicts, margins, tallies, failures.

A failure is rows of a label and a text: the nodes, the mismatch beside them, and what to do
next.
"""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from onnx_passes.report.run_report import (
    LOSES,
    Blame,
    EngineReport,
    ModelSummary,
    PassReport,
    RewriteSummary,
    RunReport,
)
from onnx_passes.report.text import Glyphs, bound, duration, ends, number, plural, size
from onnx_passes.verify.evidence import (
    ENGINE,
    EXECUTED,
    Check,
    Evidence,
    Kind,
    OutputCheck,
    Verdict,
    count_kinds,
)


@dataclass(frozen=True)
class Margin:
    """The measured error that came nearest to its limit, or went furthest past it.

    The limit is ``atol + rtol * |expected|``, 0 under equality; None if it depends on an
    element that the report does not have.
    """

    output: str
    error: float
    limit: float | None

    @property
    def ratio(self) -> float:
        """Error over limit; above 1 the limit is broken."""
        if self.error == 0:
            return 0.0
        if self.limit is None:
            return 1.0
        return self.error / self.limit if self.limit else math.inf

    @property
    def share(self) -> str:
        """The error as a share of what was allowed, in words."""
        if self.error == 0:
            return "equal bit for bit"
        if self.limit is None:
            return "limit not recorded"
        if self.limit == 0:
            return "none was allowed"
        percent = 100 * self.ratio
        if percent > 1000:
            return f"{number(self.ratio, 2)} times the limit"
        return f"{number(percent, 2) if percent < 100 else round(percent)} % of the limit"

    @property
    def told(self) -> str:
        """The error and its share, in words."""
        return f"{bound(self.error)}, {self.share}" if self.error else self.share


def margin(checks: Iterable[Check]) -> Margin | None:
    """Return the margin closest to, or furthest past, its limit."""
    margins = [margin_of(o, region=c.scope == "region") for c in checks for o in c.outputs]
    return max((m for m in margins if m), key=lambda m: (m.ratio, m.error), default=None)


def all_checks(report: RunReport) -> Iterator[Check]:
    """Return every check of a run, those of the end last."""
    for done in report.passes:
        yield from done.checks
    yield from report.final


def element(text: str | None) -> float | None:
    """Return the number that an element's text spells, if it is a real number."""
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None


def margin_of(output: OutputCheck, *, region: bool) -> Margin | None:
    """Return the margin of an output or a value inside (``region``); None without an error."""
    expected, actual = element(output.expected), element(output.actual)
    error = output.max_abs
    if expected is not None and actual is not None:
        if math.isfinite(expected) and math.isfinite(actual):
            # The texts are rounded; where they look equal only the saved maximum decides.
            error = abs(actual - expected) or error or 0.0
        elif str(expected) != str(actual):
            error = math.inf
    if error is None:
        return None
    limit: float | None = output.atol
    if output.limit is not None:
        limit = output.limit
    elif output.rtol:
        limit = None if expected is None else output.atol + output.rtol * abs(expected)
        # Inside a model the limit may follow the largest element, which was not recorded.
        if limit is not None and region and error > limit:
            limit = None
    return Margin(output.output, error, limit)


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
    """A verdict for a reader: words that are never cut, and a sentence or nothing."""

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
    if len(done.rewrites) == 1 and (done.checks or done.error is None):
        return done.rewrites
    return [r for r in done.rewrites if r.number in done.culprits]


def sizes(
    before: ModelSummary, after: ModelSummary
) -> Iterator[tuple[str, Callable[[int], str], int, int]]:
    """Yield each size of a model: its name, how it is written, and the two numbers."""
    yield "Nodes", "{:,}".format, before.nodes, after.nodes
    if before.file_bytes is not None and after.file_bytes is not None:
        yield "File", size, before.file_bytes, after.file_bytes
    else:
        yield "Weights", size, before.weight_bytes, after.weight_bytes


def rules(passes: Iterable[PassReport]) -> Counter[str]:
    """Return the number of rewrites by rule."""
    return Counter(r.rule for p in passes for r in p.rewrites)


def engine_name(name: str, engine: EngineReport | None) -> tuple[str, str]:
    """Return an engine as a reader knows it, and how it runs."""
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
    low, high = number(off.low, 9), number(off.high, 9)
    return f"{off.name} is {number(off.value, 9)}, not in [{low}, {high}]"


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


Row = tuple[str, str]

_MOST, _LONGEST, _LONGEST_VALUE, _LONGEST_NAME = 5, 70, 160, 24


class FailureRows:
    """Describes a failure of a run, in rows of a label and a text."""

    def __init__(self, glyphs: Glyphs, report: RunReport) -> None:
        self._glyphs, self._name, self._report = glyphs, glyphs.name, report

    def brief(self, failed: PassReport | None) -> Iterator[Row]:
        """Yield what is wrong and where it was seen, of a pass or (None) of the result."""
        report = self._report
        error = run_error(report)
        found = list(report.final if failed is None else failed.checks)
        check = failing(found)
        blamed = report.blame if failed is None else blames(failed)
        known = [blame for blame in blamed if blame.number is not None]
        elsewhere = known[0] if known and failed and known[0].step != failed.index else None
        if elsewhere is not None:
            found_in = f"{plural(len(known), 'rewrite')} of {self._name(elsewhere.name)}"
            yield "wrong", f"the error is traced to {found_in}, before this pass:"
        elif known and failed is not None:
            share = f"{len(known)} of its {plural(len(failed.rewrites), 'rewrite')}"
            share = "its rewrite" if len(failed.rewrites) == 1 else share
            promised = self._name(failed.contract)
            yield "wrong", f"the pass promises {promised}, which {share} did not keep:"
        elif failed is not None and failed.rewrites and check and check[0].kind != ENGINE:
            yield "wrong", f"one of {plural(len(failed.rewrites), 'rewrite')}; not known which"
        for blame in sorted(known, key=_badness, reverse=True)[:_MOST]:
            yield ("" if failed else "wrong"), self._rewrite(blame)
        if len(known) > _MOST:
            yield "", f"and {len(known) - _MOST} more"
        measured = any(b.value and b.value.expected is not None for b in known)
        if known and check is not None and not measured:
            if check[1]:
                yield "", self._became(check[1])
            elif why := reason_of(check[0]):
                yield "", self._name(why)
        for blame in [] if known else blamed[:1]:
            where = f"{self._name(blame.name)}, " if failed is None else ""
            loses = blame.how.startswith(LOSES)
            yield ("layer" if loses else "first"), f"{where}{self._rewrite(blame)}"
            if loses:
                yield "", self._name(blame.how)
        if not known or (check is not None and check[0].kind == ENGINE):
            told = [reason_of(c) for c in found if c.verdict is Verdict.FAILED]
            text = "; ".join(dict.fromkeys(filter(None, told)))
            if not text or failed is None:
                own = failed.error if failed is not None else None
                text = plain_error(own or error or self.error(failed))
            for label, line in _lines("error", text):
                yield label, self._name(line)
        elif error:
            yield from (
                ("error", self._name(line)) for _, line in _lines("", plain_error(error))
            )
        if check is not None and check[0].engine:
            yield "seen on", self._seen(check[0])
        for note in [] if failed is None else failed.notes:
            yield "note", self._name(note)

    def full(self, failed: PassReport | None) -> Iterator[Row]:
        """Yield the same, with the check that failed, its worst element, and what to do."""
        report = self._report
        yield from self.brief(failed)
        found = failing(report.final if failed is None else failed.checks)
        if found is not None:
            yield from self._check(*found)
        if failed is not None and failed.action != "kept":
            what = "the run" if failed.action == "stopped" else "the pass was"
            then = "kept" if failed.action == "warned" else self._name(failed.action)
            yield "then", f"{what} {then}"
        folder = report.reproducer if failed is None else failed.reproducer
        if folder:
            yield "reproduce", self.command(folder)

    def _check(self, check: Check, output: OutputCheck | None) -> Iterator[Row]:
        where = f" on {self._name(check.engine)}" if check.engine else ""
        sample = f", sample {check.sample}" if check.sample is not None else ""
        yield "check", f"{check.kind}{where}{sample}"
        if output is None:
            return
        yield "output", self._difference(output)
        worst = margin([replace(check, outputs=(output,))])
        if worst is not None:
            allowed = limits(output) if worst.limit is None else number(worst.limit, 3)
            yield "error", f"{number(worst.error, 3)}, limit {allowed} ({limits(output)})"

    def _difference(self, value: OutputCheck) -> str:
        name = self._shortened(value.output)
        if value.expected is None or value.actual is None:
            return f"{name}: {self._name(value.reason or 'it differs')}"
        place = f" at [{', '.join(map(str, value.worst))}]" if value.worst is not None else ""
        expected, actual = (self._shortened(v) for v in (value.expected, value.actual))
        # No number says how far off a NaN is.
        error = f", off by {number(value.max_abs, 3)}" if value.max_abs else ""
        count = f"; {value.mismatched:,} of {value.size:,} differ" if value.size > 1 else ""
        return f"{name}{place}: expected {expected}, got {actual}{error}{count}"

    def _shortened(self, text: str) -> str:
        return self._name(ends(text, _LONGEST_VALUE, self._glyphs.ellipsis))

    def command(self, folder: str) -> str:
        """Return the command that repeats a failure from its folder."""
        return self._name(f"python {shlex.quote(f'{folder}/repro.py')}")

    def _rewrite(self, blame: Blame) -> str:
        """Say on one line what was replaced by what, and what became of a value."""
        old, new = (self._nodes(side) for side in (blame.nodes, blame.new_nodes))
        name = ""
        if len(blame.nodes) == len(blame.new_nodes) == 1:
            name, old, new = _one_node(old, new)
        what = f"{f'{name}: ' if name else ''}{old} {self._glyphs.arrow} {new or 'nothing'}"
        known = blame.rule in (None, blame.name.partition("{")[0])
        rule = "" if known else f"{self._name(blame.rule or '')}: "
        number = f"#{blame.number} {rule}" if blame.number is not None else ""
        if blame.value is None:
            return f"{number}{what}"
        value = self._became(blame.value)
        return f"{number}{what}; {value.removeprefix(f'{name}: ') if name else value}"

    def _nodes(self, nodes: Sequence[str]) -> str:
        shown = "; ".join(self._name(self._call(node)) for node in nodes[:2])
        more = f" and {plural(len(nodes) - 2, 'node')} more" if len(nodes) > 2 else ""
        return f"{shown}{more}"

    def _call(self, text: str) -> str:
        """Shorten what a node reads and computes, so that its operator stays legible."""
        sign = self._glyphs.ellipsis
        if len(text) <= _LONGEST:
            return text
        shorter = re.sub(
            rf"[^\s(),;]{{{_LONGEST_NAME},}}", lambda m: _cut(m[0], sign, _LONGEST_NAME), text
        )
        return _cut(shorter, sign, _LONGEST_VALUE)

    def _became(self, value: OutputCheck) -> str:
        name = self._name(_cut(value.output, self._glyphs.ellipsis))
        if value.expected is None or value.actual is None:
            return f"{name}: {self._name(value.reason or 'it differs')}"
        count = f", {value.mismatched:,} of {value.size:,} elements" if value.size > 1 else ""
        sides = [_cut(side, self._glyphs.ellipsis) for side in (value.expected, value.actual)]
        return f"{name}: {' became '.join(map(self._name, sides))}{count}"

    def _seen(self, check: Check) -> str:
        report = self._report
        engine = next((e for e in report.engines if e.name == check.engine), None)
        base, how = engine_name(str(check.engine), engine)
        where = f"{base}{f' ({how})' if how else ''}"
        if report.reference is None:
            return self._name(where)
        names = report.reference.names
        index = check.sample
        which = f", in sample {index}" if index is not None else ""
        special = names[index] if index is not None and index < len(names) else ""
        source = report.reference.source
        source = source.partition(" and ")[0] if special else source
        told = f"{where}, {source}{which}{f' ({special})' if special else ''}"
        return self._name(told)

    def reason(self, done: PassReport) -> str:
        """Return why a pass failed, in one clause."""
        found = failing(done.checks)
        told = reason_of(found[0]) if found else plain_error(self.error(done))
        return self._name(told.partition("\n")[0])

    def error(self, done: PassReport | None) -> str:
        """Return the error that a pass, or else the run, ended with."""
        return (done.error if done is not None else None) or self._report.error or ""


def _one_node(old: str, new: str) -> tuple[str, str, str]:
    """Return a value that two nodes compute, and of them what is different."""
    (name, _, old_call), (other, _, new_call) = (s.partition(" = ") for s in (old, new))
    if name != other or not new_call:
        return "", old, new
    (old_type, _, read), (new_type, _, reads) = (
        old_call.partition("("),
        new_call.partition("("),
    )
    return (name, old_type, new_type) if read == reads else (name, old_call, new_call)


def _badness(blame: Blame) -> float:
    return (blame.value.max_abs or 0.0) if blame.value is not None else 0.0


def reason_of(check: Check) -> str:
    """Return what is wrong with a failed check, metrics first."""
    off = [
        f"{m.name} is {number(m.value, 9)}, not in [{number(m.low, 9)}, {number(m.high, 9)}]"
        for m in check.metrics
        if not m.passed
    ]
    return "; ".join(off) or check.reason or output_reason(check)


def _lines(label: str, text: str) -> Iterator[Row]:
    for index, line in enumerate(text.splitlines()):
        yield (label if index == 0 else ""), line


def _cut(text: str, ellipsis: str, most: int = _LONGEST) -> str:
    half = (most - len(ellipsis)) // 2
    return text if len(text) <= most else f"{text[:half]}{ellipsis}{text[-half:]}"


def blames(done: PassReport) -> list[Blame]:
    """Return what a failure was traced to, or the rewrites blamed for it."""
    if done.blame:
        return done.blame
    return [
        Blame(done.index, done.name, "", r.number, r.rule, r.nodes, r.new_nodes)
        for r in blamed(done)
    ]


def plain_error(error: str) -> str:
    """Return an error without the names of Python's classes."""
    lines = [
        re.sub(r"^[A-Za-z]+(?:Error|Exception): ", "", line) for line in error.splitlines()
    ]
    if len(lines) > 1 and re.match(r"(Pre|Post)-condition for pass '", lines[0]):
        lines = lines[1:]
    return "\n".join(lines)


def limits(output: OutputCheck) -> str:
    """Return the limit that an output was held to."""
    if not output.rtol and not output.atol:
        return "equality"
    return f"rtol {number(output.rtol)}, atol {number(output.atol)}"
