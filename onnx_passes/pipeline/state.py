"""What the gate knows of the model that was accepted last: a value, and never changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from onnx_passes.pipeline.policy import Budget
from onnx_passes.verify.evidence import Check, Checks, Evidence, Verdict
from onnx_passes.verify.snapshot import Snapshot

if TYPE_CHECKING:
    from onnx_passes.configs.resolve import PassStep
    from onnx_passes.passes.context import Application
    from onnx_passes.pipeline.baseline import Baseline, EngineBaseline
    from onnx_passes.pipeline.change_parts import Batch
    from onnx_passes.pipeline.output_checks import OutputComparison
    from onnx_passes.runtime.engine_base import Feeds, Outputs
    from onnx_passes.verify.recording import Recorded


@dataclass(frozen=True)
class EngineState:
    """The data on the accepted model on one engine.

    ``samples`` are those that the rest is about, by identity. ``accepted`` are outputs by
    sample; None if the model was not run as a whole. ``untouched`` says that these are the
    original's, bit for bit.
    """

    samples: Sequence[Feeds] | None = None
    accepted: list[Outputs] | None = None
    recorded: Recorded | None = None
    budget: Budget = field(default_factory=Budget)
    untouched: bool = False


@dataclass(frozen=True)
class State:
    """What the next pass is held against.

    ``known`` is in the order of ``baseline.benches``. ``moved`` says that the model computes
    something other than the original. Drift is measured from ``origin``, the last model that a
    metric kept; None for the original. ``changes`` are for engines that compile and ask later.
    ``vouched`` says that all changes were proved, or executed by themselves.
    """

    comparing: OutputComparison
    known: tuple[EngineState, ...]
    moved: bool = False
    origin: Snapshot | None = None
    at_origin: bool = False
    changes: tuple[Batch, ...] = ()
    vouched: bool = True

    @property
    def baseline(self) -> Baseline:
        return self.comparing.baseline

    @property
    def original(self) -> Snapshot:
        """The original, called as the model is called now."""
        return self.comparing.original

    @property
    def labels(self) -> Sequence[Outputs] | None:
        """Expected outputs or labels of each sample, where the user gave them."""
        return self.comparing.labels

    def of(self, index: int) -> EngineState:
        """Return what is known on one engine for the samples there are."""
        known, samples = self.known[index], self.baseline.samples
        if known.samples is not samples:
            fewer = {*map(id, samples)} <= {*map(id, known.samples or ())}
            untouched = known.untouched and fewer
            known = EngineState(samples, budget=known.budget, untouched=untouched)
        bench = self.baseline.benches[index]
        if not self.moved:  # engines that do not check each pass do not see what it moves
            known = replace(known, untouched=bench.when == "each")
        if known.accepted is None and bench.ran and (known.untouched or not self.moved):
            known = replace(known, accepted=bench.original)
        return known

    def pairs(self) -> list[tuple[EngineBaseline, EngineState]]:
        return [(bench, self.of(i)) for i, bench in enumerate(self.baseline.benches)]

    def knowing(self, index: int, known: EngineState) -> State:
        rest = list(self.known)
        rest[index] = known
        return replace(self, known=tuple(rest))

    def without_recordings(self) -> State:
        """Return the same with no inner values, where inputs or values have other names."""
        return replace(
            self,
            known=tuple(replace(k, recorded=None, untouched=False) for k in self.known),
        )

    def distrusted(self, checks: Sequence[Check]) -> State:
        """Return the state with which a run continues after a model that failed.

        What it spent of error budgets stays spent; a failure of another kind is not charged to
        the passes that follow.
        """
        charged = {check.engine: check.budget for check in checks if check.budget}
        known = tuple(
            EngineState(
                budget=k.budget.charged(
                    charged.get(b.engine.name, ()), moved=b.engine.name not in charged
                )
            )
            for b, k in self.pairs()
        )
        return replace(self, known=known, moved=True, vouched=False)


@dataclass(frozen=True)
class Checked:
    """The gate's answer on a pass.

    ``state`` is what the next pass is held against if this one is kept, whatever its verdict;
    None if it was not the gate that checked.
    """

    checks: list[Check] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    state: State | None = None

    @property
    def verdict(self) -> Verdict:
        """The verdict of the checks, and of the evidence where these passed."""
        found = Checks(tuple(self.checks)).verdict
        weak = any(not evidence.kind.verifies for evidence in self.evidence)
        return Verdict.NOT_VERIFIED if weak and found is Verdict.PASSED else found


@dataclass(frozen=True)
class Kept:
    """A pass that changed the model, and was kept.

    ``index`` is its place in the report, and ``first`` the position in the record of rewrites
    at which it began. ``skip`` are keys of rewrites that it was not to make.
    """

    step: PassStep
    index: int
    first: int
    applied: tuple[Application, ...]
    skip: frozenset[str]
