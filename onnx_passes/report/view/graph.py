"""What the page of a model holds: groups, nodes and values, as plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_passes.model.walk import subgraphs_of
from onnx_passes.plain import PlainDict
from onnx_passes.report.text import ends, one_line, plural, size
from onnx_passes.report.view.collapsed_scopes import Groups, scope_of
from onnx_passes.verify.node_equality import constant_tensor

Interval = tuple[float, float]
_LONGEST = 300
_INNER, _INPUT, _WEIGHT = 0, 1, 2


@dataclass(frozen=True)
class Mark:
    """What a run says of a node.

    Attributes:
        kind: The evidence: "proved", "executed", "outputs only", "blind", "nothing".
        region: The pass and the part of its change, as text.
    """

    kind: str
    region: str


@dataclass
class PageContent:
    """Collects what the page of a model holds.

    Attributes:
        ranges: The least and the greatest number by name of a value.
        marks: What a run says, by name of a value that a node computes.
    """

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
            if node.op_type == "Constant" and node.domain == "" and _is_constant(node):
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
            told["r"] = [_number(low), _number(high)]
        self._values.append(told)
        return place


def facts_of(model: ir.Model) -> list[str]:
    """Return what the head of the page says of a model."""
    opsets = ", ".join(f"{d or 'ai.onnx'} {v}" for d, v in sorted(model.opset_imports.items()))
    producer = " ".join(filter(None, (model.producer_name, model.producer_version)))
    found = [("opset", opsets), ("IR version", str(model.ir_version)), ("producer", producer)]
    count = len(model.graph.initializers)
    found.append(("", plural(count, "initializer")))
    return [_shown(f"{label} {told}".strip()) for label, told in found if told]


def _is_constant(node: ir.Node) -> bool:
    return bool(node.outputs) and constant_tensor(node.outputs[0]) is not None


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


def _number(value: float) -> float | str:
    """Return a number that JSON can hold; the infinities become text."""
    return float(f"{value:.6g}") if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def _shown(text: str) -> str:
    return ends(one_line(text), _LONGEST)
