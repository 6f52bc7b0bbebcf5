"""Reports as one self-contained HTML page: no scripts, no network, nothing to trust.

The templates escape what they show (:mod:`onnx_passes.report.page.rendering`), so names from a
model stay text; the page's policy forbids scripts, requests and styles other than its own.
"""

from __future__ import annotations

from onnx_passes.report.page.figures import figures
from onnx_passes.report.page.overview import top_of
from onnx_passes.report.page.page_foot import foot_of
from onnx_passes.report.page.pass_lines import passes_of
from onnx_passes.report.page.rendering import render_page
from onnx_passes.report.run_report import RunReport


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
        figures=figures(report),
        **top,
        **passes_of(report.passes, {card["done"].index for card in top["cards"]}),
        **foot_of(report),
    )
