"""The page of a model: one file, whose scripts are its own, and which asks for nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING

from onnx_passes.plain import PlainDict
from onnx_passes.report.page.rendering import read_template, render_page
from onnx_passes.report.text import plural

if TYPE_CHECKING:
    from markupsafe import Markup

_SCRIPTS = ("tree.js", "layout.js", "draw.js", "panel.js", "main.js")


def to_page(title: str, data: PlainDict, facts: Sequence[str], ranges: str) -> str:
    """Return a model as a page for a browser.

    Args:
        title: What the model is called.
        data: What :meth:`~onnx_passes.report.view.graph.Drawing.of` returns.
        facts: What the head says of the model.
        ranges: Where the ranges of values come from, in a clause.
    """
    return render_page(
        "view.html",
        f"{title[:200]} - onnx-passes view",
        "view/view.css",
        [_dagre(), "\n".join(read_template(f"view/{name}") for name in _SCRIPTS)],
        model=title,
        facts=[plural(len(data["nodes"]), "node"), *facts],
        ranges=ranges,
        licence=_read_vendor("LICENSE"),
        data=_json(data),
    )


def _json(data: PlainDict) -> Markup:
    from markupsafe import Markup

    # No name may end the element: the only way to do so begins with this sign.
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))


def _dagre() -> str:
    # Browsers ask for the map that the last line names.
    text = _read_vendor("dagre.min.js")
    return "\n".join(line for line in text.splitlines() if not line.startswith("//#"))


def _read_vendor(name: str) -> str:
    place = resources.files("onnx_passes.report").joinpath("vendor", "dagre", name)
    return place.read_text("utf-8")
