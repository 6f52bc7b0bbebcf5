"""Compare a part of a change on drawn values, if the recorded ones show nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import onnx_ir as ir

from onnx_passes import made_up
from onnx_passes.contracts import Tolerance
from onnx_passes.contracts.elements import kind_of
from onnx_passes.made_up import DRAWN, MANY
from onnx_passes.ops.decisions import makes_steps
from onnx_passes.pipeline.causes import Cause
from onnx_passes.pipeline.derived import find_cause
from onnx_passes.pipeline.drawn import Drawn, is_plain, named_anew, new_value, reads_of, row_of
from onnx_passes.pipeline.drawn_rows import DrawnRows
from onnx_passes.pipeline.fused import explain
from onnx_passes.pipeline.joined_runs import NodeRun, run_joined, stands_alone
from onnx_passes.pipeline.recompute import run_nodes
from onnx_passes.pipeline.recorded_values import Recorded
from onnx_passes.runtime.engine_base import Array, Data, Engine, Outputs
from onnx_passes.verify.informative import (
    DRAWS,
    DRAWS_OF_OTHERS,
    DRAWS_OF_SPECIALS,
    ValueSource,
    is_informative,
)
from onnx_passes.verify.judge import Promise, judge
from onnx_passes.verify.obligations import ObligationPart
from onnx_passes.verify.region import Side

_STEPS = 8
"""How many nodes back the values are drawn, where those at the boundary show a difference."""

_MOST = 64
"""Number of nodes that a part grows to at most."""


@dataclass(frozen=True)
class _Ready:
    """A part that ran beside others: what was drawn, and what each side gave, by row."""

    part: ObligationPart
    draws: Sequence[Mapping[str, Array]]
    sides: Sequence[Sequence[Outputs]]


@dataclass(frozen=True)
class Drawing:
    """Compares parts of a change on drawn values.

    Attributes:
        before: The model before, without functions.
        after: The model after, without functions.
        recorded: The values of the model before: the types and shapes of those drawn.
        engine: What runs the nodes.
        promises: What the pass promises.
        renamed: For values of the model after, the names of those that they must equal.
        varying: Names of the values of the model before that depend on data.
        fuses: Whether the engine rewrites graphs: what rounding explains does not count.
    """

    before: ir.Model
    after: ir.Model
    recorded: Recorded
    engine: Engine
    promises: Sequence[Promise]
    renamed: Mapping[str, str]
    varying: AbstractSet[str]
    fuses: bool = False
    _ready: dict[int, _Ready] = field(init=False, default_factory=dict)

    def compare(
        self, part: ObligationPart, *, ties: bool = False, steps: int = _STEPS
    ) -> Drawn | None:
        """Compare a part on drawn values.

        What differs on values drawn at its boundary may follow from values that never occur
        there: ``Relu(x)`` is ``x`` where ``x`` is the result of a Relu. Such a part is asked
        again with the nodes ahead of it.

        Args:
            part: The part.
            ties: Whether floats are drawn at breakpoints, and nothing else.
            steps: How many nodes ahead it is asked again with at most.

        Returns:
            What was found; None where both sides do not run, or their values do not vary.
        """
        # Specials are drawn where others show nothing, either.
        rounds = (DRAWS_OF_OTHERS,) if ties else (DRAWS, DRAWS_OF_SPECIALS)
        found, _ = self._ask(part, rounds, steps)
        return found

    def probe(self, part: ObligationPart) -> Drawn | None:
        """Compare a part on values that the samples may lack.

        Not asked: a part that is large, that computes below float32, or that is under a
        tolerance and makes steps, where rounding decides. What differs does not count if it
        agrees behind nodes ahead that make steps: values that are drawn are mostly no levels.
        """
        if not self._admits(part):
            return None
        found, contradicted = self._ask(part, (DRAWS_OF_OTHERS,))
        return None if contradicted else found

    def run_together(self, parts: Sequence[ObligationPart]) -> None:
        """Run parts in one session, for :meth:`probe` to ask about each.

        Args:
            parts: The parts; those that do not run beside others are left to be run alone.
        """
        label = made_up.label(DRAWN, MANY)
        if made_up.avoided(label):
            return
        asked = [
            part
            for part in parts
            if all(stands_alone(*side) for side in self._sides(part)) and self._admits(part)
        ]
        rows = [
            self._rows.draw(part, self._rows.sources(part), DRAWS_OF_OTHERS) for part in asked
        ]
        pieces = [
            NodeRun(model, nodes, [named_anew(row, self.renamed) for row in draws])
            for part, draws in zip(asked, rows, strict=True)
            for model, nodes in self._sides(part)
        ]
        with made_up.running(label):
            found = run_joined(self.engine, pieces) if asked else None
        if found is not None:
            for part, draws, *sides in zip(asked, rows, found[::2], found[1::2], strict=True):
                self._ready[id(part)] = _Ready(part, draws, sides)

    def _admits(self, part: ObligationPart) -> bool:
        """Whether a part is asked about values that the samples may lack."""
        nodes = (*part.old, *part.new)
        tolerant = any(isinstance(p.contract, Tolerance) for p in self.promises)
        if len(nodes) > _MOST or (tolerant and any(map(makes_steps, nodes))):
            return False
        mine, theirs = reads_of(part, part.old, part.new)
        others = {self.renamed.get(name, name) for name in theirs} - mine
        if others & self.varying:
            return False  # it relies on values that are equal for another reason
        sources = self._rows.sources(part)
        if not self.recorded.holds(sources.values()):
            return False
        arrays = [self.recorded.samples[0][name] for name in sources.values()]
        if not all(isinstance(a, np.ndarray) and is_plain(a) for a in arrays):
            return False
        moving = (self.recorded.samples[0][n] for n in sources.values() if n in self.varying)
        # Sizes, shapes and indices are never drawn.
        return any(kind_of(np.asarray(array).dtype) == "float" for array in moving)

    def _sides(self, part: ObligationPart) -> list[Side]:
        return [(self.before, part.old), (self.after, part.new)]

    def _ask(
        self,
        part: ObligationPart,
        rounds: Sequence[Sequence[ValueSource]],
        steps: int = _STEPS,
    ) -> tuple[Drawn | None, bool]:
        """Return what is found, and whether it agrees on levels, which do not vary."""
        label = made_up.label(DRAWN, part.text)
        if made_up.avoided(label):
            return None, False
        with made_up.running(label):
            return self._search(part, rounds, steps)

    def _search(
        self, part: ObligationPart, rounds: Sequence[Sequence[ValueSource]], steps: int
    ) -> tuple[Drawn | None, bool]:
        """Compare a part, then with more and more of the nodes ahead of it."""
        ahead: list[ir.Node] = []
        found, contradicted = self._compare(part, ahead, rounds), False
        if found is not None and found.agrees and not found.elements:
            return None, False
        for _ in range(steps):
            if found is None or found.agrees or not self._grow(part, ahead):
                break
            further = self._compare(part, ahead, rounds, found.values)
            if further is None:
                break
            silent = further.agrees and not further.elements
            contradicted = silent and any(map(makes_steps, ahead))
            if not silent:
                found = further
            elif not contradicted:
                break
        return found, contradicted

    def _compare(
        self,
        part: ObligationPart,
        ahead: Sequence[ir.Node],
        rounds: Sequence[Sequence[ValueSource]],
        wanted: Mapping[str, Array] | None = None,
    ) -> Drawn | None:
        """Compare a part behind nodes of the model before.

        Both sides read what these compute. Behind nodes of the model after, a part would
        answer for what the pass changed ahead of it, which is a part of its own.
        """
        sources = self._rows.sources(part, ahead)
        if not self.recorded.holds(sources.values()):
            return None
        inputs = {value.name for value in self.before.graph.inputs}
        given = self.varying & sources.keys() <= inputs
        found = None
        for kinds in rounds:
            ready = self._ready.get(id(part)) if kinds is DRAWS_OF_OTHERS else None
            ready = None if ahead else ready
            draws = (
                ready.draws
                if ready is not None
                else self._rows.draw(part, sources, kinds, ahead, wanted)
            )
            told = self._run(part, ahead, draws, ready)
            if told is not None and not told.agrees:
                values = {
                    name: draws[told.row][name] for name in self.varying & sources.keys()
                }
                return replace(told, values=values, given=given)
            if told is not None and told.elements:
                return told
            found = told or found
        return found

    def _run(
        self,
        part: ObligationPart,
        ahead: Sequence[ir.Node],
        draws: Sequence[Mapping[str, Array]],
        ready: _Ready | None = None,
    ) -> Drawn | None:
        """Run both sides on drawn values; the row of the result is that of the draw."""
        recorded = self.recorded.samples[0]
        computed = run_nodes(self.engine, self.before, ahead, draws)
        feeds = [
            None if row is None else named_anew({**draw, **row}, self.renamed)
            for draw, row in zip(draws, computed, strict=True)
        ]
        known = [row for row in feeds if row is not None]
        olds, news = map(
            iter,
            ready.sides
            if ready is not None
            else [run_nodes(self.engine, *side, known) for side in self._sides(part)],
        )
        places, rows = [], []
        for place, feed in enumerate(feeds):
            if feed is None:
                continue
            old, new = next(olds), next(news)
            if old is not None and new is not None:
                places.append(place)
                rows.append((row_of(old, feed, recorded), row_of(new, feed, recorded)))
        told = self._judge(part, ([*ahead, *part.old], part.new), rows) if rows else None
        if told is None:
            return None
        return replace(told, row=places[told.row], complete=len(places) == len(draws))

    def _judge(
        self,
        part: ObligationPart,
        nodes: tuple[Sequence[ir.Node], Sequence[ir.Node]],
        rows: Sequence[tuple[Mapping[str, Data], Mapping[str, Data]]],
    ) -> Drawn | None:
        pairs = [o for o in part.obligations if o.old in rows[0][0]]
        if not pairs:
            return None
        old = [{o.old: before[o.old] for o in pairs} for before, _ in rows]
        new = [{o.old: new_value(o, before, after) for o in pairs} for before, after in rows]
        found = [judge(old, new, p) for p in self.promises]
        row = next((check.sample for check in found if check.sample is not None), 0)
        checks = [
            (p, o)
            for p, check in zip(self.promises, found, strict=True)
            for o in check.outputs
        ]
        wrong = {o.output for _, o in checks if not o.passed}
        beyond = {o.output for p, o in checks if not o.passed and not p.is_derived(o.output)}
        sides = (self.before, nodes[0]), (self.after, nodes[1])
        if not wrong <= {one.old for one in pairs}:
            return Drawn(agrees=False, row=row)  # a part of a sequence
        for one in (o for o in pairs if o.old in wrong):
            values = [
                (left[one.old], right[one.old]) for left, right in zip(old, new, strict=True)
            ]
            known = [before for before, _ in rows]
            rounding = one.old not in beyond and (
                find_cause(one, *sides, known, values).cause is Cause.ROUNDING
            )
            rounding = rounding or (self.fuses and bool(explain(one, *sides, known, values)))
            if not rounding:
                return Drawn(agrees=False, row=row)
        columns = [[row[o.old] for row in old] for o in pairs]
        arrays = [[a for a in c if isinstance(a, np.ndarray)] for c in columns]
        informative = any(is_informative(column, lambda: True) for column in arrays)
        sizes = (a.size for column in arrays for a in column if informative)
        return Drawn(agrees=True, elements=sum(sizes))

    def _grow(self, part: ObligationPart, ahead: list[ir.Node]) -> bool:
        """Add the nodes before that compute what both sides read; whether there are any."""
        makers, places = self._makers
        names = {self.renamed.get(name, name) for name in self._rows.sources(part, ahead)}
        more = [makers[name] for name in names & self.varying if name in makers]
        if not more or len(part.old) + len(ahead) + len(more) > _MOST:
            return False
        ahead[:] = sorted({*ahead, *more}, key=places.__getitem__)
        return True

    @cached_property
    def _rows(self) -> DrawnRows:
        models = self.before, self.recorded, self.engine
        return DrawnRows(*models, self.renamed, self.varying)

    @cached_property
    def _makers(self) -> tuple[dict[str, ir.Node], dict[ir.Node, int]]:
        """The nodes of the model before by the names of their results, and their places."""
        nodes = list(self.before.graph)
        makers = {str(v.name): node for node in nodes for v in node.outputs if v.name}
        return makers, {node: place for place, node in enumerate(nodes)}
