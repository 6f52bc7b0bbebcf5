"""Which nodes of a model an engine rejects, and the parts that it takes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from onnx_passes.errors import EngineError, ModelError
from onnx_passes.model.copy import copy_model
from onnx_passes.model.extract import Cut, extract
from onnx_passes.model.walk import all_nodes, subgraphs_of, topological_order, values_read
from onnx_passes.plain import PlainDict
from onnx_passes.runtime.engine_base import Engine
from onnx_passes.runtime.isolated import IsolatedEngine
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.runtime.tensorrt.engine import TensorRtEngine, compiler_of
from onnx_passes.runtime.tensorrt.parsing import Refused, parser_refusals
from onnx_passes.verify.region import find_untyped_input, name_of, node_model
from onnx_passes.verify.well_formed import infer_types


@dataclass(frozen=True)
class ModelPart:
    """One part of a model; weights are shared."""

    supported: bool
    model: ir.Model


def parts_of(model: ir.Model, apart: Collection[ir.Node]) -> list[ModelPart]:
    """Cut a model so that some nodes are in parts without others.

    Each node goes to the earliest part that can hold it, which keeps the number of parts as
    small as the longest change between the two kinds on any path. Constants go to each part
    that reads them. Types of inner values must be known, or ModelError is raised. Parts are in
    the order in which they run, and are fed by name.
    """
    level: dict[ir.Node, int] = {}
    free = {
        value
        for node in model.graph
        for value in node.outputs
        if node.op_type == "Constant" and not node.domain and node not in apart
    }
    order = [
        node
        for node in topological_order(model.graph)
        if not all(v in free and not v.is_graph_output() for v in node.outputs)
    ]
    for node in order:
        makers = [maker for v in values_read(node) if (maker := v.producer()) in level]
        least = max((level[maker] for maker in makers if maker is not None), default=0)
        # Even parts are taken, odd ones are not.
        level[node] = least + (least % 2 != (node in apart))
    last_read: dict[ir.Value, int] = {}
    for node in order:
        for value in values_read(node):
            last_read[value] = max(level[node], last_read.get(value, 0))
    found = []
    for number in sorted(set(level.values())):
        nodes = [node for node in order if level[node] == number]
        made = {v for node in nodes for v in node.outputs}
        outs = [
            v
            for node in nodes
            for v in node.outputs
            if v.is_graph_output() or last_read.get(v, -1) > number
        ]
        ins = dict.fromkeys(v for n in nodes for v in values_read(n) if v not in made)
        starts = [Cut(_typed(v)) for v in ins if v not in free and not _weight(v)]
        ends = [Cut(str(v.name)) for v in outs]
        if ends:
            found.append(ModelPart(number % 2 == 0, extract(model, starts, ends)))
    return found


def _weight(value: ir.Value) -> bool:
    return value.is_initializer() and not value.is_graph_input()


def _typed(value: ir.Value) -> str:
    if value.type is None:
        raise ModelError(
            f"the model cannot be cut at {value.name!r}: its type is not known",
            help="declare it in the value_info of the model",
        )
    return str(value.name)


@dataclass(frozen=True)
class Rejected:
    """A node that an engine does not take.

    Attributes:
        node: Its name; the first value that it computes where it has none.
        op_type: Its operator, with the domain where that is not ONNX's own.
        reason: Why, in the engine's words.
        inside: The node of the main graph that holds it; empty for one of the main graph.
    """

    node: str
    op_type: str
    reason: str
    inside: str = ""

    def as_dict(self) -> PlainDict:
        """Return what ``--json`` prints."""
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class Capability:
    """What an engine makes of a model.

    Attributes:
        engine: Its name.
        nodes: Number of nodes of the main graph.
        rejected: Those that it does not take, and nodes inside them, in the graph's order.
        unknown: Nodes that were not asked about alone: the type of an input is not known.
            They count as rejected in ``parts``.
        whole: What it says against the whole model; empty where it takes it.
    """

    engine: str
    nodes: int
    rejected: tuple[Rejected, ...]
    unknown: tuple[str, ...]
    whole: str
    _model: ir.Model = field(repr=False, compare=False)
    _bad: frozenset[ir.Node] = field(repr=False, compare=False)

    @property
    def supported(self) -> bool:
        """Whether the engine takes the whole model."""
        return not self.whole

    def as_dict(self) -> PlainDict:
        """Return what ``--json`` prints."""
        return {
            "engine": self.engine,
            "supported": self.supported,
            "nodes": self.nodes,
            "rejected": [each.as_dict() for each in self.rejected],
            "unknown": list(self.unknown),
            "whole": self.whole,
        }

    def parts(self) -> list[ModelPart]:
        """Cut the model into as few parts as possible that the engine takes, and the rest.

        Run one after the other, fed by name, they give what the model gives.

        Raises:
            ModelError: A type at a cut is not known.
        """
        return parts_of(self._model, self._bad)


def lines(told: PlainDict) -> Iterator[str]:
    """Write what ``Capability.as_dict`` returned, with the parts that were saved, as text."""
    for each in told["rejected"]:
        inside = f" in {each['inside']!r}" if each["inside"] else ""
        yield f"{each['op_type']} {each['node']!r}{inside}: {each['reason']}"
    for name in told["unknown"]:
        yield f"{name!r} was not asked about alone: the type of an input is not known"
    outer = sum(not each["inside"] for each in told["rejected"])
    if told["supported"]:
        yield f"{told['engine']} takes the model: {told['nodes']} nodes"
    else:
        yield f"{told['engine']} rejects {outer} of {told['nodes']} nodes"
        if not outer:
            yield f"each is taken alone; of the model it says: {told['whole']}"
    for part in told.get("parts", ()):
        ports = f"{', '.join(part['inputs']) or 'nothing'} -> {', '.join(part['outputs'])}"
        yield f"{part['file']}  {part['nodes']} nodes  {ports}"


def capability(model: ir.Model, engine: Engine) -> Capability:
    """Ask an engine which nodes of a model it does not take.

    TensorRT's parser is asked about the model, then about what is left without the nodes
    that it names, until it takes each part. Other engines load the model, and where they do
    not, each node alone. An execution provider of ONNX Runtime is asked without the CPU to
    fall back to.

    Args:
        model: The model; it is not changed.
        engine: The engine.

    Raises:
        EngineUnavailableError: The engine is not on this machine.
    """
    typed = copy_model(model)
    infer_types(typed)  # the types that are unknown then show what it makes of a broken model
    compiler = compiler_of(engine)
    if compiler is None:
        found = _by_loading(typed, _strict(engine))
    else:
        seconds = engine.time_limit if isinstance(engine, IsolatedEngine) else None
        found = _by_parsing(typed, compiler, seconds)
    whole, reasons, unknown = found
    bad = frozenset(node for node in typed.graph if node in reasons or node in unknown)
    return Capability(
        engine.name,
        len(typed.graph),
        tuple(_rejected(typed, reasons)),
        tuple(name_of(node) for node in unknown),
        whole,
        typed,
        bad,
    )


_Found = tuple[str, dict[ir.Node, str], list[ir.Node]]


def _rejected(model: ir.Model, reasons: dict[ir.Node, str]) -> Iterator[Rejected]:
    for node in model.graph:
        if node in reasons:
            yield _row(node, reasons[node])
            for inner in _within(node):
                if inner in reasons:
                    yield _row(inner, reasons[inner], name_of(node))


def _row(node: ir.Node, reason: str, inside: str = "") -> Rejected:
    operator = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    return Rejected(name_of(node), operator, " ".join(reason.split()), inside)


def _within(node: ir.Node) -> Iterator[ir.Node]:
    for graph in subgraphs_of(node):
        yield from graph.all_nodes()


def _strict(engine: Engine) -> Engine:
    """Return an engine that leaves no node to the CPU unseen."""
    inner = engine.engine if isinstance(engine, IsolatedEngine) else engine
    if not isinstance(inner, OnnxRuntimeEngine) or inner.provider == "CPUExecutionProvider":
        return engine
    strict = dataclasses.replace(inner, cpu_fallback=False)
    if not isinstance(engine, IsolatedEngine):
        return strict
    options = {**json.loads(engine.options), "cpu_fallback": False}
    return dataclasses.replace(engine, engine=strict, options=json.dumps(options))


def _by_loading(model: ir.Model, engine: Engine) -> _Found:
    engine.describe()  # raises where it is not on this machine
    whole = _against(engine, model)
    reasons: dict[ir.Node, str] = {}
    unknown: list[ir.Node] = []
    for node in model.graph if whole else ():
        for each in (node, *_within(node)):
            if each is not node and node not in reasons:
                break
            if find_untyped_input(each) is not None:
                unknown += [each] if each is node else []
            elif reason := _against(engine, node_model(each, model)):
                reasons[each] = reason
    apart = {*reasons, *unknown}
    for part in _cut(model, apart) if whole else ():
        if part.supported and (reason := _against(engine, part.model)):
            made = {value.name for node in part.model.graph for value in node.outputs}
            for node in model.graph:
                if node not in apart and made & {value.name for value in node.outputs}:
                    reasons[node] = _together(reason)
    return whole, reasons, unknown


def _cut(model: ir.Model, apart: Collection[ir.Node]) -> list[ModelPart]:
    # If types are missing the nodes are returned all the same; asking for parts then raises.
    with suppress(ModelError):
        return parts_of(model, apart)
    return []


def _against(engine: Engine, model: ir.Model) -> str:
    try:
        with engine.prepare(model):
            return ""
    except EngineError as error:
        # Of class EngineUnavailableError too: of a provider that takes none of the nodes.
        if "fallback to CPU EP" in error.message:
            return "the provider does not take it: it would run on the CPU"
        return error.message


def _by_parsing(model: ir.Model, compiler: TensorRtEngine, seconds: float | None) -> _Found:
    """Ask the parser, leave out what it names, and ask about the rest until it takes that."""
    if (missing := compiler.missing) is not None:
        raise missing
    nodes = {f"node_{index}": node for index, node in enumerate(model.graph)}
    names = {node: node.name for node in all_nodes(model)}
    for name, node in nodes.items():
        node.name = name
    try:
        return _rounds(model, compiler, seconds, nodes)
    finally:
        for node, old in names.items():
            node.name = old


def _rounds(
    model: ir.Model, compiler: TensorRtEngine, seconds: float | None, nodes: dict[str, ir.Node]
) -> _Found:
    def ask(models: Sequence[ir.Model]) -> list[list[Refused]]:
        return parser_refusals(compiler.package, models, seconds=seconds)

    reasons: dict[ir.Node, str] = {}
    asked = [model]
    answers = ask(asked)
    whole = "; ".join(f"{_where(nodes.get(r.node))}{r.reason}" for r in answers[0])
    while any(answers):
        before = len(reasons)
        for part, answer in zip(asked, answers, strict=True):
            named = [each for each in answer if each.node in nodes]
            for each in named:
                reasons.setdefault(nodes[each.node], each.reason)
            if answer and not named:
                _each_alone(part, ask, nodes, reasons)
        if len(reasons) == before:
            for part, answer in zip(asked, answers, strict=True):
                for node in part.graph if answer else ():
                    reasons.setdefault(nodes[str(node.name)], _together(answer[0].reason))
        parts = parts_of(model, reasons)
        asked = [part.model for part in parts if part.supported]
        answers = ask(asked)
    return whole, reasons, []


def _each_alone(
    part: ir.Model, ask: Any, nodes: dict[str, ir.Node], reasons: dict[ir.Node, str]
) -> None:
    inner = [node for node in part.graph if find_untyped_input(node) is None]
    for node, answer in zip(inner, ask([node_model(n, part) for n in inner]), strict=True):
        if answer:
            reasons.setdefault(nodes[str(node.name)], answer[0].reason)


def _together(reason: str) -> str:
    return f"taken alone, and refused together with its neighbours: {reason}"


def _where(node: ir.Node | None) -> str:
    return "" if node is None else f"{node.op_type}: "
