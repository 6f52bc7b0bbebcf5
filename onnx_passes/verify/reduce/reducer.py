"""The smallest model that still fails."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from threading import RLock

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.errors import ModelError, UsageError
from onnx_passes.model.digest import canonical_hash, tensor_digest
from onnx_passes.model.walk import Choice, replaced
from onnx_passes.runtime.engine_base import Feeds
from onnx_passes.runtime.engine_models import split_weights
from onnx_passes.verify.reduce.boundary import Boundary
from onnx_passes.verify.reduce.ledger import Ledger, Question, Trial
from onnx_passes.verify.reduce.outcome import (
    CheckOutcome,
    ModelCheck,
    Reduction,
    SmallerModel,
    Status,
)
from onnx_passes.verify.reduce.parts import Nodes, Parts, Piece
from onnx_passes.verify.reduce.rendered_parts import Renderer
from onnx_passes.verify.reduce.search import Mode, search


@dataclass
class Reducer:
    """Reduces a model by a check.

    Attributes:
        parts: The model and what may be taken away.
        check: What judges candidates.
        mode: How to search.
        tell: Called after each check.
        replay: File of answers.
        shrink: How many checks may go into smaller dimensions and simpler values of the
            result; 0 leaves them as they are.
        every: Whether to look for other failing parts in what the result leaves out.
    """

    parts: Parts
    check: ModelCheck
    mode: Mode = "auto"
    tell: Callable[[Trial], None] = lambda trial: None
    replay: Path | None = None
    shrink: int = 0
    every: bool = False
    ledger: Ledger = field(init=False)
    good: dict[Nodes, CheckOutcome] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    _renderers: dict[Choice, Renderer] = field(default_factory=dict)
    _lock: AbstractContextManager[object] = field(default_factory=RLock, repr=False)

    def __post_init__(self) -> None:
        """Read the answers that are there."""
        about = ""
        if self.replay is not None:
            parts = self.parts
            hashed = canonical_hash(parts.model)
            about = f"{hashed} {parts.keep_inputs:d}{parts.keep_outputs:d}"
        self.ledger = Ledger(self.check, self.tell, self.replay, about)

    @property
    def width(self) -> int:
        """How many parts are judged at a time."""
        return self.check.width

    def fail(self, parts: Sequence[Nodes]) -> list[bool]:
        """Judge some parts."""
        outcomes = self.ledger.ask([self._question(kept) for kept in parts])
        for kept, outcome in zip(parts, outcomes, strict=True):
            if outcome.status is Status.GOOD:
                self.good[kept] = outcome
        return [outcome.bad for outcome in outcomes]

    def run(self) -> Reduction:
        """Reduce.

        Raises:
            UsageError: The check does not fail on the model, or fails on any.
            ModelError: The model cannot be taken apart.
        """
        whole = self.parts.whole
        if not whole:
            raise ModelError("the model has no nodes that could be taken away")
        guesses = self._guesses(whole)
        early = list(islice(guesses, self.width - 1))
        if not self.fail([whole, *early])[0]:
            raise self._nothing(self.ledger.ask([self._question(whole)])[0])
        kept = search(self.parts, self, self.mode, self._suspected(whole, early, guesses))
        if not self._discerns(kept):
            self._control()
        model = self.parts.part(kept)
        assert model is not None
        told = self.ledger.ask([self._question(kept)])[0]
        others = self._others(kept) if self.every else []
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
            others=tuple(others),
            good=self._nearest_good(kept),
            notes=tuple(self.notes),
        )

    def _guesses(self, whole: Nodes) -> Iterator[Nodes]:
        """Return suspects with what they need, found when asked for."""
        if self.mode != "auto" or len(whole) == 1:
            return
        from onnx_passes.verify.reduce.localize import suspects

        for suspect in suspects(self.parts, self.check):
            grown = self.parts.grow(suspect)
            if grown != whole:
                yield grown

    def _suspected(
        self, whole: Nodes, early: Sequence[Nodes], others: Iterator[Nodes]
    ) -> Nodes:
        """Return a suspect that fails by itself, or else all."""
        if self.mode != "auto":
            return whole
        from onnx_passes.verify.reduce.localize import named

        outcome = self.ledger.ask([self._question(whole)])[0]
        called = (self.parts.grow([i]) for i in named(self.parts, outcome))
        for suspect in chain(called, early, others):
            # What is beside one node is asked for later anyway, if it fails.
            alone = len(suspect) == 1
            beside = self._beside(suspect)[: self.width - 1] if alone else []
            if self.fail([suspect, *beside])[0]:
                return suspect
        return whole

    def _discerns(self, kept: Nodes) -> bool:
        """Whether the check passes any part; where none was seen, what is beside is tried."""
        for each in self._beside(kept):
            if self.good:
                break
            self.fail([each])
        return bool(self.good)

    def _beside(self, kept: Nodes) -> list[Nodes]:
        """Return two parts, each of a node that reads what some nodes make, or is read."""
        edges = (self.parts.parents, self.parts.children)
        near = {other for index in kept for links in edges for other in links[index]}
        return [self.parts.grow([index]) for index in sorted(near - kept)[:2]]

    def _others(self, kept: Nodes) -> list[ir.Model]:
        found = []
        rest = self.parts.trim(self.parts.whole - kept)
        while rest and self.fail([rest])[0]:
            kept = search(self.parts, self, self.mode, rest)
            model = self.parts.part(kept)
            assert model is not None
            found.append(model)
            rest = self.parts.trim(rest - kept)
        return found

    def _hash(self, model: ir.Model, feeds: Feeds) -> str:
        return hash_of(model, feeds if self.check.reads_values else {})

    def _shrunk(self, model: ir.Model, feeds: Feeds, nodes: int) -> tuple[ir.Model, Feeds]:
        from onnx_passes.verify.reduce.smaller_values import Simplifier

        def fails(model: ir.Model, feeds: Feeds) -> bool:
            question = Question(
                self._hash(model, feeds), nodes, lambda: SmallerModel(model, lambda: feeds)
            )
            return self.ledger.ask([question])[0].bad

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
        with self._lock:
            piece = self.parts.piece(kept)
        if piece is None:
            return None
        return SmallerModel(
            lambda: self._model(piece),
            lambda: self._feeds(piece.inputs),
            lambda choose: self._render(piece, choose),
        )

    def _model(self, piece: Piece) -> ir.Model:
        with self._lock:
            return self.parts.model if self._is_whole(piece) else self.parts.model_of(piece)

    def _is_whole(self, piece: Piece) -> bool:
        """Whether a part is the model as it is, which need not be copied."""
        graph = self.parts.model.graph
        held = {*piece.constants, *piece.inputs}
        return (
            len(piece.nodes) == len(graph)
            and not self.parts.boundary.fixed
            and piece.inputs == list(graph.inputs)
            and piece.outputs == list(graph.outputs)
            and all(value in held for value in graph.initializers.values())
        )

    def _render(self, piece: Piece, choose: Choice) -> onnx.ModelProto:
        with self._lock:
            if self.parts.model.functions:
                model = self._model(piece)
                with replaced(model, choose):
                    return ir.to_proto(model)
            if choose not in self._renderers:
                self._renderers[choose] = Renderer(self.parts, choose)
            return self._renderers[choose].render(piece)

    def _feeds(self, inputs: Sequence[ir.Value]) -> Feeds | None:
        names = [str(value.name) for value in inputs if not value.is_initializer()]
        with self._lock:
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
        """See that a check that has always failed passes a model that does nothing.

        Raises:
            UsageError: It does not.
        """
        question = Question("identity", 1, SmallerModel.identity)
        outcome = self.ledger.ask([question])[0]
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
        mode: How to search, see :func:`~onnx_passes.verify.reduce.search.search`.

    Raises:
        UsageError: The check does not fail on the model, or fails on any.
        ModelError: The model cannot be taken apart.
    """
    return Reducer(Parts(model, boundary), check, mode).run()


def hash_of(model: ir.Model, feeds: Feeds) -> str:
    """Hash a model and the values of its inputs, names included.

    Args:
        model: The model.
        feeds: Inputs by name.
    """
    split = split_weights(model)
    content = hashlib.blake2b(
        split.proto.SerializeToString(deterministic=True), digest_size=16
    )
    for name, tensor in sorted(split.weights.items()):
        content.update(name.encode() + tensor_digest(tensor))
    for name, data in sorted(feeds.items()):
        if isinstance(data, np.ndarray):
            content.update(f"{name} {data.dtype} {data.shape}".encode())
            content.update(data.tobytes() if data.dtype != object else repr(data).encode())
        else:
            content.update(repr(data).encode())
    return content.hexdigest()
