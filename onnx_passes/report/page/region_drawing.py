"""A drawing of the part of a graph that failed: its nodes before and after, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from onnx_passes.plain import PlainDict
from onnx_passes.report.pass_report import Blame
from onnx_passes.report.text import plural
from onnx_passes.verify.result import OutputCheck

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
class GraphBox:
    """A box of a drawn graph: a node, or a value that comes in or goes out.

    Attributes:
        label: Its text.
        style: "op", "value", "right" or "wrong".
        level: Its row, from the top.
        left: Its left edge in pixels.
    """

    label: str
    style: str
    level: int
    left: float = 0.0

    @property
    def width(self) -> float:
        """Width in pixels."""
        return max(34.0, len(self.label) * _CHARACTER + 18)

    @property
    def top(self) -> float:
        """Upper edge in pixels."""
        return _EDGE + self.level * (_HEIGHT + _GAP_Y)

    @property
    def middle(self) -> float:
        """Horizontal middle in pixels."""
        return self.left + self.width / 2


@dataclass(frozen=True)
class DrawnGraph:
    """Nodes as a graph, what they read on top and what they compute below.

    Attributes:
        boxes: The nodes and values.
        wires: Paths in SVG.
        width: Width in pixels.
        height: Height in pixels.
        label: What it shows, for those who cannot see it.
        box_height: Height of each box in pixels.
    """

    boxes: Sequence[GraphBox]
    wires: Sequence[str]
    width: float
    height: float
    label: str
    box_height: int = _HEIGHT


def read_nodes(texts: Iterable[str]) -> list[NodeText] | None:
    """Return nodes from lines such as ``y = Add(a, b)``; None if one is of another form."""
    found = []
    for text in texts:
        outputs, _, call = text.partition(" = ")
        op, _, rest = call.partition("(")
        end = rest.find(") {") if rest.endswith("}") else len(rest) - rest.endswith(")")
        if not op or end in (-1, len(rest)):
            return None
        found.append(NodeText(op.strip(), _names(rest[:end]), _names(outputs)))
    return found


def drawing(blame: Blame) -> tuple[PlainDict, PlainDict] | None:
    """Return the nodes before and after a rewrite as graphs; None if they cannot be drawn."""
    before, after = read_nodes(blame.nodes), read_nodes(blame.new_nodes)
    if not before or after is None or max(len(before), len(after)) > _MOST_NODES:
        return None
    wrong = blame.value
    return (
        _side("Before", before, wrong, wrong.expected if wrong else None, "right"),
        _side("After", after, wrong, wrong.actual if wrong else None, "wrong"),
    )


def _side(
    title: str, nodes: list[NodeText], wrong: OutputCheck | None, told: str | None, style: str
) -> PlainDict:
    value = None
    if told is not None and wrong is not None:
        place = "" if wrong.worst is None else f"[{', '.join(map(str, wrong.worst))}]"
        value = f"{_short(wrong.output)}{place} = {told[:60]}"
    shown = graph(nodes, wrong.output if wrong else None, style) if nodes else None
    return {"title": title, "graph": shown, "value": value, "style": style}


def graph(
    nodes: Sequence[NodeText], wrong: str | None, style: str, *, loose: Sequence[str] = ()
) -> DrawnGraph:
    """Return nodes as a graph.

    Args:
        nodes: In topological order.
        wrong: The value that differs; None for none.
        style: Class of that value.
        loose: Values that are drawn if there is no node.
    """
    boxes, edges = _boxes(nodes, wrong, style)
    if not nodes:
        boxes = {name: GraphBox(name, "value", 0) for name in loose}
    levels: dict[int, list[GraphBox]] = {}
    for box in boxes.values():
        levels.setdefault(box.level, []).append(box)
    wide = max(sum(b.width + _GAP_X for b in row) - _GAP_X for row in levels.values())
    spare = 30 if any(boxes[b].level - boxes[a].level > 1 for a, b in edges) else 0
    for row in levels.values():
        x = (wide - sum(b.width + _GAP_X for b in row) + _GAP_X) / 2 + spare + _EDGE
        for box in row:
            box.left = x
            x += box.width + _GAP_X
    return DrawnGraph(
        list(boxes.values()),
        [_wire(boxes[start], boxes[end]) for start, end in edges],
        wide + 2 * (_EDGE + spare),
        (max(levels) + 1) * (_HEIGHT + _GAP_Y) - _GAP_Y + 2 * _EDGE,
        f"{plural(len(nodes), 'node')}: {', '.join(n.op for n in nodes)}",
    )


def _boxes(
    nodes: Sequence[NodeText], wrong: str | None, style: str
) -> tuple[dict[str, GraphBox], list[tuple[str, str]]]:
    """Return boxes by key, and edges: inputs of the part on top, what it gives below."""
    makers = {name: index for index, node in enumerate(nodes) for name in node.outputs}
    read = {name for node in nodes for name in node.inputs}
    levels: list[int] = []
    for index, node in enumerate(nodes):
        above = [levels[makers[n]] for n in node.inputs if makers.get(n, index) < index]
        levels.append(max(above, default=0) + 1)
    boxes: dict[str, GraphBox] = {}
    edges: list[tuple[str, str]] = []
    for index, node in enumerate(nodes):
        for name in node.inputs:
            if name not in makers:
                # Right above the first node that reads it.
                boxes.setdefault(
                    f"in {name}", GraphBox(_short(name), "value", levels[index] - 1)
                )
        boxes[f"node {index}"] = GraphBox(_short(node.op), "op", levels[index])
        edges += [
            (f"node {makers[n]}" if n in makers else f"in {n}", f"node {index}")
            for n in node.inputs
            if makers.get(n, -1) < index
        ]
    last = max((box.level for box in boxes.values()), default=0) + 1
    for name, index in makers.items():
        if (name not in read or name == wrong) and not name.startswith(UNNAMED):
            boxes[f"out {name}"] = GraphBox(
                _short(name), style if name == wrong else "value", last
            )
            edges.append((f"node {index}", f"out {name}"))
    return boxes, edges


def _wire(start: GraphBox, end: GraphBox) -> str:
    x1, x2, y1, y2 = start.middle, end.middle, start.top + _HEIGHT, end.top
    middle = (y1 + y2) / 2
    # Past the boxes between, which stand in the middle.
    aside = 0.0 if end.level - start.level == 1 else 20 + max(start.width, end.width)
    points = ((x1 + aside, middle), (x2 + aside, middle), (x2, y2))
    curve = " ".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f"M{x1:.1f} {y1:.1f} C{curve}"


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(", ")))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:9]}…{text[-12:]}"
