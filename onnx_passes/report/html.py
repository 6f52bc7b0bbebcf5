"""Reports as one self-contained HTML page: no scripts, no network, nothing to trust.

The page is built as a tree (:mod:`onnx_passes.report.page.markup`), so names from a model stay
text; its content security policy forbids scripts, requests and styles other than its own.
"""

from __future__ import annotations

import base64
import hashlib
import os
from importlib import resources

from onnx_passes.report import summary
from onnx_passes.report.page import figures, overview, page_foot, pass_lines
from onnx_passes.report.page.markup import Child, Element, render, tag
from onnx_passes.report.report_files import write_text
from onnx_passes.report.run_report import RunReport


def to_html(report: RunReport) -> str:
    """Return a run as a page for a browser, of some megabytes at most.

    Long lists are cut, failures last, and say how much is left out.
    """
    drawn = list(figures.figures(report))
    verdict = summary.outcome(report).head
    return document(
        f"{verdict}: {report.model[:200]}",
        tag("a", "Skip to the passes", href="#passes", class_="skip"),
        overview.hero(report),
        tag(
            "main",
            list(overview.failures(report)),
            overview.warnings(report),
            overview.tiles(report),
            _figures(drawn),
            pass_lines.passes(report),
            page_foot.end_result(report),
            page_foot.engines(report),
            page_foot.background(report),
        ),
    )


def _figures(drawn: list[Element]) -> Element | None:
    title = tag("h2", "The run in pictures", class_="hidden")
    return tag("section", title, tag("div", drawn, class_="figures")) if drawn else None


def write_html(report: RunReport, path: str | os.PathLike[str]) -> None:
    """Write a run as one HTML file.

    Args:
        report: The report of the run.
        path: The file.

    Raises:
        UsageError: The file cannot be written.
    """
    write_text(to_html(report), path)


def document(title: str, *body: Child) -> str:
    """Return a whole page: its head with the style and the policy, and a body."""
    style = resources.files("onnx_passes.report").joinpath("templates/report.css").read_text()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    sheet = tag("style")
    sheet.text = style
    page = tag(
        "html",
        tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=policy),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            tag("link", rel="icon", href="data:,"),
            tag("title", title),
            sheet,
        ),
        tag("body", *body),
        lang="en",
    )
    return "<!DOCTYPE html>\n" + render(page) + "\n"
