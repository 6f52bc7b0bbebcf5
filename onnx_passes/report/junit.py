"""Reports as JUnit XML, which continuous-integration systems show: a test case per pass.

Files are valid against both schemas in common use: Ant's, which allows the least, and that of
Jenkins' xUnit plugin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from xml.etree import ElementTree as ET

from onnx_passes.report import summary
from onnx_passes.report.run_report import PassReport, RunReport
from onnx_passes.report.summary import FailureRows, Row
from onnx_passes.report.text import Glyphs, plural, printable
from onnx_passes.verify.evidence import Check, Verdict

_GLYPHS = Glyphs.of("ascii")


def to_junit(report: RunReport) -> str:
    """Return a run as JUnit XML.

    A pass that broke its contract is a failure; one that raised is an error; one that could
    not be verified is skipped, with the reason. So are the checks at the end. A run that ended
    outside any pass, or whose doubts no case shows, has a case of its own.
    """
    doubts = [f"not verified: {line}" for line in report.not_verified]
    doubts += [f"precondition: {line}" for line in report.preconditions]
    cases = list(_cases(report, doubts))
    count = Counter(child.tag for case in cases for child in case)
    root = ET.Element("testsuites")
    attributes = {
        "name": _clean(report.model) or "model",
        "package": "onnx-passes",
        "id": "0",
        "hostname": "localhost",
        "tests": str(len(cases)),
        "failures": str(count["failure"]),
        "errors": str(count["error"]),
        "skipped": str(count["skipped"]),
        "time": f"{report.seconds:.3f}",
    }
    if report.started:
        # The schemas allow no offset from UTC.
        attributes["timestamp"] = report.started[:19]
    suite = ET.SubElement(root, "testsuite", attributes)
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(report):
        ET.SubElement(properties, "property", name=_clean(name), value=_clean(value))
    suite.extend(cases)
    for tag, lines in (("system-out", _log(report)), ("system-err", doubts)):
        ET.SubElement(suite, tag).text = "\n".join(map(_clean, lines))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, "unicode") + "\n"


def _cases(report: RunReport, doubts: Sequence[str]) -> Iterator[ET.Element]:
    seen: Counter[str] = Counter()
    marked = False

    def case(part: str, name: str, seconds: float) -> ET.Element:
        seen[f"{part}/{name}"] += 1
        again = seen[f"{part}/{name}"]
        stem = PurePath(report.model).stem or "model"
        attributes = {
            "classname": _clean(f"onnx-passes.{stem}.{part}"),
            "name": _clean(name if again == 1 else f"{name} ({again})"),
            "time": f"{seconds:.3f}",
        }
        return ET.Element("testcase", attributes)

    for done in report.passes:
        name = f"{done.group}/{done.name}" if done.group else done.name
        element = case("passes", name, done.seconds)
        _judge_pass(element, done, report)
        marked |= len(element) > 0
        yield element
    for check in report.final:
        name = f"{check.kind} on {check.engine}" if check.engine else check.kind
        element = case("result", name, check.seconds)
        _judge_check(element, check, report)
        marked |= len(element) > 0
        yield element
    error = summary.run_error(report)
    if error or (doubts and not marked):
        element = case("run", "run", 0.0)
        _add(element, "error" if error else "skipped", error or doubts[0])
        yield element


def _judge_pass(element: ET.Element, done: PassReport, report: RunReport) -> None:
    words = summary.verdict_words(done)
    if done.action == "waived":
        _add(element, "skipped", f"failed, and waived: {words.why}")
    elif done.verdict is Verdict.FAILED:
        broke = summary.failing(done.checks) is not None
        told = done.error or words.why or words.head
        rows = FailureRows(_GLYPHS, report).full(done)
        _add(element, "failure" if broke else "error", told, rows)
    elif done.verdict is Verdict.NOT_VERIFIED:
        missing = words.why or (
            "no check was made" if report.verify else "verification was off"
        )
        _add(element, "skipped", f"not verified: {missing}")


def _judge_check(element: ET.Element, check: Check, report: RunReport) -> None:
    words = summary.check_words(check)
    if check.verdict is Verdict.FAILED:
        rows = FailureRows(_GLYPHS, report).full(None)
        _add(element, "failure", words.why or words.head, rows)
    elif check.verdict is Verdict.NOT_VERIFIED:
        _add(element, "skipped", f"not verified: {words.why}")


def _add(element: ET.Element, kind: str, message: str, rows: Iterable[Row] = ()) -> None:
    first = message.strip().splitlines()[0] if message.strip() else kind
    child = ET.SubElement(element, kind, message=_clean(first))
    if kind != "skipped":
        head, colon, _ = first.partition(":")
        named = bool(colon) and head.isidentifier()
        child.set(
            "type", head if named else "VerificationError" if kind == "failure" else kind
        )
        child.text = printable("\n".join([message, *(f"{k:<10} {told}" for k, told in rows)]))


def _properties(report: RunReport) -> Iterator[tuple[str, str]]:
    yield "verification", "on" if report.verify else "off"
    yield "verdict", summary.outcome(report).head
    for name, version in report.versions.items():
        yield f"version.{name}", version
    for name, told in report.machine.items():
        yield f"machine.{name}", told
    for engine in report.engines:
        for name, value in engine.details.items():
            yield f"engine.{engine.name}.{name}", str(value)
    if report.reference:
        yield "inputs", str(report.reference)


def _log(report: RunReport) -> Iterator[str]:
    for done in report.passes:
        words = summary.verdict_words(done)
        nodes = _GLYPHS.step(done.nodes_before, done.nodes_after)
        applied = plural(len(done.rewrites), "rewrite")
        yield f"{done.name}: {words.head}; nodes {nodes}; {applied}"
        yield from done.notes
    yield from map(str, report.waivers)
    yield from report.notes


def _clean(text: str) -> str:
    return printable(text).replace("\n", " ")
