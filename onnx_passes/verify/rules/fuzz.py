"""The property test of a rule: many models, the rule as it stands, both sides on an engine."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir
from onnxscript.rewriter import RewriteRule

from onnx_passes.arrays import Array
from onnx_passes.contracts import Contract, Equality, Tolerance
from onnx_passes.verify.rules.covered import Covered
from onnx_passes.verify.rules.draws import Hits
from onnx_passes.verify.rules.fault import Fault
from onnx_passes.verify.rules.fuzz_check import Examiner
from onnx_passes.verify.rules.fuzz_error import Error
from onnx_passes.verify.rules.fuzz_shrink import shrunk
from onnx_passes.verify.rules.property_models import Candidate, candidates
from onnx_passes.verify.rules.replay import samples
from onnx_passes.verify.rules.running import Feeds

MODELS, ATTEMPTS, SAMPLES = 200, 8000, 6


@dataclass
class Tested:
    """What the property test of one rule found.

    Attributes:
        models: Models on which the rule fired and that the engine ran.
        firings: Applications of the rule; one model may see several.
        runs: Inputs that both sides were run on.
        attempts: Models tried.
        dtypes: Models by element type.
        kinds: Models by surrounding.
        opsets: Models by opset of the main domain.
        faults: What breaks every contract, shrunk, no two of a sort.
        inexact: The first difference in bits that a tolerance allows, shrunk.
        errors: Largest differences by element type of the outputs, on ordinary inputs.
        loose: The first difference that the declared tolerance does not allow, shrunk.
        arguable: The first fault on constants that are only within the tolerance with which
            pattern or guard identifies them with the number that they spell out, shrunk. The
            rule's author may have meant it: it is a fault only where there is no other.
        out_of_time: Whether the time ended before the models did; only then does a second
            run with the same seed not repeat the first.
        seed: Of all choices.
        finite: Whether no input was NaN or infinite.
        planned: Models whose ranks, type or opset were enumerated; they come on top.
        covered: What the models cover.
        operators: Those of the models, before and after.
        unrepeated: Differences that their own script did not show; they are not faults.
        not_run: Models that were skipped because the engine does not run the original, or
            lacks a kernel for the result.
    """

    models: int = 0
    firings: int = 0
    runs: int = 0
    attempts: int = 0
    dtypes: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    opsets: Counter[int] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)
    inexact: Fault | None = None
    errors: dict[str, Error] = field(default_factory=dict)
    loose: Fault | None = None
    arguable: Fault | None = None
    out_of_time: bool = False
    seed: int = 0
    finite: bool = False
    unrepeated: int = 0
    not_run: int = 0
    planned: int = 0
    covered: Covered = field(default_factory=Covered)
    operators: set[tuple[str, str]] = field(default_factory=set)

    @property
    def fault(self) -> Fault | None:
        """Return the first fault, an arguable one for want of others, or None."""
        return self.faults[0] if self.faults else self.arguable

    @property
    def verdict(self) -> str:
        """Return "tested", "refuted" or "never fired"."""
        if self.fault is not None:
            return "refuted"
        return "tested" if self.models else "never fired"

    @property
    def contract(self) -> Contract | None:
        """The strongest contract that no model contradicts; None where there is none."""
        if self.verdict != "tested":
            return None
        return Equality() if self.inexact is None else Tolerance()


def fuzz_rule(
    rule: RewriteRule,
    *,
    seconds: float = 10.0,
    seed: int = 0,
    models: int = MODELS,
    allowed: frozenset[str] = frozenset(),
    faults: int = 1,
    declared: Tolerance | None = None,
    finite: bool = False,
    confirm: Callable[[Fault], bool] = lambda fault: True,
) -> Tested:
    """Test a rule on models built from its pattern.

    Ends at ``models`` models, which repeats for a seed, or after ``seconds``, which does not.
    A rule may crash the engine: run it in a child process (``fuzz_child``) where that matters.

    Args:
        rule: The rule; its own check and rewrite run, by the project's driver.
        seconds: Wall time at most; the shrinking of what is found comes on top.
        seed: Of all choices.
        models: Models on which it fired, at most; those that enumerate ranks, types and opsets
            come on top.
        allowed: Parts of the interface that the rule may change.
        faults: Ends after so many faults of different sorts.
        declared: The tolerance that the errors found are held against.
        finite: Whether NaN and infinities are kept from the inputs.
        confirm: Says of a fault, once it is shrunk, whether it shows again.
    """
    end = time.monotonic() + seconds
    tested = Tested(seed=seed, finite=finite)
    examiner = Examiner(rule, allowed, declared)
    hits = Hits(np.random.default_rng(seed))
    for group in candidates(rule, attempts=ATTEMPTS, seed=seed, hits=hits):
        tested.attempts += 1
        fired = _firing(examiner, group)
        if fired:
            hits.add(hits.kind(fired[0].dtype, fired[0].model), fired[0].trace)
        for candidate in fired:
            if time.monotonic() > end:
                tested.out_of_time = True
                return tested
            _judge(examiner, candidate, tested, confirm)
            if len(tested.faults) >= faults or tested.models - tested.planned >= models:
                return tested
        if time.monotonic() > end:
            tested.out_of_time = True
            return tested
    return tested


def _firing(examiner: Examiner, group: list[Candidate]) -> list[Candidate]:
    first = next((c for c in group[:2] if examiner.fires(c.model)), None)
    if first is None:
        return []
    if len(group) == 2:
        return [first]
    return [c for c in group if examiner.fires(c.model)]


def _judge(
    examiner: Examiner,
    candidate: Candidate,
    tested: Tested,
    confirm: Callable[[Fault], bool],
) -> None:
    feeds = feeds_of(candidate, tested.seed + tested.attempts)
    if tested.finite:
        feeds = [{name: _finite(array) for name, array in feed.items()} for feed in feeds]
    trial = examiner.examine(candidate.model, candidate.kind, feeds)
    tested.not_run += trial.not_run
    if not trial.sound or not trial.fired:
        return
    tested.models += 1
    tested.planned += candidate.planned
    tested.operators |= trial.operators
    if candidate.template is not None:
        tested.covered.add(candidate.template)
    tested.firings += trial.fired
    tested.runs += trial.runs
    tested.dtypes[candidate.dtype] += 1
    tested.kinds[candidate.kind] += 1
    tested.opsets[candidate.model.graph.opset_imports[""]] += 1
    for kind, error in trial.errors.items():
        tested.errors[kind] = tested.errors.get(kind, Error()).joined(error)
    near = candidate.near and trial.fault is not None and trial.fault.breaks == "values"
    known = {f.sort for f in tested.faults}
    if near and tested.arguable is not None:
        return
    if trial.fault is not None and (near or trial.fault.sort not in known):
        sort = trial.fault.sort
        fault = replace(shrunk(examiner, trial.fault, feeds), sort=sort)
        if not confirm(fault):
            tested.unrepeated += 1
        elif near:
            tested.arguable = fault
        else:
            tested.faults.append(fault)
    elif trial.fault is None:
        if trial.loose is not None and tested.loose is None:
            loose = shrunk(examiner, trial.loose, feeds)
            tested.loose = loose if confirm(loose) else None
            tested.unrepeated += tested.loose is None
        if trial.inexact is not None and tested.inexact is None:
            tested.inexact = shrunk(examiner, trial.inexact, feeds)


def _finite(array: Array) -> Array:
    if not ir.DataType.from_numpy(array.dtype).is_floating_point():
        return array
    usual = np.isfinite(array.astype(np.float64))
    return np.where(usual, array, np.ones((), array.dtype))


def feeds_of(candidate: Candidate, seed: int) -> list[Feeds]:
    """Return inputs: exact ones first, then some with special values among them.

    Zeros come before them for constants that are near to those of the pattern.

    Args:
        candidate: The model, with its inputs.
        seed: Seed of the numbers.
    """
    half = SAMPLES // 2
    zeros = [
        {name: np.zeros_like(array) for name, array in feed.items()}
        for feed in samples(candidate.ports, candidate.near, special=False, seed=seed)
    ]
    return [
        *zeros,
        *samples(candidate.ports, half, special=False, seed=seed),
        *samples(candidate.ports, SAMPLES - half, special=True, seed=seed + 1),
    ]
