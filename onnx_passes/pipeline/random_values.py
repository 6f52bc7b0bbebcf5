"""Compare a part of a change on random values, and at sizes that no sample has.

Random values replace the results on which a part depends. An allowance limits how many parts
may use them. A part that differs is asked again behind the nodes ahead of it.

Positions, masks and lengths depend on the sizes of inputs and on no data. They are computed
from what the Shapes of a model give, at larger and larger sizes, without the rest of it.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import onnx_ir as ir

from onnx_passes import risky_runs
from onnx_passes.arrays import Array
from onnx_passes.contracts import Tolerance
from onnx_passes.contracts.scores import kind_of, widen
from onnx_passes.ops.domains.intervals import Interval
from onnx_passes.ops.node_queries import GIVES_SIZES, makes_steps
from onnx_passes.ops.operator_class import operator_of
from onnx_passes.pipeline.reaching import (
    RandomInputs,
    beside,
    bounds_of,
    casts_to_integers,
    clipped,
    covers,
    is_float,
    is_plain,
    named_anew,
    new_value,
    on_levels,
    reads_of,
    row_of,
    span_of,
    spans_of,
)
from onnx_passes.pipeline.rounding import Cause, find_cause, find_fused_cause
from onnx_passes.risky_runs import DRAWN, MANY
from onnx_passes.runtime.engine_base import Data, Engine, Feeds, Outputs
from onnx_passes.runtime.inputs.dimensions import Symbols, symbols_of_model
from onnx_passes.verify.judge import Promise, identical, judge
from onnx_passes.verify.obligations import ObligationPart
from onnx_passes.verify.recording import (
    DRAWS,
    DRAWS_OF_OTHERS,
    DRAWS_OF_SPECIALS,
    Recorded,
    ValueSource,
    is_informative,
)
from onnx_passes.verify.region import (
    NodeRun,
    Side,
    backward_slice,
    boundary_of,
    run_joined,
    run_nodes,
    stands_alone,
)


@dataclass
class Allowance:
    """How many parts of a run may run on random values, and how many did; 0 runs none."""

    parts: int
    spent: int = 0
    refused: int = 0

    @property
    def left(self) -> int:
        return self.parts - self.spent

    def grants(self) -> bool:
        """Whether one more part may be run; it is counted."""
        granted = self.left > 0
        self.spent += granted
        self.refused += not granted
        return granted

    @property
    def note(self) -> str | None:
        """What a reader should know of what was not run."""
        if not self.refused:
            return None
        parts = "1 part was" if self.refused == 1 else f"{self.refused:,} parts were"
        return (
            f"{parts} not run on values that samples may lack: verify.drawn_parts is "
            f"{self.parts:,}"
        )


_STEPS = 8
"""How many nodes back the values are drawn, where those at the boundary show a difference."""

_MOST = 64
"""Number of nodes that a part grows to at most."""

_NEAR = 3
"""How many nodes back values are bounded by intervals."""


@dataclass(frozen=True)
class _Ready:
    """A part that ran beside others: what was drawn, and what each side gave, by row."""

    part: ObligationPart
    draws: Sequence[Mapping[str, Array]]
    sides: Sequence[Sequence[Outputs]]


@dataclass(frozen=True)
class RandomComparison:
    """Compares parts of a change on drawn values.

    Both models are without functions. The recorded values give the types and shapes of random
    ones. ``renamed`` maps values of the model after to those that they must equal; ``varying``
    names values before that depend on data. If the engine ``fuses``, what rounding explains
    does not count.
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
    _starts: dict[int, tuple[ObligationPart, list[ir.Node] | None]] = field(
        init=False, default_factory=dict
    )

    def compare(
        self, part: ObligationPart, *, ties: bool = False, steps: int = _STEPS
    ) -> RandomFinding | None:
        """Compare a part on drawn values.

        What differs on values drawn at its boundary may follow from values that never occur
        there: ``Relu(x)`` is ``x`` where ``x`` is the result of a Relu. Such a part is asked
        again with the nodes ahead of it. With ``ties`` floats are drawn at breakpoints only.
        ``steps`` limits the nodes ahead. None if both sides do not run, or their values do not
        vary.
        """
        # Specials are drawn where others show nothing, either.
        rounds = (DRAWS_OF_OTHERS,) if ties else (DRAWS, DRAWS_OF_SPECIALS)
        found, _ = self._ask(part, rounds, steps)
        return found

    def probe(self, part: ObligationPart) -> RandomFinding | None:
        """Compare a part on values that the samples may lack.

        Not asked: a part that is large, that computes below float32, or that is under a
        tolerance and makes steps, where rounding decides. What differs does not count if it
        agrees behind nodes ahead that make steps: random values are rarely levels.
        """
        if not self._admits(part):
            return None
        found, contradicted = self._ask(part, (DRAWS_OF_OTHERS,))
        return None if contradicted else found

    def run_together(self, parts: Sequence[ObligationPart]) -> None:
        """Run parts in one session, for :meth:`probe` to ask about each.

        Parts that do not run beside others are left to run alone.
        """
        label = risky_runs.label(DRAWN, MANY)
        if risky_runs.avoided(label):
            return
        asked = [
            part
            for part in parts
            if all(stands_alone(*side) for side in self._sides(part))
            and self._admits(part)
            and not self._start(part)
        ]
        rows = [
            self._rows.draw(part, self._rows.sources(part), DRAWS_OF_OTHERS) for part in asked
        ]
        pieces = [
            NodeRun(model, nodes, [named_anew(row, self.renamed) for row in draws])
            for part, draws in zip(asked, rows, strict=True)
            for model, nodes in self._sides(part)
        ]
        with risky_runs.running(label):
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
        ahead = self._start(part)
        if ahead is None:
            return False
        sources = self._rows.sources(part, ahead)
        if not self.recorded.holds(sources.values()):
            return False
        arrays = [self.recorded.samples[0][name] for name in sources.values()]
        if not all(isinstance(a, np.ndarray) and is_plain(a) for a in arrays):
            return False
        moving = (self.recorded.samples[0][n] for n in sources.values() if n in self.varying)
        # Sizes, shapes and indices are never drawn.
        floats = any(kind_of(np.asarray(array).dtype) == "float" for array in moving)
        rows = self._rows
        return bool(
            floats
            or rows.integers(part, sources, nodes)
            or rows.rows_that_differ(part, sources)
        )

    def _start(self, part: ObligationPart) -> list[ir.Node] | None:
        """Return nodes ahead behind which the new side reads nothing else than the old one.

        Such values are equal for another reason, as ``d`` is to ``Sub(x, m)``. What follows
        from other values that the part reads is computed, too: a mean beside its elements.
        """
        if id(part) not in self._starts:
            self._starts[id(part)] = part, self._find_start(part)
        _, found = self._starts[id(part)]
        return None if found is None else [*found]

    def _find_start(self, part: ObligationPart) -> list[ir.Node] | None:
        mine, theirs = reads_of(part, part.old, part.new)
        others = ({self.renamed.get(name, name) for name in theirs} - mine) & self.varying
        if others & {v.name for node in part.old for v in node.outputs}:
            return None  # what it has to compute is elsewhere in the model after
        ahead: list[ir.Node] = []
        for _ in range(_STEPS):
            made = {str(v.name) for node in ahead for v in node.outputs}
            if others <= {*made, *boundary_of(ahead)}:
                return self._with_followers(part, ahead)
            if not self._grow(part, ahead):
                break
        return None

    def _with_followers(self, part: ObligationPart, ahead: list[ir.Node]) -> list[ir.Node]:
        makers, places = self._makers
        drawn = {self.renamed.get(name, name) for name in self._rows.sources(part, ahead)}
        found = {*ahead}
        for name in drawn & makers.keys() & self.varying:
            read = self.varying & {*boundary_of([makers[name]])}
            found |= {makers[name]} if read and read <= drawn else set()
        return sorted(found, key=places.__getitem__)

    def sources(self, part: ObligationPart) -> dict[str, str]:
        """Return the names of what a part reads, with those that they are drawn like."""
        return self._rows.sources(part)

    def _sides(self, part: ObligationPart) -> list[Side]:
        return [(self.before, part.old), (self.after, part.new)]

    def _ask(
        self,
        part: ObligationPart,
        rounds: Sequence[Sequence[ValueSource]],
        steps: int = _STEPS,
    ) -> tuple[RandomFinding | None, bool]:
        """Return what is found, and whether it agrees on levels, which do not vary."""
        label = risky_runs.label(DRAWN, part.text)
        if risky_runs.avoided(label):
            return None, False
        with risky_runs.running(label):
            return self._search(part, rounds, steps)

    def _search(
        self, part: ObligationPart, rounds: Sequence[Sequence[ValueSource]], steps: int
    ) -> tuple[RandomFinding | None, bool]:
        """Compare a part, then with more and more of the nodes ahead of it.

        That it agrees behind these nodes counts where they reach the values on which it
        differs, as far as they can.
        """
        ahead = self._start(part) or []
        inner = [*ahead]
        found, contradicted = self._compare(part, ahead, rounds), False
        if found is not None and found.agrees and not found.elements:
            return None, False
        if found is not None and not found.agrees:
            found = self._within_bounds(part, ahead, rounds, found)
        differs = found
        for _ in range(steps):
            if differs is None or differs.agrees or not self._grow(part, ahead):
                break
            further = self._compare(part, ahead, rounds, differs.values, inner)
            if further is None:
                break
            silent = further.agrees and not further.elements
            # Behind steps there are levels, which floats that are drawn rarely hit.
            unlike = silent or (further.agrees and not further.reached)
            levels = any(kind_of(value.dtype) == "float" for value in differs.values.values())
            contradicted = unlike and levels and any(map(makes_steps, ahead))
            if not further.possible:
                return further, False
            if not further.agrees:
                found, differs, inner = further, further, [*ahead]
            elif contradicted:
                continue
            elif silent:
                break
            elif further.reached:
                return further, False
        return found, contradicted

    def _within_bounds(
        self,
        part: ObligationPart,
        ahead: Sequence[ir.Node],
        rounds: Sequence[Sequence[ValueSource]],
        found: RandomFinding,
    ) -> RandomFinding:
        """Ask again where values lie as the nodes in front of them bound them.

        A mask that adds 0 or minus infinity is nothing else. Returns what was found
        where no bound says otherwise, or it differs within them, too.
        """
        makers, places = self._makers
        names, near = {*found.values}, set[ir.Node]()
        for _ in range(_NEAR):
            more = {makers[name] for name in names & self.varying & makers.keys()}
            near |= {node for node in more if self.recorded.holds(boundary_of([node]))}
            names = {name for node in near for name in boundary_of([node])}
        nodes = sorted(near, key=places.__getitem__)
        if not nodes:
            return found
        bounds = bounds_of(self.before, nodes, self.recorded.samples[0])
        narrow = on_levels(clipped(found.values, bounds), nodes)
        if all(narrow[name] is value for name, value in found.values.items()):
            return found
        sources = self._rows.sources(part, ahead)
        for kinds in rounds:
            drawn = self._rows.draw(part, sources, kinds, ahead)
            draws = [on_levels(clipped(row, bounds), nodes) for row in drawn]
            now = self.run(part, ahead, draws)
            if now is None or not now.agrees:
                return found
            if now.elements:
                return now
        return found

    def _compare(
        self,
        part: ObligationPart,
        ahead: Sequence[ir.Node],
        rounds: Sequence[Sequence[ValueSource]],
        wanted: Mapping[str, Array] | None = None,
        inner: Sequence[ir.Node] = (),
    ) -> RandomFinding | None:
        """Compare a part behind nodes of the model before.

        Behind fewer, the ``inner`` ones, it differs on ``wanted`` values.

        Both sides read what these compute. Behind nodes of the model after, a part would
        answer for what the pass changed ahead of it, which is a part of its own.
        """
        sources = self._rows.sources(part, ahead)
        if not self.recorded.holds(sources.values()):
            return None
        inputs = {value.name for value in self.before.graph.inputs}
        given = self.varying & sources.keys() <= inputs

        def told(found: RandomFinding, draws: Sequence[Mapping[str, Array]]) -> RandomFinding:
            values = {name: draws[found.row][name] for name in self.varying & sources.keys()}
            # Integers that a caller may never give do not fail a pass.
            first = self.recorded.samples[0]
            seen = all(
                kind_of(value.dtype) != "int" or identical(first[sources[name]], value)
                for name, value in values.items()
            )
            where = _where(values, found.place)
            return replace(found, values=values, given=given and seen, where=where)

        found = None
        for kinds in rounds:
            ready = self._ready.get(id(part)) if kinds is DRAWS_OF_OTHERS else None
            ready = None if ahead else ready
            draws = (
                ready.draws
                if ready is not None
                else self._rows.draw(part, sources, kinds, ahead, wanted)
            )
            now = self.run(part, ahead, draws, ready)
            if now is not None and now.agrees and wanted and ahead:
                if kinds is not DRAWS_OF_OTHERS:
                    if now.elements:
                        return now
                    found = now
                    continue
                return self._along_rays(part, (inner, ahead), sources, wanted, now, told)
            if now is not None and not now.agrees:
                return told(now, draws)
            if now is not None and now.elements:
                return now
            found = now or found
        return found

    def _along_rays(
        self,
        part: ObligationPart,
        nodes: tuple[Sequence[ir.Node], Sequence[ir.Node]],
        sources: Mapping[str, str],
        wanted: Mapping[str, Array],
        found: RandomFinding,
        told: Callable[[RandomFinding, Sequence[Mapping[str, Array]]], RandomFinding],
    ) -> RandomFinding:
        """Look farther where a part agrees, for values on which it differs behind fewer nodes.

        Values that more nodes cannot give, by interval arithmetic, are not looked for.
        """
        inner, ahead = nodes
        recorded = self.recorded.samples[0]
        known = {name: recorded[source] for name, source in sources.items()}
        row = run_nodes(self.engine, self.before, ahead, [known])[0]
        both = {} if row is None else {**known, **row}
        bounds = bounds_of(self.before, ahead, both) if both else {}
        read = self._rows.sources(part, inner)
        bounds = {name: bounds[name] for name in bounds.keys() & read.keys()}
        draws = self._rows.draw(part, read, DRAWS_OF_OTHERS, inner)
        possible = [clipped(draw, bounds) for draw in (*draws, {**draws[0], **wanted})]
        inside = self.run(part, inner, possible)
        if inside is None or inside.agrees:
            return replace(found, possible=inside is None)
        ends = {n: span for n in bounds if (span := span_of(possible[inside.row][n]))}
        sides = [beside(possible[inside.row], ends.keys(), share) for share in (-1, 1)]
        near = self.run(part, inner, sides)
        if near is None or near.agrees:
            return replace(found, reached=False)  # it differs at a tie, which is rarely hit
        missing = {n: ends[n] for n in ends if not covers(found.spans.get(n), ends[n])}
        if not missing and _is_elementwise(part):
            return found
        missing = missing or ends  # each was reached, and elements decide together
        undefined = casts_to_integers((*ahead, *part.old, *part.new))
        rays = self._rows.rays((self.before, ahead), sources, missing.items(), {})
        draws = [] if undefined else list(rays)
        again = self.run(part, ahead, draws) if draws else None
        if again is None:
            return replace(found, reached=False)
        if not again.agrees:
            return told(again, draws)
        reached = all(covers(again.spans.get(n), span) for n, span in missing.items())
        return replace(found, reached=reached and _is_elementwise(part))

    def run(
        self,
        part: ObligationPart,
        ahead: Sequence[ir.Node],
        draws: Sequence[Mapping[str, Array]],
        ready: _Ready | None = None,
    ) -> RandomFinding | None:
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
        nodes = list(dict.fromkeys((*ahead, *part.old)))  # both may have a node
        told = self._judge(part, (nodes, part.new), rows) if rows else None
        if told is None:
            return None
        spans = spans_of([row for row in computed if row is not None])
        row, complete = places[told.row], len(places) == len(draws)
        return replace(told, row=row, complete=complete, spans=spans)

    def _judge(
        self,
        part: ObligationPart,
        nodes: tuple[Sequence[ir.Node], Sequence[ir.Node]],
        rows: Sequence[tuple[Mapping[str, Data], Mapping[str, Data]]],
    ) -> RandomFinding | None:
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
            return RandomFinding(agrees=False, row=row)  # a part of a sequence
        for one in (o for o in pairs if o.old in wrong):
            values = [
                (left[one.old], right[one.old]) for left, right in zip(old, new, strict=True)
            ]
            known = [before for before, _ in rows]
            asked = one, *sides, known, values
            causes = [find_cause(*asked)] if one.old not in beyond else []
            causes += [find_fused_cause(*asked)] if self.fuses else []
            if all(cause.cause is not Cause.ROUNDING for cause in causes):
                pair = {one.old: old[row][one.old]}, {one.old: new[row][one.old]}
                held = (c for p in self.promises for c in p.check(*pair) if not c.passed)
                place = next((c.worst for c in held if c.worst and c.max_abs is not None), ())
                return RandomFinding(agrees=False, row=row, place=place)
        tiny = self._wrong_by_size(part, sides, (old, new), rows)
        if tiny is not None:
            return RandomFinding(agrees=False, row=tiny)
        columns = [[row[o.old] for row in old] for o in pairs]
        arrays = [[a for a in c if isinstance(a, np.ndarray)] for c in columns]
        informative = any(is_informative(column, lambda: True) for column in arrays)
        sizes = (a.size for column in arrays for a in column if informative)
        return RandomFinding(agrees=True, elements=sum(sizes))

    def _wrong_by_size(
        self,
        part: ObligationPart,
        sides: tuple[Side, Side],
        values: tuple[Sequence[Outputs], Sequence[Outputs]],
        rows: Sequence[tuple[Mapping[str, Data], Mapping[str, Data]]],
    ) -> int | None:
        """Return a row whose tiny numbers another function made: what follows may amplify."""
        if not _is_elementwise(part):
            return None
        for row, (old, new) in enumerate(zip(*values, strict=True)):
            for one in part.obligations:
                if one.old not in old or not all(p.is_derived(one.old) for p in self.promises):
                    continue
                pair = old[one.old], new[one.old]
                if _is_far(*pair):
                    cause = find_cause(one, *sides, [rows[row][0]], [pair]).cause
                    if cause is Cause.FUNCTION:
                        return row
        return None

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
    def _rows(self) -> RandomInputs:
        models = self.before, self.after, self.recorded, self.engine
        return RandomInputs(*models, self.renamed, self.varying)

    @cached_property
    def _makers(self) -> tuple[dict[str, ir.Node], dict[ir.Node, int]]:
        """The nodes of the model before by the names of their results, and their places."""
        nodes = list(self.before.graph)
        makers = {str(v.name): node for node in nodes for v in node.outputs if v.name}
        return makers, {node: place for place, node in enumerate(nodes)}


@dataclass(frozen=True)
class RandomFinding:
    """What random values show of a part.

    ``elements`` counts those compared; 0 if they do not vary. If the sides differ, ``values``
    are the ones drawn where they differ most, in draw ``row``; if these are inputs of the
    model (``given``), they may occur. ``complete`` says that both sides ran on each draw.
    ``spans`` are the least and greatest numbers of each result of the nodes ahead. If these
    did not get as far as values on which the part differs, it is not ``reached``. These are
    not ``possible`` if intervals rule them out. The element at ``place`` differs most, and
    ``where`` says what it is computed of, if that is one number of each value.
    """

    agrees: bool
    elements: int = 0
    values: Mapping[str, Array] = field(default_factory=dict)
    given: bool = False
    row: int = 0
    complete: bool = True
    spans: Mapping[str, Interval] = field(default_factory=dict)
    reached: bool = True
    possible: bool = True
    place: tuple[int, ...] = ()
    where: str = ""


def _where(values: Mapping[str, Array], place: tuple[int, ...]) -> str:
    found = [
        f"{name} is {value[place].item():.9g}"
        for name, value in sorted(values.items())
        if place and value.ndim == len(place) and kind_of(value.dtype) in ("float", "int")
        if all(index < size for index, size in zip(place, value.shape, strict=True))
    ]
    return f" (where {' and '.join(found)})" if found and len(found) == len(values) else ""


_FAR = 1e-2
"""How far off a value that is wrong by size is at least, as a share of its largest element."""


@np.errstate(all="ignore")
def _is_far(old: Data, new: Data) -> bool:
    if not is_float(old) or not is_float(new) or old.shape != new.shape:
        return False
    left, right = widen(old), widen(new)
    finite = np.isfinite(left) & np.isfinite(right)
    apart = np.abs(left - right, where=finite, out=np.zeros(left.shape)).max(initial=0.0)
    return bool(apart > _FAR * np.abs(left).max(initial=0.0, where=finite))


def _is_elementwise(part: ObligationPart) -> bool:
    """Whether an element alone decides whether a part differs, and not several together."""
    operators = map(operator_of, (*part.old, *part.new))
    return all(operator is not None and operator.elementwise for operator in operators)


_TRIED = (35, 259, 2051)
"""Sizes, each a little beyond a power of two."""

_LARGEST = 1 << 22
"""Elements of a value, where two of its dimensions grow, up to which a size is tried."""

Series = tuple[int, ...]
"""What a size is on each sample."""


@dataclass(frozen=True)
class SizeFinding:
    """What larger sizes show of a part.

    ``elements`` counts those compared. Where the sides differ, ``told`` names the size, and
    ``feeds`` are inputs of the model of that size.
    """

    elements: int = 0
    told: str = ""
    feeds: Feeds | None = None


@dataclass(frozen=True)
class SizeComparison:
    """Compares parts of a change at sizes of the inputs that the samples lack."""

    comparison: RandomComparison

    def compare(self, part: ObligationPart) -> SizeFinding | None:
        """Compare a part; None if it depends on data, or on sizes that are not understood."""
        ahead = self._ahead(part)
        read = None if ahead is None else self._sizes_read(part, ahead)
        if ahead is None or not read:
            return None
        rows: list[dict[str, Array]] = []
        tried: list[tuple[Series, int]] = []
        for series, size in self._larger(part, ahead):
            made = {name: self._scaled(name, series, size) for name in read}
            row = {name: array for name, array in made.items() if array is not None}
            if len(row) == len(read):
                rows.append(row)
                tried.append((series, size))
        if not rows:
            return None
        found = self.comparison.run(part, ahead, rows)
        if found is None or found.agrees:
            return None if found is None else SizeFinding(found.elements)
        for row, (series, size) in zip(rows, tried, strict=True):
            found = self.comparison.run(part, ahead, [row])
            if found is not None and not found.agrees:
                names = [name for name, one in self._symbols.items() if one == series]
                told = f"differs where {' and '.join(names)} is {size}"
                return SizeFinding(0, told, self._feeds(series, size))
        return None

    def _ahead(self, part: ObligationPart) -> list[ir.Node] | None:
        """Return the nodes that compute what a part reads from sizes; None for data."""
        sources = self.comparison.sources(part)
        if any(name in self.comparison.varying for name in sources.values()):
            return None
        graph = self.comparison.before.graph
        ahead = backward_slice(sources, graph, self._makers.__contains__)
        giving = {*self._makers.values()}
        ahead = [node for node in ahead if node not in giving]
        made = {str(v.name) for node in ahead for v in node.outputs} | self._makers.keys()
        return ahead if made.issuperset({*sources, *boundary_of(ahead)}) else None

    def _sizes_read(self, part: ObligationPart, ahead: Sequence[ir.Node]) -> list[str]:
        names = {*boundary_of(ahead), *self.comparison.sources(part)} & self._makers.keys()
        return sorted(names) if self.comparison.recorded.holds(names) else []

    def _larger(
        self, part: ObligationPart, ahead: Sequence[ir.Node]
    ) -> Iterator[tuple[Series, int]]:
        """Yield sizes to try: those of a dimension of the inputs, the others as they are."""
        first = self.comparison.recorded.samples[0]
        names = {str(v.name) for node in (*ahead, *part.old) for v in node.outputs}
        most = max((np.size(first[name]) for name in names if name in first), default=1)
        for series in dict.fromkeys(self._symbols.values()):
            for size in _TRIED:
                if most * (size / max(series[0], 1)) ** 2 <= _LARGEST and size > max(series):
                    yield series, size

    def _scaled(self, name: str, series: Series, size: int) -> Array | None:
        """Return what a Shape gives where a dimension has a size; None if that is untold."""
        recorded = [np.asarray(sample[name]) for sample in self.comparison.recorded.samples]
        if len({array.shape for array in recorded}) > 1:
            return None
        columns = np.stack([array.reshape(-1) for array in recorded], axis=1)
        made = [self._size(tuple(map(int, column)), series, size) for column in columns]
        if None in made:
            return None
        return np.array(made, recorded[0].dtype).reshape(recorded[0].shape)

    def _size(self, one: Series, series: Series, size: int) -> int | None:
        """Return a size where another one is given; None if it follows from none.

        It may be the other one times a number, or with another size or a number added.
        """
        if len({*one}) == 1:
            return one[0]
        others = {*self._symbols.values()} - {series}
        apart = _less(one, series)
        if len({*apart}) == 1 or apart in others:
            return size + apart[0]
        if one in others:
            return one[0]
        if (factor := _times(one, series)) is not None:
            return size * factor
        alone = (_times(one, x) is not None or len({*_less(one, x)}) == 1 for x in others)
        return one[0] if any(alone) else None

    def _feeds(self, series: Series, size: int) -> Feeds | None:
        """Return the first sample, repeated up to a size; None if an input is not a tensor."""
        first, symbols = self.comparison.recorded.samples[0], self._dimensions
        if not symbols.shapes.keys() <= first.keys():
            return None
        sizes: dict[str, int] = {}
        for name, dims in symbols.shapes.items():
            for axis, dim in enumerate(dims):
                if dim in symbols.kinds:
                    known = self._symbols.get(str(dim))
                    now = None if known is None else self._size(known, series, size)
                    sizes[str(dim)] = first[name].shape[axis] if now is None else now
        found: dict[str, Data] = {}
        for name in symbols.shapes:
            array = first[name]
            for axis, wanted in enumerate(symbols.resolve(name, sizes)):
                array = array.take(np.arange(wanted) % max(array.shape[axis], 1), axis)
            found[name] = array
        return found

    @cached_property
    def _dimensions(self) -> Symbols:
        return symbols_of_model(self.comparison.before)

    @cached_property
    def _makers(self) -> dict[str, ir.Node]:
        """The nodes that give sizes, by the names of their results."""
        graph = self.comparison.before.graph
        asked = (n for n in graph if not n.domain and n.op_type in GIVES_SIZES)
        return {str(node.outputs[0].name): node for node in asked}

    @cached_property
    def _symbols(self) -> dict[str, Series]:
        """The dimensions of the inputs that differ from sample to sample."""
        samples = self.comparison.recorded.samples
        found: dict[str, Series] = {}
        for name, dims in self._dimensions.shapes.items():
            for axis, dim in enumerate(dims):
                # What an expression of names gives follows from these.
                if dim in self._dimensions.kinds and all(name in one for one in samples):
                    series = tuple(sample[name].shape[axis] for sample in samples)
                    if len({*series}) > 1:
                        found[str(dim)] = series
        return found


def _less(one: Series, other: Series) -> Series:
    return tuple(a - b for a, b in zip(one, other, strict=True))


def _times(one: Series, other: Series) -> int | None:
    """Return how many times another size one is on each sample; None if that differs."""
    factor = max(one) // max(other)
    return factor if one == tuple(factor * size for size in other) else None
