"""Which rewrites a compiler does not take, by the region of each, built without the others.

The nodes that rewrites put in place become parts of one model, side by side, so that one build
answers for all. A part that the compiler names, or that a search by halves finds, is built
alone, and so is what it replaced: a rewrite has lost support where only the latter is built.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import onnx_ir as ir

from onnx_passes.errors import ConfigError, EngineError
from onnx_passes.model.walk import all_nodes
from onnx_passes.pipeline.levels import Compiler
from onnx_passes.runtime.base import Array, Engine, Feeds
from onnx_passes.runtime.levels import Finding, Level, examine
from onnx_passes.runtime.tensorrt.engine import fitted, without_profiles
from onnx_passes.verify.cut import makers_of, values_of
from onnx_passes.verify.local import LocalScore
from onnx_passes.verify.region import Region, region_model
from onnx_passes.verify.result import OutputCheck
from onnx_passes.verify.witness import Pieces, Side

BY_REGION = "by its region alone"
"""How a rewrite was found: the compiler takes what it replaced, and not what it put there."""

_MORE = r"[\w./:+{}\[\]-]*"
"""What may stand before and behind the name of a node in that of a layer."""


@dataclass(frozen=True)
class Part:
    """One side of a rewrite, as a model of its own.

    Attributes:
        model: Its nodes. Inputs have the types and shapes that were recorded.
        feeds: The values that its inputs were recorded with.
        nodes: What its nodes are called, by the names that they have here.
    """

    model: ir.Model
    feeds: Mapping[str, Array]
    nodes: Mapping[str, str]


@dataclass(frozen=True)
class Regions:
    """The regions of the rewrites of one pass.

    Attributes:
        compiler: The engine that compiles.
        before: The model before the pass.
        after: The model after it.
        feeds: A sample.
        engine: What runs both, for the types and shapes at the borders of regions.
    """

    compiler: Compiler
    before: ir.Model
    after: ir.Model
    feeds: Feeds
    engine: Engine

    def scores(
        self, pieces: Sequence[Pieces], *, left_in: ir.Model | None = None
    ) -> list[LocalScore | None]:
        """Return for each rewrite what its region shows; None where it lost nothing by itself.

        A rewrite inside a body, or one that a later one replaced, is not looked at.

        Args:
            pieces: The rewrites.
            left_in: The model that must still hold them; by default that after the pass.
        """
        graph = (left_in or self.after).graph
        made = {str(v.name) for node in graph for v in node.outputs}
        looked = [
            piece for piece in pieces if piece.application.outermost and _is_left(piece, made)
        ]
        if not looked:
            return [None] * len(pieces)
        arrays = self._recorded(looked)
        parts: dict[int, Part] = {}
        for number, piece in enumerate(looked):
            part = self._part(f"p{number}", self.after, piece.new, arrays)
            if part is not None:
                parts[number] = part
        found: dict[str, LocalScore] = {}
        for number, finding in self._failing(parts).items():
            piece = looked[number]
            old = self._part("old", self.before, piece.old, arrays)
            if old is not None and self._reaches(self._examine([old])):
                reason = told(finding, parts[number])
                application = piece.application
                check = OutputCheck(application.replaced[0][0], False, reason)
                how = f"{BY_REGION}: {reason}"
                found[application.key] = LocalScore(application, np.inf, (check,), how, False)
        return [found.get(piece.application.key) for piece in pieces]

    def _recorded(self, pieces: Iterable[Pieces]) -> dict[str, Array]:
        """Return the values at the borders, of one run of each model."""
        arrays: dict[str, Array] = {}
        sides = [(piece.old, piece.new) for piece in pieces]
        for model, index in ((self.before, 0), (self.after, 1)):
            values = {v for pair in sides for v in (*pair[index].read(), *pair[index].outputs)}
            wanted = {str(value.name) for value in values} - arrays.keys()
            try:
                found = values_of(model, wanted, self.feeds, self.engine)
            except EngineError:
                continue
            arrays |= {name: v for name, v in found.items() if isinstance(v, np.ndarray)}
        return arrays

    def _part(
        self, prefix: str, model: ir.Model, side: Side, arrays: Mapping[str, Array]
    ) -> Part | None:
        """Return a side; None if it computes nothing, or a value at its border is unknown."""
        read = [str(value.name) for value in side.read()]
        computed = {value for node in side.nodes for value in node.outputs}
        ends = {str(value.name) for value in side.outputs if value in computed}
        if not ends or not arrays.keys() >= {*read, *ends}:
            return None
        inner = {str(value.name) for value in computed} - ends
        region = Region(tuple(side.nodes), tuple(read), ())
        part = region_model(model, region, [arrays], inner)
        if all(v.shape is not None and v.shape.is_static() for v in self.before.graph.inputs):
            for value in part.graph.inputs:
                value.shape = ir.Shape(arrays[str(value.name)].shape)
        for value in part.graph.outputs:
            array = arrays[str(value.name)]
            value.type = ir.TensorType(ir.DataType.from_numpy(array.dtype))
            value.shape = ir.Shape([None] * array.ndim)
        names: dict[str, str] = {}
        makers = makers_of(model)
        for number, node in enumerate(part.graph):
            result = str(node.outputs[0].name)
            own = makers.get(result, node)
            shown = own.name or result
            node.name = f"{prefix}.{number}"
            names[node.name] = f"{shown} ({node.op_type})"
        feeds = {f"{prefix}.{name}": arrays[name] for name in read}
        _prefix_values(part, prefix)
        return Part(part, feeds, names)

    def _failing(self, parts: Mapping[int, Part]) -> dict[int, Finding]:
        """Return the parts that are not built, each with what is said of it alone."""
        if not parts:
            return {}
        together = self._examine([*parts.values()])
        if self._reaches(together):
            return {}
        if len(parts) == 1:
            return dict.fromkeys(parts, together)
        named = [n for n, part in parts.items() if _named(together.reason, part)]
        alone = {n: self._examine([parts[n]]) for n in named if len(named) < len(parts)}
        found = {n: finding for n, finding in alone.items() if not self._reaches(finding)}
        if found:
            rest = {n: part for n, part in parts.items() if n not in alone}
            return found | self._failing(rest)
        numbers = list(parts)
        middle = len(numbers) // 2
        for half in (numbers[:middle], numbers[middle:]):
            found |= self._failing({n: parts[n] for n in half})
        return found

    def _reaches(self, finding: Finding) -> bool:
        wanted = min(self.compiler.original.level, Level.BUILT, key=lambda level: level.rank)
        return finding.level.rank >= wanted.rank

    def _examine(self, parts: Sequence[Part]) -> Finding:
        model = _side_by_side(parts)
        feeds = dict(chain.from_iterable(part.feeds.items() for part in parts))
        engine = fitted(without_profiles(self.compiler.engine), model, [feeds])
        try:
            return examine(engine, model)
        except ConfigError as error:
            return Finding(Level.PARSED, error.message, error.help)


def told(finding: Finding, part: Part) -> str:
    """Return what a compiler says of a part, its own layers beside the nodes of the model.

    TensorRT names the layers of a node after it, with endings of its own.
    """
    reason, layers = finding.reason, list[str]()
    for name, shown in part.nodes.items():
        for layer in dict.fromkeys(re.findall(rf"{_MORE}{re.escape(name)}{_MORE}", reason)):
            own = layer.replace(name, shown.partition(" ")[0])
            if own != shown.partition(" ")[0]:
                layers.append(f"its layer {own!r} is of node {shown}")
            reason = reason.replace(layer, own)
    aside = f" ({'; '.join(layers)})" if layers else ""
    return f"{finding.level}, {' '.join(reason.split())}{aside}"


def _is_left(piece: Pieces, made: set[str]) -> bool:
    return all(str(v.name) in made for node in piece.new.nodes for v in node.outputs if v.name)


def _named(reason: str, part: Part) -> bool:
    # A number that follows belongs to another node's name.
    return any(re.search(rf"(?<![\w.]){re.escape(n)}(?!\d)", reason) for n in part.nodes)


def _prefix_values(part: ir.Model, prefix: str) -> None:
    initializers = list(part.graph.initializers.values())
    part.graph.initializers.clear()
    values = dict.fromkeys(chain(part.graph.inputs, initializers))
    values |= dict.fromkeys(v for node in part.graph for v in node.outputs)
    for value in values:
        value.name = f"{prefix}.{value.name}" if value.name else value.name
    for value in initializers:
        part.graph.register_initializer(value)


def _side_by_side(parts: Sequence[Part]) -> ir.Model:
    """Return one model of copies of all parts."""
    models = [part.model.clone() for part in parts]
    graphs = [model.graph for model in models]
    inputs = [value for graph in graphs for value in graph.inputs]
    outputs = [value for graph in graphs for value in graph.outputs]
    initializers = [value for graph in graphs for value in graph.initializers.values()]
    nodes: list[ir.Node] = []
    for graph in graphs:
        own = list(graph)
        graph.outputs.clear()
        graph.inputs.clear()
        graph.initializers.clear()
        graph.remove(own)
        nodes += own
    first = models[0]
    body = ir.Graph(
        inputs,
        outputs,
        nodes=nodes,
        initializers=initializers,
        opset_imports=dict(first.graph.opset_imports),
        name="regions",
    )
    made = ir.Model(body, ir_version=first.ir_version, functions=[*first.functions.values()])
    used = {node.op_identifier() for node in all_nodes(made)}
    for identifier in made.functions.keys() - used:
        del made.functions[identifier]
    return made
