"""A model as a page: its graph, collapsed by scope, searchable, and coloured by a saved run.

The page is one file, whose scripts are its own, and which asks for nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from itertools import pairwise
from typing import TYPE_CHECKING

import onnx_ir as ir

from onnx_passes.model.walk import all_nodes, subgraphs_of
from onnx_passes.passes.patterns import shorten
from onnx_passes.plain import PlainDict, spelled
from onnx_passes.report.pages import read_template, render_page
from onnx_passes.report.run_report import PassReport, RewriteSummary, RunReport
from onnx_passes.report.text import ends, one_line, plural, size
from onnx_passes.verify.evidence import ORDER, Evidence
from onnx_passes.verify.node_equality import constant_tensor

if TYPE_CHECKING:
    from markupsafe import Markup


_LARGEST = 48  # children of a group that are shown side by side
_PLACES = ("pkg.torch.onnx.name_scopes", "namespace")  # metadata of exporters


@dataclass
class NodeGroup:
    """A group of nodes; its parent is a place among the groups, None for the root.

    Children are in topological order: whether each is a group, and its place.
    """

    name: str
    parent: int | None
    children: list[tuple[bool, int]] = field(default_factory=list)


@dataclass
class Groups:
    """A tree of groups; the first one is the root, and each stands after its parent."""

    groups: list[NodeGroup] = field(default_factory=lambda: [NodeGroup("", None)])
    _known: dict[tuple[int, str], int] = field(default_factory=dict)

    def add(self, parent: int, name: str) -> int:
        self.groups.append(NodeGroup(name, parent))
        place = len(self.groups) - 1
        self.groups[parent].children.append((True, place))
        return place

    def find(self, parent: int, path: Iterable[str]) -> int:
        """Return the group of a path, from the outside in; missing groups are made."""
        place = parent
        for name in path:
            key = (place, name)
            if key not in self._known:
                self._known[key] = self.add(place, name)
            place = self._known[key]
        return place

    def place(self, group: int, node: int) -> None:
        self.groups[group].children.append((False, node))

    def tidy(self) -> None:
        """Lift what is alone in its group, and split groups too large to be seen at once."""
        for place in reversed(range(1, len(self.groups))):
            self._lift(place)
        for place in range(len(self.groups)):
            self._split(place)

    def _lift(self, place: int) -> None:
        """Put the only child of a group into its place; the name of a group keeps both."""
        group = self.groups[place]
        if len(group.children) != 1 or group.parent is None:
            return
        (is_group, child), siblings = group.children[0], self.groups[group.parent].children
        siblings[siblings.index((True, place))] = (is_group, child)
        group.children = []
        if is_group:
            below = self.groups[child]
            below.parent, below.name = group.parent, f"{group.name} / {below.name}"

    def _split(self, place: int) -> None:
        while len(children := self.groups[place].children) > _LARGEST:
            runs = _runs(children)
            self.groups[place].children = []
            start = 1
            for run in runs:
                end = start + sum(self._size(*child) for child in run)
                part = self.add(place, f"nodes {start:,} to {end - 1:,}")
                self.groups[part].children = run
                for is_group, child in run:
                    if is_group:
                        self.groups[child].parent = part
                start = end

    def _size(self, is_group: bool, place: int) -> int:
        if not is_group:
            return 1
        return sum(self._size(*child) for child in self.groups[place].children)


def _runs(children: list[tuple[bool, int]]) -> list[list[tuple[bool, int]]]:
    count = -(-len(children) // _LARGEST)
    ends = [len(children) * i // count for i in range(count + 1)]
    return [children[low:high] for low, high in pairwise(ends)]


def scope_of(node: ir.Node) -> Sequence[str]:
    """Return the scope that an exporter gave a node, from the outside in; empty for none.

    It is read from the metadata of exporters, or from a name such as ``/layer1/conv/Conv``.
    """
    for key in _PLACES:
        text = node.metadata_props.get(key)
        if text:
            return _listed(text)[:-1] if text.startswith("[") else text.split("/")[:-1]
    return [part for part in (node.name or "").split("/")[:-1] if part]


def _listed(text: str) -> list[str]:
    """Return the last parts of a list such as ``['', 'layer1', 'layer1.0', 'relu']``."""
    names = [part.strip(" '\"") for part in text.strip("[]").split(",")]
    found: list[str] = []
    outer = ""
    for name in filter(None, names):
        found.append(name.removeprefix(f"{outer}."))
        outer = name
    return found


Interval = tuple[float, float]
_LONGEST = 300
_INNER, _INPUT, _WEIGHT = 0, 1, 2


@dataclass(frozen=True)
class Mark:
    """The evidence that a run has for a node, and the part of a change that it is in."""

    kind: str
    region: str


@dataclass
class PageContent:
    """Collects what the page of a model holds."""

    ranges: Mapping[str, Interval] = field(default_factory=dict)
    marks: Mapping[str, Mark] = field(default_factory=dict)
    _groups: Groups = field(default_factory=Groups)
    _nodes: list[PlainDict] = field(default_factory=list)
    _values: list[PlainDict] = field(default_factory=list)
    _places: dict[ir.Value, int] = field(default_factory=dict)

    def of(self, model: ir.Model) -> PlainDict:
        """Return a model as data for the page, its functions beside the main graph."""
        outputs = self._graph(model.graph, 0, _INPUT)
        inputs = [self._value(v, _INPUT) for v in model.graph.inputs if not v.is_initializer()]
        for key, function in sorted(model.functions.items()):
            name = "::".join(filter(None, key))
            self._graph(function, self._groups.add(0, f"function {_shown(name)}"), _INPUT)
        self._groups.tidy()
        return {
            "groups": [
                {
                    "n": g.name,
                    "p": g.parent,
                    "c": [[int(kind), place] for kind, place in g.children],
                }
                for g in self._groups.groups
            ],
            "nodes": self._nodes,
            "values": self._values,
            "inputs": inputs,
            "outputs": outputs,
        }

    def _graph(self, graph: ir.Graph | ir.Function, home: int, kind: int) -> list[int]:
        for value in graph.inputs:
            self._value(value, kind)
        for node in graph:
            if _is_constant(node):
                continue  # shown at the nodes that read it, as weights are
            self._node(node, home)
        return [self._value(value, _INNER) for value in graph.outputs]

    def _node(self, node: ir.Node, home: int) -> None:
        place = len(self._nodes)
        group = self._groups.find(home, map(_shown, scope_of(node)))
        told: PlainDict = {
            "n": _shown(node.name or ""),
            "o": _shown(node.op_type),
            "d": _shown(node.domain),
            "s": " / ".join(map(_shown, scope_of(node))),
        }
        self._nodes.append(told)
        self._groups.place(group, place)
        told["i"] = [self._value(v, _INNER) for v in node.inputs if v is not None]
        told["u"] = [self._value(v, _INNER) for v in node.outputs]
        told["a"] = [
            [_shown(name), _shown(str(attribute.value))]
            for name, attribute in node.attributes.items()
            if attribute.type not in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
        ]
        mark = next(
            (self.marks[n] for v in node.outputs if (n := v.name or "") in self.marks), None
        )
        if mark is not None:
            told["e"], told["r"] = mark.kind, _shown(mark.region)
        for index, body in enumerate(subgraphs_of(node)):
            name = _shown(f"{node.op_type} {node.name or ''}: body {index + 1}")
            told["i"] += self._graph(body, self._groups.add(group, name), _INNER)

    def _value(self, value: ir.Value, kind: int) -> int:
        if value in self._places:
            return self._places[value]
        place = self._places[value] = len(self._values)
        tensor = constant_tensor(value)
        told: PlainDict = {"n": _shown(value.name or ""), "t": _type(value, tensor)}
        told["k"] = _WEIGHT if tensor is not None else kind
        dtype = value.dtype if tensor is None else tensor.dtype
        told["f"] = "" if dtype is None else dtype.name.lower()
        if tensor is not None:
            told["b"] = size(tensor.nbytes)
        low, high = self.ranges.get(value.name or "", (-math.inf, math.inf))
        if math.isfinite(low) or math.isfinite(high):
            told["r"] = spelled([float(f"{end:.6g}") for end in (low, high)])
        self._values.append(told)
        return place


def facts_of(model: ir.Model) -> list[str]:
    """Return what the head of the page says of a model."""
    opsets = ", ".join(f"{d or 'ai.onnx'} {v}" for d, v in sorted(model.opset_imports.items()))
    producer = " ".join(filter(None, (model.producer_name, model.producer_version)))
    found = [("opset", opsets), ("IR version", str(model.ir_version)), ("producer", producer)]
    constants = sum(map(_is_constant, all_nodes(model)))
    found.append(("", plural(len(model.graph.initializers), "initializer")))
    found.append(("", plural(constants, "Constant") if constants else ""))
    return [_shown(f"{label} {told}".strip()) for label, told in found if told]


def _is_constant(node: ir.Node) -> bool:
    is_one = node.op_type == "Constant" and node.domain == "" and bool(node.outputs)
    return is_one and constant_tensor(node.outputs[0]) is not None


def _type(value: ir.Value, tensor: ir.TensorProtocol | None) -> str:
    if tensor is not None:
        return f"{tensor.dtype.name.lower()}[{', '.join(map(str, tensor.shape))}]"
    kind = "?" if value.type is None else str(value.type)
    if isinstance(value.type, ir.TensorType):
        kind = value.type.dtype.name.lower()
    if value.shape is None:
        return _shown(kind)
    dims = (str(d) if isinstance(d, int) else d.value or "?" for d in value.shape)
    return _shown(f"{kind}[{', '.join(dims)}]")


def _shown(text: str) -> str:
    return ends(one_line(text), _LONGEST)


def marks_of(report: RunReport, model: ir.Model) -> dict[str, Mark]:
    """Return marks by the name of a value that a node of the model computes.

    A node is marked by each application that matched it or put it there, and by each part of a
    change whose frontier it computes. If there are several, the weakest evidence is kept.
    """
    names: dict[str, str] = {}
    for node in all_nodes(model):
        names.update({shorten(v.name): v.name for v in node.outputs if v.name})
    found: dict[str, Mark] = {}
    for done in report.passes:
        by_number = {rewrite.number: rewrite for rewrite in done.rewrites}
        for part in done.evidence:
            mark = Mark(part.kind.value, _region(done, part))
            for name in _values(part, by_number.values(), part.numbers):
                known = names.get(shorten(name))
                if known is not None and _weaker(mark, found.get(known)):
                    found[known] = mark
    return found


def _region(done: PassReport, part: Evidence) -> str:
    told = f"pass {done.index}, {done.name}: {part.what}"
    return f"{told} ({part.reason})" if part.reason else told


def _values(
    part: Evidence, rewrites: Iterable[RewriteSummary], numbers: Iterable[int]
) -> Iterable[str]:
    yield from part.values
    wanted = set(numbers)
    for rewrite in rewrites:
        if rewrite.number in wanted:
            yield from (name for pair in rewrite.replaced for name in pair)
            for text in (*rewrite.nodes, *rewrite.new_nodes):
                yield from text.partition(" = ")[0].split(", ")


def _weaker(mark: Mark, known: Mark | None) -> bool:
    order = [kind.value for kind in ORDER]
    return known is None or order.index(mark.kind) > order.index(known.kind)


_SCRIPTS = ("tree.js", "layout.js", "draw.js", "panel.js", "main.js")


def to_page(title: str, data: PlainDict, facts: Sequence[str], ranges: str) -> str:
    """Return a model as a page for a browser."""
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
