"""How far off each application of a rule is by itself: its nodes, before and after.

Both pieces of an application get the values that were recorded in the model before the pass.
So a fault in one does not show in another. What they compute is compared. Where an application
reads what an earlier one has put there, it reads the earlier one's new value on both sides.
Values in a branch of an If are recorded as outputs of that If; what is in loops and functions
has no score.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.errors import EngineError
from onnx_passes.passes.context import Application
from onnx_passes.runtime.engine_base import Data, Engine, Feeds, Outputs
from onnx_passes.verify.cut import values_of
from onnx_passes.verify.judge import Promise
from onnx_passes.verify.region import Region
from onnx_passes.verify.region_models import region_model
from onnx_passes.verify.result import OutputCheck
from onnx_passes.verify.runs.body_values import expose, place_of, typed
from onnx_passes.verify.score import score
from onnx_passes.verify.witness import ApplicationPieces, Scope, Side


@dataclass(frozen=True)
class LocalScore:
    """What one application does to the values that it replaces.

    Attributes:
        application: Its record.
        score: Largest error over its values, as ``verify.score`` has it; 0 is perfect.
        checks: The comparison of each value, under the names of the values replaced.
        how: How it was found.
        measured: Whether values were compared; else ``checks`` says what failed.
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

    Args:
        before: The model before the pass.
        after: The model after it.
        pieces: The applications, in order.
        feeds: A sample.
        engine: What runs them.
        contract: What each must keep; tolerances refer to the largest element of a value.
        overrides: Tolerances of single values.

    Returns:
        For each application its score; None where it reads what cannot be recorded, or what it
        replaced does not run by itself. None at all where the model before does not run.
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
        model = expose(typed(model), names)
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
    """Return what counts of a side, and those of its values that are needed, by name.

    Raises:
        EngineError: It does not run.
    """
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
