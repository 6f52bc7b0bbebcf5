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
exclude_patterns = ["decisions/README.md"]
html_theme = "furo"
html_title = "onnx-passes"
html_static_path: list[str] = []
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
# No page of the site needs the network: fonts are the reader's own.
html_theme_options = {"top_of_page_buttons": []}

_LINK = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)#]+)(?:#[^)]*)?\)")


def _read(app: Any, name: str, source: list[str]) -> None:
    """Name files outside the pages by their path in the repository, where no page is."""
    del app
    pages = Path(__file__).parent

    def told(match: re.Match[str]) -> str:
        path = ((pages / name).parent / match[2]).resolve()
        if path.is_relative_to(pages):
            return match[0]
        return f"{match[1]} (`{path.relative_to(pages.parent)}`)"

    source[0] = _LINK.sub(told, source[0])


def setup(app: Any) -> None:
    """Register what is done with each page."""
    app.connect("source-read", _read)
