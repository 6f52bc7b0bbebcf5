"""The original model on every engine: what passes are held against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_passes.contracts import Equality
from onnx_passes.errors import (
    EngineError,
    EngineUnavailableError,
    InputsRefusedError,
    UnsupportedModelError,
)
from onnx_passes.model.walk import captured_values, subgraphs_of
from onnx_passes.ops.node_queries import may_draw, may_vary
from onnx_passes.pipeline.engine_side import Bench, left_out, no_engine
from onnx_passes.risky_runs import avoided, one_at_a_time, running
from onnx_passes.runtime.engine_base import Feeds, Outputs, Session, run_one
from onnx_passes.runtime.inputs import DRAWN, AdversarialFeeds, Substitutes, name_of
from onnx_passes.runtime.inputs.seeded_feeds import elements_of
from onnx_passes.runtime.ort import left_out_of
from onnx_passes.runtime.reference import ReferenceEngine
from onnx_passes.verify.compare import identical
from onnx_passes.verify.judge import Promise

MOST_DRAWN = 4
"""Number of samples that are added because a part differs on their values."""


@dataclass
class Baseline:
    """The engines at work, the samples, and what cannot be compared.

    Nothing is run until an engine's results are asked for: see :meth:`ready`.

    Attributes:
        model: The original.
        benches: One for every engine.
        samples: The inputs; those on which the original does not run are left out.
        given: Whether the user gave the samples; one that does not run is then an error.
        unstable: Outputs in which two runs of the original differ.
        notes: What a user should know of the above, a sentence each.
        unheard: Engines on which the result is not compared, with the reason, a sentence each.
        substitutes: Other inputs for an original that does not run on generated ones.
        ahead: Whether runs may go on beside each other. Each session has the weights in its
            own part of the address space, mapped or not.
    """

    model: ir.Model
    benches: list[Bench]
    samples: list[Feeds]
    given: bool = False
    unstable: frozenset[str] = frozenset()
    notes: list[str] = field(default_factory=list)
    unheard: list[str] = field(default_factory=list)
    substitutes: Substitutes | None = None
    ahead: bool = True

    def __post_init__(self) -> None:
        """Look for operators whose results may differ from run to run."""
        self.ahead &= not one_at_a_time()
        suspects = [node for node in self.model.graph if self.is_random(node)]
        self.deterministic = not suspects
        drawing = [node for node in suspects if any(map(may_draw, _with_bodies(node)))]
        self.unstable |= _dependents(self.model, drawing)
        unknown = {f"{n.domain}::{n.op_type}" for n in suspects if n not in drawing}
        if unknown:
            self.notes.append(
                f"{', '.join(sorted(unknown))} may keep state: two runs of the original show "
                "whether it computes the same each time"
            )

    @property
    def usual_samples(self) -> list[Feeds]:
        """The samples that are not there for their special values."""
        return [sample for sample in self.samples if not isinstance(sample, AdversarialFeeds)]

    def is_random(self, node: ir.Node) -> bool:
        """Whether a node may compute something else in another run, seeds or not."""
        functions = self.model.functions
        called = functions.get(node.op_identifier())
        if called is not None and any(self.is_random(n) for n in called.graph):
            return True
        return any(may_vary(n, functions) for n in _with_bodies(node))

    def distrust_random(self, *models: ir.Model) -> None:
        """Leave out the outputs that depend on random numbers: their nodes are other ones."""
        for model in models:
            drawing = [n for n in model.graph if any(map(may_draw, _with_bodies(n)))]
            self.unstable |= _dependents(model, drawing)

    def ready(self, *moments: str) -> None:
        """Run the original on the engines of some moments, unless that was done.

        An engine that cannot run it is replaced by onnx's reference evaluator if that can, and
        the notes say so. Else it is left out if it is not the one that checks each pass and
        another engine ran the original: the result is then not verified on it.

        Raises:
            EngineError: Neither the engine nor the reference evaluator can run the original.
            EngineUnavailableError: An engine is not on this machine: nothing stands in for it.
        """
        for bench in self.benches:
            if bench.when in moments and not bench.ran:
                self._start(bench)

    def begin(self, *moments: str) -> None:
        """Start to run the original on the engines of some moments, beside what runs here.

        Whoever asks for the results waits for them.
        """
        # One seed is all that random operators share.
        if self.ahead and self.deterministic:
            for bench in self.benches:
                if bench.when in moments and not bench.ran:
                    bench.begin(self.model, self.samples, bench.label)

    def settle(self) -> None:
        """Wait for runs that nobody asked for any more."""
        for bench in self.benches:
            bench.settle()

    def doubt(self, bench: Bench) -> bool:
        """Ask the original to repeat itself on an engine, before a pass is accused.

        Returns:
            Whether it newly gave other results, so that outputs are left out as unstable.
        """
        if bench.doubted or not self.samples:
            return False
        bench.doubted = True
        # What is known of it may be translated to another interface: run it anew, both times.
        first = bench.run_anew(self.model, self.samples)
        unstable = self._differing(bench, first) - self.unstable
        if unstable:
            self.deterministic = False
            self.unstable |= unstable
        return bool(unstable)

    def _start(self, bench: Bench) -> None:
        try:
            self._first_run(bench)
        except EngineUnavailableError:
            raise
        except EngineError as error:
            reason = f"{bench.engine.name} cannot run the original: {error.message}"
            asked = bench.engine.name
            bench.engine, bench.fallback_for = ReferenceEngine(), reason
            if any(b.ran and b.engine == bench.engine for b in self.benches):
                bench.when = "never"  # the other checks each pass already, and so the end
                return
            self._keep_small()
            try:
                self._first_run(bench)
            except EngineError as second:
                if bench.when != "each" and any(other.ran for other in self.benches):
                    bench.when = "never"
                    self.unheard.append(f"the result: {reason}")
                    return
                raise no_engine(error, asked, bench.engine.name, second) from None
            self.notes.append(f"{reason}; {bench.engine.name} stands in for it")
        self.notes += left_out_of(bench.engine, self.model)
        if not self.deterministic:
            bench.doubted = True
            self.unstable |= self._differing(bench, bench.original)

    def _keep_small(self) -> None:
        """Leave out what was generated larger than needed: an evaluator in Python is slow."""
        sizes = [elements_of(feeds) for feeds in self.samples]
        ordinary = [n for n, s in zip(sizes, self.samples, strict=True) if name_of(s) is None]
        if ordinary and not self.given and not any(bench.ran for bench in self.benches):
            self.keep([i for i, size in enumerate(sizes) if size <= min(ordinary)])

    def _first_run(self, bench: Bench) -> None:
        if why := avoided(bench.label):
            raise EngineError(why)
        try:
            with running(bench.label):
                bench.take(bench.run(self.model, self.samples) if self.samples else [])
        except EngineError as error:
            unsupported = isinstance(error, UnsupportedModelError)
            if unsupported and all(name_of(feeds) is None for feeds in self.samples):
                raise
            self._drop_failing(bench, error)

    def _drop_failing(self, bench: Bench, error: EngineError) -> None:
        """Keep the generated samples that the original runs on."""
        with running(bench.label), bench.engine.prepare(self.model) as session:
            if found := self.sift(bench, session):
                bench.take(found)
            else:
                self._substitute(bench, session, error)

    def sift(
        self, bench: Bench, session: Session, names: Sequence[str] | None = None
    ) -> list[Outputs]:
        """Leave out the generated samples that the original does not run on.

        Args:
            bench: The engine.
            session: The original on it.
            names: Outputs to compute; None for all.

        Returns:
            Outputs of each sample that is kept; empty if only special ones would be, and none
            is left out then.

        Raises:
            EngineError: The engine does not know the model, or the user gave the samples.
        """
        found: dict[int, Outputs] = {}
        notes = []
        special: list[tuple[AdversarialFeeds, EngineError]] = []
        for index, feeds in enumerate(self.samples):
            try:
                found[index] = run_one(session, feeds, names)
            except EngineError as failure:
                if isinstance(feeds, AdversarialFeeds):
                    special.append((feeds, failure))
                    continue
                if isinstance(failure, UnsupportedModelError):
                    raise
                if self.given:
                    raise InputsRefusedError(
                        f"{bench.engine.name} cannot run the original model on the "
                        f"reference inputs: {failure.message}",
                        help="correct the inputs under 'reference', or the model",
                    ) from failure
                notes.append(
                    f"generated sample {index} does not run on {bench.engine.name}: "
                    f"{failure.message}"
                )
        if all(name_of(self.samples[index]) is not None for index in found):
            return []
        self.notes += notes
        self._note_left_out(bench, special)
        self.keep(list(found))
        return list(found.values())

    def _substitute(self, bench: Bench, session: Session, error: EngineError) -> None:
        """Replace generated samples if the original runs on none of them."""
        others = self.substitutes
        # What another engine gave is for the samples that it ran on.
        if others is None or any(other.ran for other in self.benches):
            found, tried = None, ""
        else:
            found, tried = others.search(session), f"; {others.failure}"
        if found is None:
            raise InputsRefusedError(
                f"{bench.engine.name} cannot run the original model on generated inputs: "
                f"{error.message}",
                help="give inputs that it can take (--inputs FILE, or 'reference.inputs'), or "
                f"sizes under 'reference.dims'{tried}",
            ) from error
        self.samples = found.samples
        self.notes.append(found.note)
        bench.take(found.outputs)

    def _note_left_out(
        self, bench: Bench, special: Sequence[tuple[AdversarialFeeds, EngineError]]
    ) -> None:
        """Say which of the special samples that were asked for the original does not take.

        Args:
            bench: The engine.
            special: Special samples that the original fails on, with the error of each.
        """
        if asked := [pair for pair in special if pair[0].asked]:
            self.notes.append(left_out(bench, asked))

    def keep(self, kept: Sequence[int]) -> None:
        """Keep only some of the samples, and what is known of them."""
        self.samples = [self.samples[i] for i in kept]
        for bench in self.benches:
            if bench.ran:
                bench.original = [bench.original[i] for i in kept]

    def add(self, values: Feeds) -> bool:
        """Add a sample with other values of inputs, if the original runs on it everywhere.

        Returns:
            Whether it was added: no more than a few are, and none twice.
        """
        drawn = [
            s for s in self.samples if isinstance(s, AdversarialFeeds) and s.kind == DRAWN
        ]
        if len(drawn) >= MOST_DRAWN or any(
            all(identical(s[name], value) for name, value in values.items()) for s in drawn
        ):
            return False
        sample = AdversarialFeeds(
            {**self.samples[0], **values}, DRAWN, f"in {', '.join(values)}", asked=False
        )
        if not sample.may_run:
            return False
        self.settle()
        found: list[tuple[Bench, Outputs]] = []
        for bench in self.benches:
            if bench.ran:
                try:
                    (outputs,) = bench.run_anew(self.model, [sample])
                except EngineError:
                    return False
                found.append((bench, outputs))
        self.samples = [*self.samples, sample]
        for bench, outputs in found:
            bench.original = [*bench.original, outputs]
        return True

    def _differing(self, bench: Bench, known: Sequence[Outputs]) -> frozenset[str]:
        """Return the outputs in which another run of the original differs."""
        again = bench.run_anew(self.model, self.samples) if self.samples else []
        return frozenset(
            check.output.partition("[")[0]
            for first, second in zip(known, again, strict=True)
            for check in Promise(Equality()).broken(first, second)
        )


def _with_bodies(node: ir.Node) -> list[ir.Node]:
    return [node, *(n for graph in subgraphs_of(node) for n in graph.all_nodes())]


def _dependents(model: ir.Model, suspects: Sequence[ir.Node]) -> frozenset[str]:
    """Return the outputs that depend on some nodes."""
    random: set[ir.Value] = set()
    for node in model.graph:
        read = (*node.inputs, *captured_values(node))
        if node in suspects or any(value in random for value in read):
            random.update(node.outputs)
    return frozenset(str(v.name) for v in model.graph.outputs if v in random)
