"""Compare a part of a change on drawn values, if the recorded ones show nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import onnx_ir as ir

from onnx_passes.contracts import Tolerance
from onnx_passes.contracts.elements import kind_of
from onnx_passes.ops.breakpoints import around, beyond, breakpoints_of
from onnx_passes.ops.decisions import makes_steps
from onnx_passes.pipeline.causes import Cause
from onnx_passes.pipeline.derived import find_cause
from onnx_passes.pipeline.drawn import Drawn, is_plain, named_anew, new_value, reads_of, row_of
from onnx_passes.pipeline.fused import explain
from onnx_passes.pipeline.reaching import reaching
from onnx_passes.pipeline.recompute import run_nodes
from onnx_passes.pipeline.recorded_values import Recorded
from onnx_passes.runtime.engine_base import Array, Data, Engine
from onnx_passes.verify.informative import (
    DRAWS,
    DRAWS_OF_OTHERS,
    DRAWS_OF_SPECIALS,
    ValueSource,
    draw_like,
    is_informative,
    tied,
)
from onnx_passes.verify.judge import Promise, judge
from onnx_passes.verify.obligations import ObligationPart
from onnx_passes.verify.region import boundary_of

_STEPS = 8
"""How many nodes back the values are drawn, where those at the boundary show a difference."""

_MOST = 64
"""Number of nodes that a part grows to at most."""


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
        fuses: Whether the engine rewrites graphs, so that what rounding explains does not
            count.
    """

    before: ir.Model
    after: ir.Model
    recorded: Recorded
    engine: Engine
    promises: Sequence[Promise]
    renamed: Mapping[str, str]
    varying: AbstractSet[str]
    fuses: bool = False

    def compare(self, part: ObligationPart) -> Drawn | None:
        """Compare a part on drawn values.

        What differs on values drawn at its boundary may follow from values that never occur
        there: ``Relu(x)`` is ``x`` where ``x`` is the result of a Relu. Such a part is asked
        again with the nodes ahead of it.

        Returns:
            What was found; None where both sides do not run, or their values do not vary.
        """
        # Specials are drawn where others show nothing, either.
        found, _ = self._ask(part, (DRAWS, DRAWS_OF_SPECIALS))
        return found

    def probe(self, part: ObligationPart) -> Drawn | None:
        """Compare a part on values that the samples may lack.

        Not asked: a part that is large, that computes below float32, or that is under a
        tolerance and makes steps, where rounding decides. What differs does not count if it
        agrees behind nodes ahead that make steps: values that are drawn are mostly no levels.
        """
        nodes = (*part.old, *part.new)
        tolerant = any(isinstance(p.contract, Tolerance) for p in self.promises)
        if len(nodes) > _MOST or (tolerant and any(map(makes_steps, nodes))):
            return None
        mine, theirs = reads_of(part, part.old, part.new)
        others = {self.renamed.get(name, name) for name in theirs} - mine
        if others & self.varying:
            return None  # it relies on values that are equal for another reason
        sources = self._sources(part)
        if not self.recorded.holds(sources.values()):
            return None
        arrays = [self.recorded.samples[0][name] for name in sources.values()]
        if not all(isinstance(a, np.ndarray) and is_plain(a) for a in arrays):
            return None
        moving = (self.recorded.samples[0][n] for n in sources.values() if n in self.varying)
        if not any(kind_of(np.asarray(array).dtype) == "float" for array in moving):
            return None  # sizes, shapes and indices are never drawn
        found, contradicted = self._ask(part, (DRAWS_OF_OTHERS,))
        return None if contradicted else found

    def _ask(
        self, part: ObligationPart, rounds: Sequence[Sequence[ValueSource]]
    ) -> tuple[Drawn | None, bool]:
        """Return what is found, and whether it agrees on levels, which do not vary."""
        ahead: list[ir.Node] = []
        found, contradicted = self._compare(part, ahead, rounds), False
        if found is not None and found.agrees and not found.elements:
            return None, False
        for _ in range(_STEPS):
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
        sources = self._sources(part, ahead)
        if not self.recorded.holds(sources.values()):
            return None
        recorded = self.recorded.samples[0]
        inputs = {value.name for value in self.before.graph.inputs}
        given = self.varying & sources.keys() <= inputs
        nodes = [*ahead, *part.old]
        found = None
        for kinds in rounds:
            draws = [self._draw(sources, kind, k) for k, kind in enumerate(kinds)]
            if kinds is DRAWS_OF_OTHERS:
                edges = self._at_breakpoints(sources, (*nodes, *part.new))
                varying = {n for n, source in sources.items() if source in self.varying}
                draws += [draws[0] | row for row in (*edges, tied(draws[0], varying))]
                feeds = {name: recorded[source] for name, source in sources.items()}
                feeds |= {name: v for name, v in (wanted or {}).items() if name in feeds}
                draws += reaching(
                    self.engine, self.before, nodes, feeds, varying, wanted or {}
                )
            told = self._run(part, ahead, draws)
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
    ) -> Drawn | None:
        """Run both sides on drawn values; the row of the result is that of the draw."""
        recorded = self.recorded.samples[0]
        computed = run_nodes(self.engine, self.before, ahead, draws)
        feeds = [
            None if row is None else named_anew({**draw, **row}, self.renamed)
            for draw, row in zip(draws, computed, strict=True)
        ]
        known = [row for row in feeds if row is not None]
        olds, news = (
            iter(run_nodes(self.engine, model, nodes, known))
            for model, nodes in ((self.before, part.old), (self.after, part.new))
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
        return None if told is None else replace(told, row=places[told.row])

    def _sources(self, part: ObligationPart, ahead: Sequence[ir.Node] = ()) -> dict[str, str]:
        """Return what has to be drawn, with the names of the values that it is drawn like."""
        mine, theirs = reads_of(part, part.old, part.new)
        made = {str(v.name) for node in ahead for v in node.outputs}
        sources = {name: name for name in (*mine, *boundary_of(ahead)) if name not in made}
        for name in theirs:
            other = self.renamed.get(name, name)  # of two names of one value, that of before
            if name in made or other in made:
                continue
            unknown = not self.recorded.holds((name,))
            sources.setdefault(name, other if other in mine or unknown else name)
        return sources

    def _draw(
        self, sources: Mapping[str, str], kind: ValueSource, turn: int
    ) -> dict[str, Array]:
        recorded = self.recorded.samples[0]
        return {
            name: draw_like(recorded[source], f"{source} {turn}", kind)
            if source in self.varying  # what follows from constants is never another
            else recorded[source]
            for name, source in sources.items()
        }

    def _at_breakpoints(
        self, sources: Mapping[str, str], nodes: Iterable[ir.Node]
    ) -> list[dict[str, Array]]:
        """Return rows of floats on both sides of where pieces of operators meet, or on one."""
        recorded = self.recorded.samples[0]
        found = {
            name: (*around(numbers, array), *beyond(numbers, array))
            for name, numbers in breakpoints_of(nodes).items()
            if (source := sources.get(name, "")) in self.varying
            and isinstance(array := recorded[source], np.ndarray)
            and kind_of(array.dtype) == "float"
        }
        count = max(map(len, found.values()), default=1)
        return [
            {name: rows[k % len(rows)] for name, rows in found.items()} for k in range(count)
        ]

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
        names = {self.renamed.get(name, name) for name in self._sources(part, ahead)}
        more = [makers[name] for name in names & self.varying if name in makers]
        if not more or len(part.old) + len(ahead) + len(more) > _MOST:
            return False
        ahead[:] = sorted({*ahead, *more}, key=places.__getitem__)
        return True

    @cached_property
    def _makers(self) -> tuple[dict[str, ir.Node], dict[ir.Node, int]]:
        """The nodes of the model before by the names of their results, and their places."""
        nodes = list(self.before.graph)
        makers = {str(v.name): node for node in nodes for v in node.outputs if v.name}
        return makers, {node: place for place, node in enumerate(nodes)}
