"""Each application of a rule: the nodes it matched, its new nodes, and its error.

The nodes before and after run by themselves, and a score says how far they are apart.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.errors import EngineError
from onnx_passes.model.copy import copy_nodes
from onnx_passes.model.walk import captured_values
from onnx_passes.passes.constants import is_constant
from onnx_passes.passes.context import Application
from onnx_passes.runtime.engine_base import Data, Engine, Feeds, Outputs
from onnx_passes.verify.bodies import expose_bodies, place_of, typed
from onnx_passes.verify.evidence import OutputCheck
from onnx_passes.verify.judge import Promise, score
from onnx_passes.verify.region import Region, region_model, values_of

Scope = ir.Graph | ir.Function | None
"""The graph that a value belongs to."""


@dataclass(frozen=True)
class Side:
    """Nodes copied out of their graph.

    ``nodes`` are in an order in which they can run; what they read that is always the same
    tensor has it as its ``const_value``. ``outputs`` are copies, or values that no node
    computes. ``values`` maps values of the model to copies; ``scopes`` has the graph of each
    copy.
    """

    nodes: list[ir.Node]
    outputs: list[ir.Value]
    values: dict[ir.Value, ir.Value]
    scopes: dict[ir.Value, Scope]

    @classmethod
    def of(cls, nodes: Sequence[ir.Node], outputs: Sequence[ir.Value], scope: Scope) -> Side:
        """Copy nodes of a graph; ``outputs`` are the values that count."""
        copies, values = copy_nodes(nodes)
        for value in outputs:
            if value not in values:
                values[value] = ir.Value(name=value.name)
        made = {out for node in copies for out in node.outputs}
        for value, copy in values.items():
            fixed = is_constant(value) and copy not in made
            copy.const_value = ir.convenience.get_const_tensor(value) if fixed else None
            if copy in made:
                # Declared types and shapes are claims of the model; the engine infers.
                copy.type = copy.shape = None
        scopes = {copy: value.graph or scope for value, copy in values.items()}
        return cls(_ordered(copies), [values[v] for v in outputs], values, scopes)

    def name_values(self) -> None:
        """Give the copies the names that the model's values have by now."""
        for value, copy in self.values.items():
            copy.name = value.name

    def read(self) -> list[ir.Value]:
        """Return what the nodes read and do not compute, constants aside."""
        made = {out for node in self.nodes for out in node.outputs}
        values = [v for node in self.nodes for v in (*node.inputs, *captured_values(node))]
        return [
            value
            for value in dict.fromkeys((*values, *self.outputs))
            if value is not None and value not in made and value.const_value is None
        ]

    def name_by_scope(self, prefixes: Mapping[Scope, str]) -> bool:
        """Put the place of its graph before each name; return whether all are known."""
        known = True
        for copy in (*self.read(), *(v for node in self.nodes for v in node.outputs)):
            prefix = prefixes.get(self.scopes[copy])
            known = known and prefix is not None
            copy.name = f"{prefix or ''}{copy.name}" if copy.name else copy.name
        return known


@dataclass(frozen=True)
class ApplicationPieces:
    """The nodes that one application matched, and those that replace them."""

    application: Application
    old: Side
    new: Side


@dataclass
class Witnesses:
    """Keeps the pieces of every application, in order; see ``passes.context.Witness``."""

    pieces: list[ApplicationPieces] = field(default_factory=list)
    _seen: list[Side] = field(default_factory=list)

    def before(
        self,
        outermost: bool,
        matched: Sequence[ir.Node],
        old: Sequence[ir.Value],
        nodes: Sequence[ir.Node],
        new: Sequence[ir.Value],
    ) -> None:
        """Copy both sides; ``new`` replaces ``old``, position by position."""
        scope = matched[0].graph
        self._seen = [Side.of(matched, old, scope), Side.of(nodes, new, scope)]

    def after(self, application: Application) -> None:
        """Keep the two sides, with the names that new values have got."""
        self._seen[1].name_values()
        self.pieces.append(ApplicationPieces(application, *self._seen))


def _ordered(nodes: Sequence[ir.Node]) -> list[ir.Node]:
    """Return nodes in an order in which each comes after those that it reads."""
    makers = {out: node for node in nodes for out in node.outputs}
    done: dict[ir.Node, None] = {}

    def visit(node: ir.Node) -> None:
        if node in done:
            return
        for value in node.inputs:
            maker = makers.get(value) if value is not None else None
            if maker is not None and maker is not node:
                visit(maker)
        done[node] = None

    for node in nodes:
        visit(node)
    return list(done)


@dataclass(frozen=True)
class LocalScore:
    """What one application does to the values that it replaces.

    ``score`` is the largest error, as ``onnx_passes.verify.judge.score`` defines it; 0 is
    perfect. ``checks`` have the names of the values replaced, and say what failed if
    ``measured`` is false.
    """

    application: Application
    score: float
    checks: tuple[OutputCheck, ...]
    how: str = "by its own error"
    measured: bool = True

    @property
    def passed(self) -> bool:
        """Whether it keeps the contract that it was held to."""
        return all(check.passed for check in self.checks)

    @property
    def worst(self) -> OutputCheck:
        """The comparison that shows most."""
        return max(self.checks, key=lambda c: (not c.passed, c.max_abs or 0.0))


def local_scores(
    before: ir.Model,
    after: ir.Model,
    pieces: Sequence[ApplicationPieces],
    feeds: Feeds,
    engine: Engine,
    contract: Equality | Tolerance,
    overrides: Mapping[str, Tolerance] | None = None,
) -> list[LocalScore | None]:
    """Hold every application of a pass against what it replaced.

    Tolerances refer to the largest element of a value. An application has None if it reads
    what cannot be recorded, or if what it replaced does not run by itself. The list is empty
    if ``before`` does not run.
    """
    prefixes = dict(_branches(after.graph, ""))
    known = [
        piece.old.name_by_scope(prefixes) and piece.new.name_by_scope(prefixes)
        for piece in pieces
    ]
    sides = [side for piece in pieces for side in (piece.old, piece.new)]
    read = {str(value.name) for side in sides for value in side.read()}
    arrays = _recorded(before, read, feeds, engine)
    scores: list[LocalScore | None] = []
    promise = Promise(contract, overrides=overrides or {}, inside=True, negative_zero=True)
    for piece, ok in zip(pieces, known, strict=True):
        checks = _checks(after, piece, arrays, read, engine) if ok and arrays else None
        if checks is None:
            scores.append(None)
            continue
        old, new = checks
        found: tuple[OutputCheck, ...]
        if new is None:
            name = piece.application.replaced[0][0]
            found, size = (OutputCheck(name, False, "it does not run"),), math.inf
        else:
            found = promise.check(old, new)
            size = score([old], [new], frozenset())
        scores.append(LocalScore(piece.application, size, found))
    return scores


def _branches(graph: ir.Graph, prefix: str) -> Iterator[tuple[Scope, str]]:
    """Yield the main graph and all branches of If in it, with what their values are called."""
    yield graph, prefix
    for node in graph:
        if node.op_type == "If" and node.domain in ("", "ai.onnx"):
            for name, attribute in node.attributes.items():
                if not attribute.is_ref():
                    own = place_of(node, name)
                    yield from _branches(attribute.as_graph(), prefix + own)


def _recorded(
    model: ir.Model, names: Collection[str], feeds: Feeds, engine: Engine
) -> dict[str, Array]:
    """Return the tensors of a model that have these names."""
    inside = {v.name for node in model.graph for v in node.outputs} | feeds.keys()
    if not inside.issuperset(names):
        model = expose_bodies(typed(model), names)
    try:
        found = values_of(model, names, feeds, engine)
    except EngineError:
        return {}
    arrays = {name: v for name, v in found.items() if isinstance(v, np.ndarray)}
    # Values of a branch that was not taken are empty.
    return {name: a for name, a in arrays.items() if a.size or name in inside}


def _checks(
    model: ir.Model,
    piece: ApplicationPieces,
    arrays: dict[str, Array],
    later: set[str],
    engine: Engine,
) -> tuple[Outputs, Outputs | None] | None:
    """Run both sides; what the new one computes is known to those that follow."""
    if any(v.name not in arrays for side in (piece.old, piece.new) for v in side.read()):
        return None
    names = [name for name, _ in piece.application.replaced]
    try:
        old, _ = _run(model, piece.old, arrays, set(), engine)
    except EngineError:
        return None
    try:
        new, fresh = _run(model, piece.new, arrays, later - arrays.keys(), engine)
    except EngineError:
        return dict(zip(names, old, strict=True)), None
    arrays.update(fresh)
    return dict(zip(names, old, strict=True)), dict(zip(names, new, strict=True))


def _run(
    model: ir.Model, side: Side, arrays: Mapping[str, Array], needed: set[str], engine: Engine
) -> tuple[list[Data], dict[str, Array]]:
    """Return what counts of a side, and its values that are needed; or raise EngineError."""
    made = {out: str(out.name) for node in side.nodes for out in node.outputs}
    found: Outputs = {str(value.name): arrays[str(value.name)] for value in side.read()}
    wanted = {made[value] for value in side.outputs if value in made}
    wanted |= needed.intersection(made.values())
    if wanted:
        region = Region(tuple(side.nodes), tuple(found), ())
        hidden = set(made.values()) - wanted
        with engine.prepare(region_model(model, region, [arrays], hidden)) as session:
            found |= session.run(dict(found))
    for value in side.outputs:
        if value.const_value is not None:
            found[str(value.name)] = value.const_value.numpy()
    fresh = {n: a for n in needed if isinstance(a := found.get(n), np.ndarray)}
    return [found[str(value.name)] for value in side.outputs], fresh
