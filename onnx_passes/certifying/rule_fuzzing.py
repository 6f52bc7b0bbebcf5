"""The property test of a rule: many models, the rule as it stands, both sides on an engine.

A fault is reduced to fewer elements and plainer numbers.
"""

from __future__ import annotations

import itertools
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir
from onnxscript.rewriter import RewriteRule

from onnx_passes.certifying.coverage import (
    LIMITED,
    Covered,
    counts,
    describe,
    effective_value,
    free_attributes,
    operand_names,
)
from onnx_passes.certifying.operand_choice import MatchTraces
from onnx_passes.certifying.proof import Counterexample, Fault
from onnx_passes.certifying.replay import (
    ENGINE_FAULTS,
    NAN_ORDERS,
    Feeds,
    Replayer,
    errors_of,
    exceeds,
    samples,
    with_ones,
)
from onnx_passes.certifying.rewrite_rule import (
    apply_rule,
    fires,
    measured,
    numbers_beside,
    pattern_of,
    words,
)
from onnx_passes.certifying.rule_paths import RulePaths
from onnx_passes.certifying.template_models import (
    Candidate,
    attribute_variants,
    candidates,
    formed_candidates,
)
from onnx_passes.certifying.variants import AMPLIFIED, cut_array, resized
from onnx_passes.contracts import Contract, Equality, Tolerance
from onnx_passes.errors import PassError
from onnx_passes.model.walk import all_tensors
from onnx_passes.passes.context import Rewrites
from onnx_passes.passes.rewriting import rewrite
from onnx_passes.plain import PlainDict
from onnx_passes.verify.rounding import low_tolerances
from onnx_passes.verify.snapshot import compare_interfaces, interface_of
from onnx_passes.verify.well_formed import check_structure


@dataclass
class RuleTrial:
    """What one model showed.

    `fault` breaks every contract, `inexact` only equality, and `loose` the declared tolerance.
    Only a `sound` model could be judged. With `not_run`, the engine does not run the original,
    crashes on it, or lacks a kernel for the result. `errors` are by element type, on ordinary
    inputs.
    """

    operators: set[tuple[str, str]] = field(default_factory=set)
    fired: int = 0
    runs: int = 0
    fault: Fault | None = None
    inexact: Fault | None = None
    sound: bool = True
    not_run: bool = False
    errors: dict[str, float] = field(default_factory=dict)
    loose: Fault | None = None
    excused: Counter[str] = field(default_factory=Counter)


@dataclass
class Examiner:
    """Applies one rule to models, against what its pass declares; `paths` follow its code."""

    rule: RewriteRule
    allowed: frozenset[str] = field(default=frozenset())
    declared: Tolerance | None = None
    paths: RulePaths | None = None

    def examine(self, model: ir.Model, kind: str, feeds: Sequence[Feeds]) -> RuleTrial:
        """Apply the rule until it no longer fires; check structure, interface and values."""
        trial = RuleTrial()
        if self.paths is not None:
            self.paths.keep(judged=False)
        if check_structure(model, full=True):
            trial.sound = False
            return trial
        try:
            after = self._applied(model, trial)
        except PassError as error:
            return self._failed(trial, Fault(error.message, kind, model, breaks="rule"), feeds)
        except Exception as error:
            reason = f"the rule raised {type(error).__name__}: {error}"
            return self._failed(trial, Fault(reason, kind, model, breaks="rule"), feeds)
        if after is None:
            return trial
        for graph in (model, after):
            trial.operators |= {(n.domain, n.op_type) for n in graph.graph.all_nodes()}
        faults = check_structure(after) or compare_interfaces(
            interface_of(model), interface_of(after), self.allowed
        )
        replayer = Replayer(model, after)
        old, new = replayer.failures(feeds[0])
        if old is not None or (new is not None and new.missing and not faults):
            trial.sound, trial.not_run = False, True
            return trial
        # An engine may have operators in the main domain that onnx does not know.
        unknown = bool(faults) and "No Op registered" in faults[0]
        if faults and not (unknown and new is None):
            reason = f"{faults[0]} (opset {model.opset_imports.get('')})"
            trial.fault = self._sorted(Fault(reason, kind, model, after, breaks="model"))
            return trial
        for sample in feeds:
            trial.runs += 1
            found = replayer.compare(sample, real=False)
            trial.excused = replayer.excused
            if found is None or (kind == AMPLIFIED and not beyond_rounding(found)):
                continue
            faults_of_engine = replayer.excused[ENGINE_FAULTS]
            clear = replayer.compare(sample, real=True)
            if replayer.excused[ENGINE_FAULTS] > faults_of_engine:
                continue
            if clear is not None and not _repeats(model, clear.feeds):
                trial.sound = False
                return trial
            if clear is not None:
                breaks = "values" if clear.actual else "engine"
                fault = Fault(clear.reason, kind, model, after, clear, breaks)
                trial.fault = self._sorted(fault)
                return trial
            if kind != AMPLIFIED and not _is_extreme(model):
                self._measure(trial, model, after, found, replayer)
            trial.inexact = trial.inexact or Fault(
                found.reason, kind, model, after, found, breaks="bits"
            )
        return trial

    def _measure(
        self,
        trial: RuleTrial,
        model: ir.Model,
        after: ir.Model,
        found: Counterexample,
        replayer: Replayer,
    ) -> None:
        errors = errors_of(found)
        for kind, error in errors.items():
            trial.errors[kind] = max(trial.errors.get(kind, 0.0), error)
        if self.declared is not None and trial.loose is None:
            reason = exceeds(found, self.declared, low_tolerances(model)) if errors else None
            if reason is not None and not replayer.is_rounding(
                found.feeds, found.expected, found.actual
            ):
                trial.loose = Fault(reason, "plain", model, after, found, breaks="tolerance")

    def _failed(self, trial: RuleTrial, fault: Fault, feeds: Sequence[Feeds]) -> RuleTrial:
        """Note that the rule failed, if the model that it failed on is one that runs."""
        trial.fired = 1
        trial.sound = Replayer(fault.before, fault.before).runs(feeds[0]) is None
        trial.not_run = not trial.sound
        trial.fault = self._sorted(fault) if trial.sound else None
        return trial

    def _sorted(self, fault: Fault) -> Fault:
        words = _NAMES.sub("", fault.reason.partition(": element")[0].partition("Name:")[0])
        if fault.breaks in ("rule", "engine", "model"):
            return replace(fault, sort=f"{fault.breaks}; {words}")
        # The attributes distinguish one wrong value from another; the surroundings do not.
        matched = {node.op_type for node in pattern_of(self.rule)}
        graphs = fault.before.graph.all_nodes()
        nodes = {f"{n.op_type}{sorted(n.attributes)}" for n in graphs if n.op_type in matched}
        return replace(fault, sort=f"{words} {' '.join(sorted(nodes))}")

    def _applied(self, model: ir.Model, trial: RuleTrial) -> ir.Model | None:
        rule = self.rule if self.paths is None else self.paths.rule
        if rule.as_function:
            after = apply_rule(rule, model)
            trial.fired = int(after is not None)
            return after
        copy = model.clone()
        trial.fired = len(rewrite(copy, [measured(rule)], Rewrites()))
        return copy if trial.fired else None


def _is_extreme(model: ir.Model) -> bool:
    """Whether a constant is so large that what is added to it loses its digits."""
    held = (tensor for tensor in all_tensors(model) if tensor.dtype in LIMITED)
    sizes = ((t, np.abs(t.numpy().astype(np.float64)).max(initial=0.0)) for t in held)
    return any(size > float(tensor.dtype.max) / 4 for tensor, size in sizes)


_NAMES = re.compile(r"output \S+: |[\d.+-]+|'[^']*'")
_ROUNDING = 64.0
"""Units in the last place of the largest element that rounding may cost."""


def beyond_rounding(found: Counterexample) -> bool:
    """Whether the values in front of the amplifiers already differ by more than rounding.

    An amplifier turns any rounding near its pole, and the sign of a zero, into a large
    difference. The one says nothing; of the other the gate knows that it gives no induction.
    """
    for name, expected in found.expected.items():
        actual = found.actual.get(name)
        if actual is None or actual.shape != expected.shape or actual.dtype != expected.dtype:
            return True
        if name.endswith(("_reciprocal", "_sqrt", "_log")) or expected.dtype.kind != "f":
            continue
        step = 2.0**-52 if expected.dtype == np.float64 else 2.0**-23
        wide, other = expected.astype(np.float64), actual.astype(np.float64)
        finite = np.isfinite(wide) & np.isfinite(other)
        largest = float(np.max(np.abs(wide[finite]), initial=0.0))
        far = np.abs(wide[finite] - other[finite]) > _ROUNDING * step * largest
        if np.any(far) or np.any(np.isfinite(wide) & ~finite):
            return True
    return False


def _repeats(model: ir.Model, feeds: Feeds) -> bool:
    """Whether the engine gives the same twice: a kernel that reads stray memory does not."""
    return Replayer(model, model).compare(feeds, real=False) is None


_TRIALS, _CRASHING = 200, 20
_PLAIN = (0, 1, 2, -1)


def shrink_fault(examiner: Examiner, fault: Fault, feeds: Sequence[Feeds]) -> Fault:
    """Return the same sort of fault on smaller tensors and plainer numbers."""
    if fault.found is not None:
        feeds = [fault.found.feeds]
    # Each crash of the engine costs a new process.
    budget = [_CRASHING if fault.breaks == "engine" else _TRIALS]
    fault, feeds = _smaller(examiner, fault, list(feeds), budget)
    return fault if fault.found is None else _plainer(examiner, fault, budget)


def _smaller(
    examiner: Examiner, fault: Fault, feeds: list[Feeds], budget: list[int]
) -> tuple[Fault, list[Feeds]]:
    tried: set[tuple[int, int, bool]] = set()
    while budget[0] > 0:
        sizes = sorted({d for a in feeds[0].values() for d in a.shape if d > 1}, reverse=True)
        steps = [
            (d, n, last)
            for d in sizes
            for n in (1, 2)
            for last in (False, True)
            if n < d and (d, n, last) not in tried
        ]
        if not steps:
            break
        old, new, last = steps[0]
        tried.add((old, new, last))
        cut: list[Feeds] = [
            {k: cut_array(a, old, new, last=last) for k, a in f.items()} for f in feeds
        ]
        try:
            model = resized(fault.before, old, new, last=last)
        except Exception:
            continue  # shape inference refuses sizes that do not fit one another
        found = _again(examiner, fault, model, cut, budget)
        if found is not None:
            fault, feeds = found, cut
            tried.clear()
    return fault, feeds


def _plainer(examiner: Examiner, fault: Fault, budget: list[int]) -> Fault:
    assert fault.found is not None
    feeds = {k: np.array(a) for k, a in fault.found.feeds.items()}
    for name in feeds:
        for index in np.ndindex(feeds[name].shape):
            for number in _PLAIN:
                if feeds[name][index] == number:
                    break
                if number < 0 and feeds[name].dtype.kind in "ub":
                    continue
                changed = {k: a.copy() for k, a in feeds.items()}
                changed[name][index] = number
                found = _again(examiner, fault, fault.before, [changed], budget)
                if found is not None:
                    fault, feeds = found, changed
                    break
    return fault


def _again(
    examiner: Examiner, fault: Fault, model: ir.Model, feeds: list[Feeds], budget: list[int]
) -> Fault | None:
    if budget[0] <= 0:
        return None
    budget[0] -= 1
    trial = examiner.examine(model, fault.kind, feeds)
    kinds = {"bits": trial.inexact, "tolerance": trial.loose}
    found = kinds.get(fault.breaks, trial.fault)
    return found if found is not None and found.breaks == fault.breaks else None


MODELS, ATTEMPTS, SAMPLES = 200, 8000, 6


@dataclass
class Tested:
    """What the property test of one rule found.

    `models` counts those on which the rule fired and that the engine ran; `planned` ones, with
    enumerated ranks, types or opset, come on top. `faults` break every contract, no two of a
    sort. `inexact` and `loose` are as in :class:`RuleTrial`. All are shrunk.

    `arguable` is a fault on constants that match a number of the pattern or guard only within
    tolerance. The author may have meant it, so it counts only if there is no other.

    Unless `out_of_time`, the same seed repeats the run. `finite` means that no input was NaN
    or infinite. `unrepeated` counts differences that their own script did not show; they are
    not faults. Nor are those that are the engine's own, which `excused` counts by cause.
    `values` are those of attributes that the pattern leaves open. Those of `alone` had one
    value on all models, and no other one was met or refused.
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
    errors: dict[str, float] = field(default_factory=dict)
    loose: Fault | None = None
    arguable: Fault | None = None
    out_of_time: bool = False
    seed: int = 0
    finite: bool = False
    unrepeated: int = 0
    not_run: int = 0
    excused: Counter[str] = field(default_factory=Counter)
    planned: int = 0
    covered: Covered = field(default_factory=Covered)
    operators: set[tuple[str, str]] = field(default_factory=set)
    values: dict[str, set[str]] = field(default_factory=dict)
    alone: list[str] = field(default_factory=list)

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

    def late(self) -> str:
        """Return why the clock ended it too early."""
        return f"out of time: {self.models} models; give it more with --time"

    def idle(self) -> str:
        """Return why no model says anything of the rule."""
        if self.not_run:
            return f"the engine ran none of the {self.not_run} models that its guard admitted"
        return f"its pattern or guard admitted none of {self.attempts} models"

    def as_dict(self) -> PlainDict:
        """Return the counts as JSON has them."""
        return {
            "models": self.models,
            "firings": self.firings,
            "runs": self.runs,
            "covers": self.covered.as_dict(),
            "operators": [f"{d}:{o}" if d else o for d, o in sorted(self.operators)],
            "unrepeated": self.unrepeated,
            "attempts": self.attempts,
            "not_run": self.not_run,
            **{cause: self.excused[cause] for cause in (NAN_ORDERS, ENGINE_FAULTS)},
            "dtypes": dict(sorted(self.dtypes.items())),
            "surroundings": dict(sorted(self.kinds.items())),
            "opsets": {str(k): n for k, n in sorted(self.opsets.items())},
            "errors": {kind: {"rtol": error} for kind, error in sorted(self.errors.items())},
            "alone": self.alone,
            "out_of_time": self.out_of_time,
        }


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
    paths: RulePaths | None = None,
) -> Tested:
    """Test a rule on models built from its pattern.

    Ends at ``models`` models, which repeats for a seed, or after ``seconds``, which does not.
    A rule may crash the engine: run it in a child process (``fuzz_child``) where that matters.

    Shrinking comes on top of `seconds`, and models of enumerated ranks, types and opsets on
    top of `models`. It ends after `faults` faults of different sorts. `finite` keeps NaN and
    infinities from the inputs. `confirm` says whether a shrunk fault shows again. `paths` note
    what of the rule's code ran.
    """
    end = time.monotonic() + seconds
    tested = Tested(seed=seed, finite=finite)
    examiner = Examiner(rule, allowed, declared, paths)
    hits = MatchTraces(np.random.default_rng(seed))
    bases: list[Candidate] = []

    def wanted(_: object = None) -> bool:
        return tested.models - tested.planned < models

    drawn = candidates(rule, attempts=ATTEMPTS, seed=seed, hits=hits, finite=finite)
    formed = formed_candidates(rule, seed=seed, hits=hits, finite=finite)
    for group in itertools.chain(itertools.takewhile(wanted, drawn), formed):
        tested.attempts += 1
        fired = _firing(examiner, group)
        if fired:
            first = fired[0]
            hits.add(hits.kind(first.dtype, first.model), first.trace, first.edge)
        for candidate in [*fired, None]:
            if time.monotonic() > end:
                tested.out_of_time = True
                return tested
            if candidate is None:
                break
            _judge(examiner, candidate, tested, confirm)
            if len(tested.faults) >= faults:
                return tested
            if not (candidate.planned or wanted()):
                break
        bases += fired[:1]
    if bases:
        for vary in (_vary, _vary_numbers):
            if not (tested.faults or tested.out_of_time):
                vary(examiner, bases, tested, confirm, end)
    return tested


_REFUSED = 12
"""Models with another value of an attribute after which a guard asks for the first one."""


def _variants(
    examiner: Examiner,
    key: str,
    bases: Sequence[Candidate],
    tested: Tested,
    confirm: Callable[[Fault], bool],
    end: float,
    among: Sequence[int] = (),
) -> Iterator[tuple[Candidate, Candidate, bool]]:
    """Judge models with another value of an attribute, until one shows a fault or time ends.

    Yields the model that each was made from, the model, and whether the rule fires on it.
    """
    for base, group in attribute_variants(examiner.rule, key, bases, tested.seed, among):
        if time.monotonic() > end:
            tested.out_of_time = True
            return
        fired = _firing(examiner, group)
        if fired:
            _judge(examiner, fired[0], tested, confirm)
        if tested.faults:
            return
        yield base, group[0], bool(fired)


def _vary(
    examiner: Examiner,
    bases: Sequence[Candidate],
    tested: Tested,
    confirm: Callable[[Fault], bool],
    end: float,
) -> None:
    """Give attributes that had one value on all models another one, where the rule fires.

    What a rule passes on or forgets is seen only where it makes a difference to the original.
    """
    for key in sorted(key for key, values in tested.values.items() if len(values) == 1):
        refused = met = 0
        for base, made, fired in _variants(examiner, key, bases, tested, confirm, end):
            if not fired:
                refused += not check_structure(made.model, full=True)
            else:
                pair = Replayer(base.base, made.model)
                found = pair.compare(feeds_of(base, tested.seed)[0], real=False)
                met += found is not None and bool(found.actual)
            if met > 1 or refused > _REFUSED:
                break
        if tested.faults or tested.out_of_time:
            return
        asked = key.partition(".")[2] in words(examiner.rule)
        if not (refused or asked) and len(tested.values[key]) == 1:
            tested.alone.append(key)


def _vary_numbers(
    examiner: Examiner,
    bases: Sequence[Candidate],
    tested: Tested,
    confirm: Callable[[Fault], bool],
    end: float,
) -> None:
    """Give integer attributes that the rule's code names the numbers beside its own."""
    named, beside = numbers_beside(examiner.rule)
    for key in sorted(tested.values):
        op_type, _, name = key.partition(".")
        if name not in named or not counts(op_type, name):
            continue
        known = 0
        for *_, fired in _variants(examiner, key, bases, tested, confirm, end, beside):
            known += fired
            if known > _REFUSED:
                break
        if tested.faults or tested.out_of_time:
            return


def _firing(examiner: Examiner, group: list[Candidate]) -> list[Candidate]:
    found = [c for c in group[:2] if fires(examiner.rule, c.model)]
    if len(group) == 2 or not found:
        return found[:1]
    return found + [c for c in group[2:] if fires(examiner.rule, c.model)]


def _judge(
    examiner: Examiner,
    candidate: Candidate,
    tested: Tested,
    confirm: Callable[[Fault], bool],
) -> None:
    feeds = feeds_of(candidate, tested.seed + tested.attempts)
    if tested.finite:
        odd = lambda a: ~np.isfinite(a)  # noqa: E731
        feeds = [{name: with_ones(a, odd) for name, a in feed.items()} for feed in feeds]
    trial = examiner.examine(candidate.model, candidate.kind, feeds)
    tested.not_run += trial.not_run
    if not trial.sound or not trial.fired:
        return
    if examiner.paths is not None:
        examiner.paths.keep()
    tested.models += 1
    tested.planned += candidate.planned
    tested.operators |= trial.operators
    tested.covered.add(describe(candidate.base, operand_names(examiner.rule)))
    free = free_attributes(examiner.rule, candidate.base.graph.opset_imports[""])
    for node in candidate.base.graph:
        for name in free.get(node.op_type, ()):
            values = tested.values.setdefault(f"{node.op_type}.{name}", set())
            values.add(effective_value(node, name))
    tested.firings += trial.fired
    tested.runs += trial.runs
    tested.excused += trial.excused
    tested.dtypes[candidate.dtype.name.lower()] += 1
    tested.kinds[candidate.kind] += 1
    tested.opsets[candidate.model.graph.opset_imports[""]] += 1
    for kind, error in trial.errors.items():
        tested.errors[kind] = max(tested.errors.get(kind, 0.0), error)
    near = candidate.near and trial.fault is not None and trial.fault.breaks == "values"
    if near and tested.arguable is not None:
        return
    if trial.fault is not None and (
        near or trial.fault.sort not in {f.sort for f in tested.faults}
    ):
        sort = trial.fault.sort
        fault = replace(shrink_fault(examiner, trial.fault, feeds), sort=sort)
        if not confirm(fault):
            tested.unrepeated += 1
        elif near:
            tested.arguable = fault
        else:
            tested.faults.append(fault)
    elif trial.fault is None:
        if trial.loose is not None and tested.loose is None:
            loose = shrink_fault(examiner, trial.loose, feeds)
            tested.loose = loose if confirm(loose) else None
            tested.unrepeated += tested.loose is None
        if trial.inexact is not None and tested.inexact is None:
            tested.inexact = shrink_fault(examiner, trial.inexact, feeds)


def feeds_of(candidate: Candidate, seed: int) -> list[Feeds]:
    """Return inputs: exact ones first, then some with special values among them.

    Zeros come before them for constants that are near to those of the pattern.
    """
    half = SAMPLES // 2
    plain = [*samples(candidate.ports, half, special=False, seed=seed)]
    # A size without a number may be 1 as well.
    sizes = {size for array in plain[0].values() for size in array.shape if size > 1}
    short = [
        {name: cut_array(array, size, 1, last=False) for name, array in plain[0].items()}
        for size in sorted(sizes)
        if "dynamic" in candidate.kind
    ]
    zeros = [
        {name: np.zeros_like(array) for name, array in feed.items()}
        for feed in samples(candidate.ports, candidate.near, special=False, seed=seed)
    ]
    return [
        *zeros,
        *plain,
        *short,
        *samples(candidate.ports, SAMPLES - half, special=True, seed=seed + 1),
    ]
