"""A drawing of the part of a graph that failed: its nodes before and after, side by side."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from onnx_passes.report.page.markup import Child, Element, tag
from onnx_passes.report.pass_report import Blame
from onnx_passes.report.text import plural
from onnx_passes.verify.result import OutputCheck

_NODE = re.compile(r"(?P<outputs>.*?) = (?P<op>[^(]+)\((?P<inputs>.*?)\)(?: \{.*\})?", re.S)
_MOST_NODES = 12
UNNAMED = "\N{ZERO WIDTH SPACE}"
"""Begins the name of a value that is not shown."""
_LONGEST = 22  # characters of a label
_CHARACTER = 7.3  # width of one in pixels
_HEIGHT, _GAP_X, _GAP_Y, _EDGE = 30, 18, 34, 8


@dataclass(frozen=True)
class NodeText:
    """A node as the text of a report shows it.

    Attributes:
        op: Its operator.
        inputs: Names of what it reads.
        outputs: Names of what it computes.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass
class _Box:
    label: str
    style: str
    level: int
    x: float = 0.0

    @property
    def width(self) -> float:
        return max(34.0, len(self.label) * _CHARACTER + 18)


def read_nodes(texts: Iterable[str]) -> list[NodeText] | None:
    """Return nodes from lines such as ``y = Add(a, b)``; None if one is of another form."""
    found = []
    for text in texts:
        match = _NODE.fullmatch(text)
        if match is None:
            return None
        inputs, outputs = (_names(match[key]) for key in ("inputs", "outputs"))
        found.append(NodeText(match["op"].strip(), inputs, outputs))
    return found


def drawing(blame: Blame) -> Element | None:
    """Return the nodes before and after a rewrite as graphs; None if they cannot be drawn."""
    before, after = read_nodes(blame.nodes), read_nodes(blame.new_nodes)
    if not before or after is None or max(len(before), len(after)) > _MOST_NODES:
        return None
    wrong = blame.value
    return tag(
        "div",
        _side("Before", before, wrong, wrong.expected if wrong else None, "right"),
        _side("After", after, wrong, wrong.actual if wrong else None, "wrong"),
        class_="drawn",
    )


def _side(
    title: str, nodes: list[NodeText], wrong: OutputCheck | None, told: str | None, style: str
) -> Element:
    name = None if wrong is None else wrong.output
    children: list[Child] = [tag("figcaption", title)]
    if nodes:
        children.append(graph(nodes, name, style))
    else:
        children.append(tag("p", "No node: its values come from elsewhere.", class_="caption"))
    if told is not None and wrong is not None:
        place = "" if wrong.worst is None else f"[{', '.join(map(str, wrong.worst))}]"
        value = tag("code", f"{_short(wrong.output)}{place} = {told[:60]}", class_=style)
        children.append(tag("p", value))
    return tag("figure", children)


def graph(
    nodes: Sequence[NodeText], wrong: str | None, style: str, *, loose: Sequence[str] = ()
) -> Element:
    """Return nodes as a graph, what they read on top and what they compute below.

    Args:
        nodes: In topological order.
        wrong: The value that differs; None for none.
        style: Class of that value.
        loose: Values that are drawn if there is no node.
    """
    boxes, edges = _boxes(nodes, wrong, style)
    if not nodes:
        boxes = {name: _Box(name, "value", 0) for name in loose}
    levels: dict[int, list[_Box]] = {}
    for box in boxes.values():
        levels.setdefault(box.level, []).append(box)
    wide = max(sum(b.width + _GAP_X for b in row) - _GAP_X for row in levels.values())
    for row in levels.values():
        x = (wide - sum(b.width + _GAP_X for b in row) + _GAP_X) / 2
        for box in row:
            box.x = x
            x += box.width + _GAP_X
    spare = 30 if any(boxes[b].level - boxes[a].level > 1 for a, b in edges) else 0
    width = wide + 2 * (_EDGE + spare)
    for box in boxes.values():
        box.x += spare
    height = (max(levels) + 1) * (_HEIGHT + _GAP_Y) - _GAP_Y + 2 * _EDGE
    return tag(
        "svg",
        [_line(boxes[start], boxes[end]) for start, end in edges],
        [_drawn(box) for box in boxes.values()],
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}",
        role="img",
        aria_label=f"{plural(len(nodes), 'node')}: {', '.join(n.op for n in nodes)}",
    )


def _boxes(
    nodes: Sequence[NodeText], wrong: str | None, style: str
) -> tuple[dict[str, _Box], list[tuple[str, str]]]:
    """Return boxes by key, and edges: inputs of the part on top, what it gives below."""
    makers = {name: index for index, node in enumerate(nodes) for name in node.outputs}
    read = {name for node in nodes for name in node.inputs}
    levels: list[int] = []
    for index, node in enumerate(nodes):
        above = [levels[makers[n]] for n in node.inputs if makers.get(n, index) < index]
        levels.append(max(above, default=0) + 1)
    boxes: dict[str, _Box] = {}
    edges: list[tuple[str, str]] = []
    for index, node in enumerate(nodes):
        for name in node.inputs:
            if name not in makers:
                # Right above the first node that reads it.
                boxes.setdefault(f"in {name}", _Box(_short(name), "value", levels[index] - 1))
        boxes[f"node {index}"] = _Box(_short(node.op), "op", levels[index])
        edges += [
            (f"node {makers[n]}" if n in makers else f"in {n}", f"node {index}")
            for n in node.inputs
            if makers.get(n, -1) < index
        ]
    last = max((box.level for box in boxes.values()), default=0) + 1
    for name, index in makers.items():
        if (name not in read or name == wrong) and not name.startswith(UNNAMED):
            boxes[f"out {name}"] = _Box(
                _short(name), style if name == wrong else "value", last
            )
            edges.append((f"node {index}", f"out {name}"))
    return boxes, edges


def _drawn(box: _Box) -> Element:
    y = _EDGE + box.level * (_HEIGHT + _GAP_Y)
    x = _EDGE + box.x
    radius = 5 if box.style == "op" else _HEIGHT / 2
    return tag(
        "g",
        tag("rect", x=x, y=y, width=box.width, height=_HEIGHT, rx=radius),
        tag("text", box.label, x=x + box.width / 2, y=y + _HEIGHT / 2 + 4),
        class_=box.style,
    )


def _line(start: _Box, end: _Box) -> Element:
    x1, x2 = (_EDGE + box.x + box.width / 2 for box in (start, end))
    y1 = _EDGE + start.level * (_HEIGHT + _GAP_Y) + _HEIGHT
    y2 = _EDGE + end.level * (_HEIGHT + _GAP_Y)
    middle = (y1 + y2) / 2
    # Past the boxes between, which stand in the middle.
    aside = 0.0 if end.level - start.level == 1 else 20 + max(start.width, end.width)
    points = ((x1 + aside, middle), (x2 + aside, middle), (x2, y2))
    curve = " ".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return tag("path", d=f"M{x1:.1f} {y1:.1f} C{curve}", class_="wire")


def _names(text: str) -> tuple[str, ...]:
    return tuple(_each(text))


def _each(text: str) -> Iterator[str]:
    yield from (name for name in text.split(", ") if name)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:9]}…{text[-12:]}"
