"""Drawings of what passes do: the first expression before and after, as two small graphs."""

from __future__ import annotations

import re

from onnx_passes.report.html import UNNAMED, NodeText, graph
from onnx_passes.report.pages import environment

_SPAN = re.compile(r"``(.+?)``", re.S)
_TOKEN = re.compile(r"\s*(\w[\w.:']*|<[^<>]*>|\[[^\[\]]*\]|[-+]?[\d.]+(?:e-?\d+)?|[(),])")
_SVG = """\
{% import "charts.html" as charts %}
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {{ width }} {{ height }}" \
width="{{ width }}" height="{{ height }}"><style>
.ink, text { fill: #17202b; font: 12px ui-monospace, Menlo, Consolas, monospace; }
text { text-anchor: middle; } .ink { text-anchor: start; font-weight: bold; }
rect { fill: #f1f3f6; stroke: #8a94a2; } .op rect { fill: #fff; stroke: #3b5bdb; }
.wire { fill: none; stroke: #5a6675; }
@media (prefers-color-scheme: dark) {
  .ink, text { fill: #e6ebf1; } rect { fill: #1f2833; stroke: #6b7a8c; }
  .op rect { fill: #171e27; stroke: #7c93f5; } .wire { stroke: #98a5b5; }
}
</style>
{%- for title, g, left in parts %}
<text class="ink" x="{{ left + 8 }}" y="14">{{ title }}</text>
{%- set wide, high = "%.0f" % g.width, "%.0f" % g.height %}
<svg viewBox="0 0 {{ wide }} {{ high }}" width="{{ wide }}" x="{{ left }}" y="{{ top }}" \
height="{{ high }}">{{ charts.graph(g) }}</svg>{% endfor %}</svg>
"""
_MOST_NODES = 8
_GAP, _TITLE = 40, 24


class _UnreadError(Exception):
    """The text is not an expression of operators."""


def drawing(docstring: str) -> str | None:
    """Return the drawing of a pass as SVG; None if its docstring has no two expressions."""
    sides = [_nodes(docstring, heading) for heading in ("Before:", "After:")]
    if None in sides or not (sides[0] and sides[0][0]):
        return None
    if max(len(side[0]) for side in sides if side) > _MOST_NODES:
        return None
    graphs = [graph(side[0], None, "value", loose=[side[1]]) for side in sides if side]
    lefts = (0, round(graphs[0].width) + _GAP)
    return (
        environment()
        .from_string(_SVG)
        .render(
            parts=list(zip(("Before", "After"), graphs, lefts, strict=True)),
            width=sum(round(one.width) for one in graphs) + _GAP,
            height=max(round(one.height) for one in graphs) + _TITLE,
            top=_TITLE,
        )
    )


def _nodes(docstring: str, heading: str) -> tuple[list[NodeText], str] | None:
    """Return the nodes of the first expression behind a heading, and the name of its value."""
    block = docstring.partition(heading)[2].partition("\n\n")[0]
    match = _SPAN.search(block)
    if match is None:
        return None
    try:
        return _Reader(" ".join(match[1].split())).read()
    except _UnreadError:
        return None


class _Reader:
    """Reads an expression such as ``Relu(Add(x, c))`` into nodes."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        place = 0
        while place < len(text.rstrip()):
            match = _TOKEN.match(text, place)
            if match is None:
                raise _UnreadError(text)
            self.tokens.append(match[1])
            place = match.end()
        self.nodes: list[NodeText] = []

    def read(self) -> tuple[list[NodeText], str]:
        name = self._value()
        if self.tokens:
            raise _UnreadError(self.tokens)
        return self.nodes, name

    def _value(self) -> str:
        """Read a value; return its name."""
        name = self._next()
        if name in ("(", ")", ","):
            raise _UnreadError(name)
        if self.tokens and self.tokens[0].startswith("<"):
            self._next()
        if not (self.tokens and self.tokens[0] == "("):
            return name
        self._next()
        inputs = []
        while self.tokens and self.tokens[0] != ")":
            inputs.append(self._value())
            if self.tokens and self.tokens[0] == ",":
                self._next()
        if self._next() != ")" or not name[0].isupper():
            raise _UnreadError(name)
        made = f"{UNNAMED}{len(self.nodes)}"
        self.nodes.append(NodeText(name, tuple(inputs), (made,)))
        return made

    def _next(self) -> str:
        if not self.tokens:
            raise _UnreadError("it ends too early")
        return self.tokens.pop(0)
