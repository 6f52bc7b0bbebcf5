"""Find the smallest model that still fails: fewer nodes, smaller sizes, simpler values.

The search uses bisection and delta debugging. Every result is checked.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.bench.reducing.candidates import (
    CheckOutcome,
    Ledger,
    ModelCheck,
    Question,
    Reduction,
    SmallerModel,
    Status,
    Trial,
)
from onnx_passes.bench.reducing.parts import Boundary, Nodes, Parts, Piece, reach
from onnx_passes.bench.runs.results import feeds_digest
from onnx_passes.errors import ModelError, OnnxPassesError, UsageError
from onnx_passes.model.digest import canonical_hash
from onnx_passes.runtime.engine_base import Data, Engine, Feeds
from onnx_passes.runtime.engine_models import content_digest
from onnx_passes.verify.evidence import OutputCheck
from onnx_passes.verify.shrink import Case, Shrinker, first_of

__all__ = ["Boundary", "Reducer", "Reduction", "reduce"]

Mode: TypeAlias = Literal["auto", "bisect", "linear"]
MODES: tuple[Mode, ...] = ("auto", "bisect", "linear")


class PartJudge(Protocol):
    """Says whether a part fails; what cannot be judged does not."""

    def fails(self, kept: Nodes) -> bool:
        """Judge a part, which has at least one node."""
        ...


def search(parts: Parts, judge: PartJudge, mode: Mode, bad: Nodes) -> Nodes:
    """Return a set of nodes that fails, as small as the mode finds.

    ``bisect`` finds the earliest end of a failing part and then its latest start, in a
    logarithmic number of checks. ``linear`` removes one node at a time until none can go.
    ``auto`` bisects for one node after the other without which nothing fails, looking near
    those it knows first (as QuickXplain does for constraints; Junker, 2004). Then it removes
    halves of what is left (ddmin; Zeller and Hildebrandt, 2002), so that no single node can be
    removed from the result. ``bad`` are the nodes to begin with, which fail.
    """
    run = _Minimiser(parts, judge)
    if mode == "bisect":
        return run.latest_start(run.earliest_end(bad))
    if mode == "linear":
        return run.one_by_one(bad)
    if len(bad) > 2:  # of two, each is tried alone either way
        bad = run.needed(bad)
    return run.ddmin(bad, pieces=len(bad))


class _Minimiser:
    def __init__(self, parts: Parts, judge: PartJudge) -> None:
        self.parts, self.judge = parts, judge

    def earliest_end(self, bad: Nodes) -> Nodes:
        order = sorted(bad)
        count = self.shortest(order, lambda n: self.parts.trim(order[:n]), low=0)
        return self.parts.trim(order[:count])

    def latest_start(self, bad: Nodes) -> Nodes:
        order = sorted(bad)
        total = len(order)
        count = self.shortest(order, lambda n: self.parts.trim(order[total - n :]), low=0)
        return self.parts.trim(order[total - count :])

    def shortest(self, order: Sequence[int], part: Callable[[int], Nodes], *, low: int) -> int:
        """Return the least number for which a part fails, above one that does not."""
        return first_of(low, len(order), lambda points: [self.fails(part(n)) for n in points])

    def fails(self, kept: Nodes) -> bool:
        """Judge a part; one without nodes does not fail."""
        return bool(kept) and self.judge.fails(kept)

    def first_smaller(self, candidates: Sequence[Nodes], bad: Nodes) -> Nodes | None:
        """Return the first part of fewer nodes that fails."""
        smaller = (kept for kept in candidates if len(kept) < len(bad))
        return next(filter(self.fails, smaller), None)

    def one_by_one(self, bad: Nodes) -> Nodes:
        shrunk = True
        while shrunk and len(bad) > 1:
            shrunk = False
            for index in sorted(bad, reverse=True):
                if index not in bad:
                    continue
                kept = self.first_smaller([self.parts.trim(bad - {index})], bad)
                if kept is not None:
                    bad, shrunk = kept, True
        return bad

    def ddmin(self, bad: Nodes, *, pieces: int) -> Nodes:
        while len(bad) > 1:
            order = sorted(bad)
            pieces = max(2, min(pieces, len(order)))
            chunks = [frozenset(chunk) for chunk in _split(order, pieces)]
            single = pieces == len(order) > 2  # that one node fails alone was known before
            alone = [] if single else [self.parts.trim(chunk) for chunk in chunks]
            kept = self.first_smaller(alone, bad)
            if kept is not None:
                bad, pieces = kept, 2
                continue
            # Each of two chunks is the complement of the other, which was tried.
            left = chunks if pieces > 2 else ()
            kept = self.first_smaller([self.parts.trim(bad - chunk) for chunk in left], bad)
            if kept is not None:
                bad, pieces = kept, pieces - 1
            elif pieces == len(order):
                break
            else:
                pieces = 2 * pieces
        return bad

    def needed(self, bad: Nodes) -> Nodes:
        """Find one after the other node without which nothing fails, the last one first."""
        found: list[int] = []
        rest = sorted(bad)
        while rest:
            count = self._count(found, rest)
            if count == 0:
                break
            found.append(rest[count - 1])
            rest = self._nearest(found, rest[: count - 1])
        return self.parts.grow(found)

    def _count(self, found: Sequence[int], rest: Sequence[int]) -> int:
        """Return how many of the rest, from the first on, it takes to fail."""

        def part(count: int) -> Nodes:
            return self.parts.grow([*found, *rest[:count]])

        if not found:
            return self.shortest(rest, part, low=0)
        low, step = -1, 0
        while step < len(rest):
            # What is missing is near; steps get longer, in case that it is not.
            if self.fails(part(step)):
                return self.shortest(rest[:step], part, low=low)
            low, step = step, max(1, 2 * step)
        return self.shortest(rest, part, low=low)

    def _nearest(self, found: Sequence[int], rest: Sequence[int]) -> list[int]:
        """Sort nodes: between those that are needed first, then by their distance to these."""
        inside = reach(found, self.parts.children) & reach(found, self.parts.parents)
        distance = dict.fromkeys(found, 0)
        frontier = list(found)
        while frontier:
            following = []
            for index in frontier:
                for other in (*self.parts.parents[index], *self.parts.children[index]):
                    if other not in distance:
                        distance[other] = distance[index] + 1
                        following.append(other)
            frontier = following
        far = len(self.parts.nodes)
        return sorted(rest, key=lambda i: (i not in inside, distance.get(i, far), -i))


def _split(order: list[int], pieces: int) -> list[list[int]]:
    bounds = [len(order) * i // pieces for i in range(pieces + 1)]
    return [order[a:b] for a, b in pairwise(bounds)]


_LARGEST = 64 << 20  # bytes of a weight that are still looked at


@dataclass
class Simplifier:
    """Shrinks what the nodes of a model work on, once none of them can go.

    ``model`` is the smallest so far, with its ``feeds``. ``engine`` gives inner values, for
    their shapes. ``limit`` counts checks. If the engine ``runs`` the model, it has to run
    smaller ones as well.
    """

    model: ir.Model
    feeds: Feeds
    fails: Callable[[ir.Model, Feeds], bool]
    engine: Engine
    limit: int
    seconds: float = 60.0
    runs: bool = False
    tried: int = 0
    notes: list[str] = field(default_factory=list)

    def run(self) -> tuple[ir.Model, Feeds]:
        """Shrink as far as the limits allow."""
        before = _size(self.model, self.feeds)
        self.runs = _runs(self.model, self.feeds, self.engine)
        shrinker = Shrinker(
            Case(self.model, self.model, dict(self.feeds), "the model"),
            self._judge,
            repeats=lambda model, feeds: False,
            engine=self.engine,
            deadline=time.monotonic() + self.seconds,
        )
        case = shrinker.run()
        self.model, self.feeds = case.before, case.feeds
        self._simpler_weights()
        if self.runs:
            self._declare()
        after = _size(self.model, self.feeds)
        if after < before:
            self.notes.append(
                f"inputs and weights shrunk from {before:,} to {after:,} elements"
            )
        return self.model, self.feeds

    def _declare(self) -> None:
        """Declare the shapes that outputs have by now, and forget inner ones."""
        self.model = self.model.clone()
        with self.engine.prepare(self.model) as session:
            given = session.run(self.feeds)
        for node in self.model.graph:
            for value in node.outputs:
                value.shape = None
        for value in self.model.graph.outputs:
            data = given[str(value.name)]
            value.shape = ir.Shape(data.shape) if isinstance(data, np.ndarray) else None

    def _judge(self, case: Case) -> tuple[OutputCheck, ...] | None:
        return () if self._fails(case.before, case.feeds) else None

    def _fails(self, model: ir.Model, feeds: Feeds) -> bool:
        if self.tried >= self.limit:
            return False
        if self.runs and not _runs(model, feeds, self.engine):
            return False  # dimensions that do not fit each other do not make a smaller case
        self.tried += 1
        return self.fails(model, feeds)

    def _simpler_weights(self) -> None:
        """Replace weights by ones or rounded numbers: all, then each."""
        names = [name for name, _ in _weights(self.model)]
        for chosen in (names, *([name] for name in names if len(names) > 1)):
            for simpler in (np.ones_like, _rounded):
                model = _with(self.model, chosen, simpler)
                if model is not None and self._fails(model, self.feeds):
                    self.model = model
                    if len(chosen) == len(names):
                        return
                    break


def _runs(model: ir.Model, feeds: Feeds, engine: Engine) -> bool:
    try:
        with engine.prepare(model) as session:
            session.run(feeds)
    except OnnxPassesError:
        return False
    return True


def _weights(model: ir.Model) -> Iterator[tuple[str, ir.TensorProtocol]]:
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if tensor is None or tensor.dtype not in (ir.DataType.FLOAT, ir.DataType.DOUBLE):
            continue  # integers are shapes, axes and indices
        if tensor.size > 1 and tensor.nbytes <= _LARGEST:
            yield name, tensor


def _with(
    model: ir.Model, names: list[str], simpler: Callable[[Array], Array]
) -> ir.Model | None:
    copy = model.clone()
    changed = False
    for name, tensor in list(_weights(copy)):
        if name in names:
            array = tensor.numpy()
            other = simpler(array)
            if not np.array_equal(array, other):
                copy.graph.initializers[name].const_value = ir.tensor(other, name=name)
                changed = True
    return copy if changed else None


def _rounded(array: Array) -> Array:
    return np.rint(array).astype(array.dtype)


def _size(model: ir.Model, feeds: Feeds) -> int:
    tensors = [v.const_value for v in model.graph.initializers.values()]
    weights = sum(tensor.size for tensor in tensors if tensor is not None)
    return weights + sum(_elements(data) for data in feeds.values())


def _elements(data: Data) -> int:
    return data.size if isinstance(data, np.ndarray) else 0


@dataclass
class Reducer:
    """Reduces a model by a check.

    ``tell`` is called after each check; ``replay`` is a file of answers. ``shrink`` counts the
    checks for smaller dimensions and simpler values of the result; 0 for none.
    """

    parts: Parts
    check: ModelCheck
    mode: Mode = "auto"
    tell: Callable[[Trial], None] = lambda trial: None
    replay: Path | None = None
    shrink: int = 0
    ledger: Ledger = field(init=False)
    good: dict[Nodes, CheckOutcome] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Read the answers that are there."""
        about = ""
        if self.replay is not None:
            parts = self.parts
            hashed = canonical_hash(parts.model)
            about = f"{hashed} {parts.keep_inputs:d}{parts.keep_outputs:d}"
        self.ledger = Ledger(self.check, self.tell, self.replay, about)

    def fails(self, kept: Nodes) -> bool:
        """Judge a part."""
        outcome = self.ledger.ask(self._question(kept))
        if outcome.status is Status.GOOD:
            self.good[kept] = outcome
        return outcome.bad

    def run(self) -> Reduction:
        """Reduce.

        UsageError if the check does not fail on the model, or fails on any. ModelError if the
        model cannot be taken apart.
        """
        whole = self.parts.whole
        if not whole:
            raise ModelError("the model has no nodes that could be taken away")
        if not self.fails(whole):
            raise self._nothing(self.ledger.ask(self._question(whole)))
        kept = search(self.parts, self, self.mode, whole)
        if not self._discerns(kept):
            self._control()
        model = self.parts.part(kept)
        assert model is not None
        told = self.ledger.ask(self._question(kept))
        feeds = (
            self._feeds(model.graph.inputs) if self.shrink or self.check.reads_values else None
        )
        if self.shrink and feeds is not None:
            self.ledger.seen[self._hash(model, feeds)] = told
            model, feeds = self._shrunk(model, feeds, len(kept))
        return Reduction(
            model,
            feeds if self.check.reads_values else None,
            before=len(whole),
            after=len(kept),
            checks=self.ledger.run,
            replayed=len(self.ledger.trials) - self.ledger.run,
            told=told.told,
            good=self._nearest_good(kept),
            notes=tuple(self.notes),
        )

    def _discerns(self, kept: Nodes) -> bool:
        """Whether the check passes any part; where none was seen, what is beside is tried."""
        for each in self._beside(kept):
            if self.good:
                break
            self.fails(each)
        return bool(self.good)

    def _beside(self, kept: Nodes) -> list[Nodes]:
        """Return two parts, each of a node that reads what some nodes make, or is read."""
        edges = (self.parts.parents, self.parts.children)
        near = {other for index in kept for links in edges for other in links[index]}
        return [self.parts.grow([index]) for index in sorted(near - kept)[:2]]

    def _hash(self, model: ir.Model, feeds: Feeds) -> str:
        values = feeds_digest(feeds if self.check.reads_values else {})
        return f"{content_digest(model).hex()} {values}"

    def _shrunk(self, model: ir.Model, feeds: Feeds, nodes: int) -> tuple[ir.Model, Feeds]:

        def fails(model: ir.Model, feeds: Feeds) -> bool:
            question = Question(
                self._hash(model, feeds), nodes, lambda: SmallerModel(model, lambda: feeds)
            )
            return self.ledger.ask(question).bad

        simplifier = Simplifier(model, feeds, fails, self.parts.boundary.engine, self.shrink)
        small = simplifier.run()
        self.notes += simplifier.notes
        return small

    def _question(self, kept: Nodes) -> Question:
        bits = bytearray(len(self.parts.nodes) // 8 + 1)
        for index in kept:
            bits[index >> 3] |= 1 << (index & 7)
        key = hashlib.blake2b(bytes(bits), digest_size=16).hexdigest()
        return Question(key, len(kept), lambda: self._candidate(kept))

    def _candidate(self, kept: Nodes) -> SmallerModel | None:
        piece = self.parts.piece(kept)
        if piece is None:
            return None
        return SmallerModel(lambda: self._model(piece), lambda: self._feeds(piece.inputs))

    def _model(self, piece: Piece) -> ir.Model:
        return self.parts.model if self._is_whole(piece) else self.parts.model_of(piece)

    def _is_whole(self, piece: Piece) -> bool:
        """Whether a part is the model as it is, which need not be copied."""
        graph = self.parts.model.graph
        held = {*piece.constants, *piece.inputs}
        return (
            len(piece.nodes) == len(graph)
            and piece.inputs == list(graph.inputs)
            and piece.outputs == list(graph.outputs)
            and all(value in held for value in graph.initializers.values())
        )

    def _feeds(self, inputs: Sequence[ir.Value]) -> Feeds | None:
        names = [str(value.name) for value in inputs if not value.is_initializer()]
        return self.parts.boundary.values(names)

    def _nothing(self, outcome: CheckOutcome) -> UsageError:
        last = outcome.last_words
        if outcome.status is Status.UNJUDGED:
            return UsageError(
                f"the check says nothing of the whole model: {outcome.told}",
                help="try the check on the model by itself first, and give it longer if it "
                "needs that: --timeout"
                if outcome.told.startswith("ran longer")
                else "try the check on the model by itself first" + last,
            )
        return UsageError(
            "the check does not fail on the whole model, so there is nothing to reduce"
            + (f" ({outcome.told})" if outcome.told else ""),
            help="it has to fail on the model as it is" + last,
        )

    def _control(self) -> None:
        """Raise UsageError if a check that always failed fails an empty model too."""
        question = Question("identity", 1, SmallerModel.identity)
        outcome = self.ledger.ask(question)
        if outcome.bad:
            raise UsageError(
                "the check fails on every model, even on one of a single Identity"
                f" ({outcome.told}), so that nothing can be learned from it",
                help=f"see that it takes the path of the model: {{model}}{outcome.last_words}",
            )

    def _nearest_good(self, kept: Nodes) -> ir.Model | None:
        near = sorted(self.good, key=lambda good: (abs(len(good) - len(kept)), -len(good)))
        return self.parts.part(near[0]) if near else None


def reduce(
    model: ir.Model, check: ModelCheck, boundary: Boundary, *, mode: Mode = "auto"
) -> Reduction:
    """Return the smallest model that still fails a check.

    Args:
        model: The model; left as it is.
        check: What judges candidates.
        boundary: What is known of the values of the model.
        mode: How to search, see :func:`~onnx_passes.bench.reducing.search`.

    Raises:
        UsageError: The check does not fail on the model, or fails on any.
        ModelError: The model cannot be taken apart.
    """
    return Reducer(Parts(model, boundary), check, mode).run()
