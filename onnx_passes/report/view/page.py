"""The page of a model: one file, whose scripts are its own, and which asks for nothing."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib import resources

from onnx_passes.plain import PlainDict
from onnx_passes.report.page.markup import Element, render, tag
from onnx_passes.report.text import plural

_SCRIPTS = ("tree.js", "layout.js", "draw.js", "panel.js", "main.js")
_MODES = (
    ("operator", "Operators"),
    ("evidence", "Evidence"),
    ("region", "Regions"),
    ("format", "Formats"),
    ("range", "Ranges"),
)


def to_page(title: str, data: PlainDict, facts: Sequence[str], ranges: str) -> str:
    """Return a model as a page for a browser.

    Args:
        title: What the model is called.
        data: What :meth:`~onnx_passes.report.view.graph.Drawing.of` returns.
        facts: What the head says of the model.
        ranges: Where the ranges of values come from, in a clause.
    """
    scripts = [_dagre(), "\n".join(_read(f"view/{name}") for name in _SCRIPTS)]
    style = _read("view/view.css")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; img-src data:; base-uri 'none'; "
        f"form-action 'none'; script-src {' '.join(repr(_digest(s)) for s in scripts)}"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("link", rel="icon", href="data:,"),
        tag("title", f"{title[:200]} - onnx-passes view"),
        _raw("style", style),
    )
    body = tag(
        "body",
        _header(title, data, facts),
        tag("main", _stage(), _aside(ranges)),
        tag("footer", _notice()),
        _raw("script", _json(data), type="application/json", id="data"),
        [_raw("script", text) for text in scripts],
    )
    return "<!DOCTYPE html>\n" + render(tag("html", head, body, lang="en")) + "\n"


def _header(title: str, data: PlainDict, facts: Sequence[str]) -> Element:
    count = plural(len(data["nodes"]), "node")
    return tag(
        "header",
        tag("h1", title),
        tag("p", ", ".join([count, *facts])),
        tag(
            "div",
            tag("label", "Find a node or value", for_="search"),
            tag("input", type="search", id="search", autocomplete="off", spellcheck="false"),
            tag("label", "Colours", for_="mode"),
            tag(
                "select",
                [tag("option", label, value=value) for value, label in _MODES],
                id="mode",
            ),
            _button("open", "Open more"),
            _button("close", "Close all"),
            class_="bar",
        ),
        tag("ul", id="results", hidden=True),
        tag("p", id="said", role="status"),
    )


def _stage() -> Element:
    return tag(
        "section",
        tag("h2", "Graph", class_="hidden"),
        tag(
            "div",
            _button("in", "+", "Zoom in"),
            _button("out", "\N{MINUS SIGN}", "Zoom out"),
            _button("fit", "Fit", "Fit the whole graph"),
            class_="zoom",
        ),
        tag("div", id="graph"),
        id="stage",
    )


def _aside(ranges: str) -> Element:
    return tag(
        "aside",
        tag("section", tag("h2", "Colours"), tag("ul", id="legend"), tag("p", id="hint")),
        tag(
            "section",
            tag("h2", "Selected"),
            tag("div", tag("p", "Nothing yet. Click a node, or find one."), id="details"),
        ),
        tag("p", f"Ranges: {ranges}.", id="ranges"),
    )


def _notice() -> list[Element]:
    licence = _read_vendor("LICENSE")
    summary = tag("summary", "Licence of the layout: dagre 3.1.3, MIT")
    return [tag("details", summary, tag("pre", licence))]


def _button(name: str, text: str, label: str | None = None) -> Element:
    return tag("button", text, type="button", id=name, aria_label=label)


def _raw(name: str, text: str, **attributes: str) -> Element:
    """Return an element whose text is not escaped, as browsers read style and script."""
    element = tag(name, **attributes)
    element.text = text
    return element


def _json(data: PlainDict) -> str:
    # No name may end the element: the only way to do so begins with this sign.
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _dagre() -> str:
    # Browsers ask for the map that the last line names.
    text = _read_vendor("dagre.min.js")
    return "\n".join(line for line in text.splitlines() if not line.startswith("//#"))


def _read(name: str) -> str:
    return resources.files("onnx_passes.report").joinpath("templates", name).read_text("utf-8")


def _read_vendor(name: str) -> str:
    place = resources.files("onnx_passes.report").joinpath("vendor", "dagre", name)
    return place.read_text("utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
