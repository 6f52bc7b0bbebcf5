"""The documentation as a site: ``make site``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from onnx_passes import __version__

project = "onnx-passes"
copyright = "the onnx-passes maintainers"
version = release = __version__
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "onnx-passes"
html_static_path: list[str] = []
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
# No page of the site needs the network: fonts are the reader's own.
html_theme_options = {"top_of_page_buttons": []}

_LINK = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)#]+)(?:#[^)]*)?\)")


def _read(app: Any, name: str, source: list[str]) -> None:
    """Name files outside the pages by their path; put the pages of a folder below a README."""
    del app
    pages = Path(__file__).parent

    def told(match: re.Match[str]) -> str:
        path = ((pages / name).parent / match[2]).resolve()
        if path.is_relative_to(pages):
            return match[0]
        named = path.relative_to(pages.parent).as_posix()
        return f"`{named}`" if match[1].strip("`") == named else f"{match[1]} (`{named}`)"

    source[0] = _LINK.sub(told, source[0])
    if name.endswith("README"):
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n*\n```\n"


# What the theme leaves out for those who use a keyboard or a screen reader.
_ACCESSIBLE = (
    ('caption" role="heading">', 'caption" role="heading" aria-level="2">'),
    ('<aside class="sidebar-drawer">', '<aside class="sidebar-drawer" aria-label="Pages">'),
    ('<aside class="toc-drawer">', '<aside class="toc-drawer" aria-label="On this page">'),
    ('<div id="search-results">', '<h1>Search</h1><div id="search-results">'),
    ("<pre>", '<pre tabindex="0">'),
    ('<div class="table-wrapper', '<div tabindex="0" class="table-wrapper'),
    ('<th class="head"><p></p></th>', '<td class="head"></td>'),
)


def _finish(app: Any, error: Exception | None) -> None:
    """Complete the pages that were written."""
    if error is not None or app.builder.format != "html":
        return
    for path in Path(app.outdir).rglob("*.html"):
        before = text = path.read_text("utf-8")
        for found, put in _ACCESSIBLE:
            if put not in text:  # a page that was not built again is complete
                text = text.replace(found, put)
        if text != before:
            path.write_text(text, "utf-8")


def setup(app: Any) -> None:
    """Register what is done with each page."""
    app.connect("source-read", _read)
    app.connect("build-finished", _finish)
