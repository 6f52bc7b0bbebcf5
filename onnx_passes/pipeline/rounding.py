"""Whether rounding explains a difference, or a rewrite computes another function.

A value that differs is computed again in double precision. It is rounding if both sides are
near that result. ``explain`` does the same for engines that fuse nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array, float_limits
from onnx_passes.contracts import Tolerance
from onnx_passes.contracts.scores import kind_of
from onnx_passes.errors import EngineError, OnnxPassesError, TooMuchWorkError
from onnx_passes.model.ort_sessions import LOW
from onnx_passes.model.walk import named_type
from onnx_passes.ops.node_queries import SIGNS, makes_steps
from onnx_passes.report.text import are, bound
from onnx_passes.runtime.engine_base import Data, Feeds, Outputs
from onnx_passes.verify.evidence import Check, OutputCheck, Verdict
from onnx_passes.verify.float64 import RandomRoundings, evaluate, rounding_spread
from onnx_passes.verify.judge import Promise, error_growth
from onnx_passes.verify.node_equality import constant_tensor
from onnx_passes.verify.obligations import Obligation
from onnx_passes.verify.recording import inlined
from onnx_passes.verify.region import Side, part_leading_to
from onnx_passes.verify.rounding import LIKELY, error_bounds, rounding_verdict


class Cause(StrEnum):
    """Why a value differs."""

    ROUNDING = "rounding"
    FUNCTION = "another function"
    LOSS = "lost digits"
    UNKNOWN = "unknown"
    TOO_LARGE = "too large to evaluate in double precision"


@dataclass(frozen=True)
class DerivedFinding:
    """Why a value differs.

    ``apart`` is the largest difference of the sides in double precision. ``undecided`` counts
    the elements that lie so near to a step that rounding decides. ``fused`` says that running
    errors were asked, and not double precision.
    """

    cause: Cause
    apart: float = 0.0
    undecided: int = 0
    fused: bool = False

    @property
    def text(self) -> str:
        match self.cause:
            case Cause.ROUNDING if self.fused:
                return FUSED
            case Cause.FUNCTION if not self.fused:
                return (
                    f"in double precision both sides are {bound(self.apart)} apart, which "
                    "rounding of constants does not explain"
                )
            case Cause.TOO_LARGE:
                return "it takes too many operations in double precision"
            case Cause.LOSS:
                return "it is farther from float64 than rounding of the original's nodes is"
            case Cause.ROUNDING if self.undecided:
                return f"{are(self.undecided, 'element')} within rounding of a step"
            case Cause.ROUNDING:
                return "rounding: in double precision both sides agree"
        return ""


MOST_WORK = 1 << 26
"""Products and results, on all samples, up to which a part is evaluated."""

PATIENT_WORK = 1 << 32
"""The same for a model, before its result is refused. It takes some seconds, and the search
for a culprit takes longer."""

_ROUNDINGS = RandomRoundings(0, low=4.0, wide=16.0, constants=0.5)
"""A sum rounds more often than its result does, and a step must be seen to move."""

_BELOW = RandomRoundings(0, low=0.5)

_TRIALS = 16

_MOVING = frozenset(("Resize",))
"""Operators for which onnx's evaluator is asked: it leaves out inputs of others."""


@dataclass(frozen=True)
class PartInFloat64:
    """The nodes that lead to the value ``name``, as a model, and what they read by sample.

    If it is ``patient``, ``PATIENT_WORK`` limits an evaluation, and not ``MOST_WORK``.
    """

    name: str
    model: ir.Model
    feeds: Sequence[Feeds]
    patient: bool = False

    @staticmethod
    def of(
        name: str,
        side: Side,
        recordings: Sequence[Mapping[str, Data]],
        *,
        patient: bool = False,
    ) -> PartInFloat64 | None:
        """Return the part that leads to a value; None if the recordings do not feed it."""
        part = part_leading_to(name, side, recordings)
        if part is None:
            return None
        read = [str(value.name) for value in part.graph.inputs]
        feeds = [{n: row[n] for n in read} for row in recordings]
        return PartInFloat64(name, part, feeds, patient)

    @property
    def elements(self) -> int:
        """How many numbers it reads, on all samples."""
        constants = (v.const_value for v in self.model.graph.initializers.values())
        each = sum(tensor.size for tensor in constants if tensor is not None)
        read = (np.asarray(data) for feeds in self.feeds for data in feeds.values())
        return len(self.feeds) * each + sum(array.size for array in read)

    @cached_property
    def low(self) -> frozenset[ir.DataType]:
        """The types below float32 that it computes or stores something in."""
        nodes = list(self.model.graph.all_nodes())
        casts = (node.attributes.get("to") for node in nodes if node.op_type == "Cast")
        targets = set(map(named_type, casts))
        values = [v for node in nodes for v in (*node.inputs, *node.outputs) if v is not None]
        types = {v.const_value.dtype if v.const_value is not None else v.dtype for v in values}
        return frozenset(t for t in LOW if t in types or t in targets)

    @property
    def rounds_by_a_sum(self) -> bool:
        """Whether it adds a number so large, and takes it away, that whole ones are left."""
        return any(map(_rounds_by_a_sum, self.model.graph))

    @property
    def makes_steps(self) -> bool:
        """Whether rounding may move a result by a whole step."""
        return any(map(makes_steps, self.model.graph.all_nodes()))

    @cached_property
    def exact(self) -> list[Array]:
        """Return the value in double precision, by sample.

        Raises EngineError if a node has no kernel for doubles, and TooMuchWorkError.
        """
        most = PATIENT_WORK if self.patient else MOST_WORK
        found = evaluate(self.model, self.feeds, most=most)
        if found.single or found.reference.keys() - _MOVING:
            raise EngineError("a node may have been computed otherwise than by an engine")
        return [np.asarray(outputs[self.name], np.float64) for outputs in found.outputs]

    def spread(self, noise: RandomRoundings, trials: int) -> list[Array]:
        """Return how far random roundings move each element, by sample."""
        exact: list[Outputs] = [{self.name: found} for found in self.exact]
        found = rounding_spread(self.model, self.feeds, noise, exact, trials)
        return [row[self.name] for row in found]

    def within_bounds(self, pairs: Sequence[tuple[Data | None, Data | None]]) -> bool:
        """Whether the second of each pair is within what these nodes may be off.

        The first may be nearly exact by luck, so that a growth of its error says nothing.
        """
        for feeds, (_, actual), exact in zip(self.feeds, pairs, self.exact, strict=True):
            bounds = error_bounds(self.model, feeds, self.name, LIKELY)
            new = np.asarray(actual, np.float64)
            if bounds is None or not bounds.shape == new.shape == exact.shape:
                return False
            with np.errstate(invalid="ignore"):
                same = (new == exact) | (np.isnan(new) & np.isnan(exact))
                if not (same | (np.abs(new - exact) <= bounds)).all():
                    return False
        return True

    def rounds_as_far(self, pairs: Sequence[tuple[Data | None, Data | None]]) -> bool:
        """Whether roundings below float32 move all elements as far as both sides are off.

        An engine may round at other nodes than the original says: no digit may be left.
        """
        try:
            spreads = self.spread(_BELOW, _TRIALS)
        except OnnxPassesError:
            return False
        return all(
            (np.abs(np.asarray(side, np.float64) - exact) <= _SPREADS * spread).all()
            for pair, exact, spread in zip(pairs, self.exact, spreads, strict=True)
            for side in pair
        )

    def near_steps(self, pairs: Sequence[tuple[Data | None, Data | None]]) -> DerivedFinding:
        """Return whether all elements are as random roundings may make them."""
        undecided, spreads = 0, self.spread(_ROUNDINGS, _TRIALS)
        for (expected, actual), exact, spread in zip(pairs, self.exact, spreads, strict=True):
            old, new = (np.asarray(side, np.float64) for side in (expected, actual))
            if not old.shape == exact.shape == spread.shape:
                return DerivedFinding(Cause.UNKNOWN)
            with np.errstate(invalid="ignore"):
                within = (np.abs(new - exact) <= spread) | (new == old)
            if not within.all():
                return DerivedFinding(Cause.UNKNOWN)
            undecided += int(np.count_nonzero(new != old))
        return DerivedFinding(Cause.ROUNDING, undecided=undecided)


def _rounds_by_a_sum(node: ir.Node) -> bool:
    terms = [_term_of(node), _term_of(node.inputs[0].producer() if node.inputs[0] else None)]
    return abs(terms[0]) >= 0.5 and sum(terms) == 0


def _term_of(node: ir.Node | None) -> float:
    """Return the constant that a node adds, in numbers whose last place is 1; else 0."""
    if node is None or node.domain or node.op_type not in SIGNS:
        return 0.0
    tensor = None if node.inputs[1] is None else constant_tensor(node.inputs[1])
    if tensor is None or tensor.size != 1 or not tensor.dtype.is_floating_point():
        return 0.0
    return SIGNS[node.op_type] * float(tensor.numpy().item()) * _epsilon(tensor.dtype)


GROWTH = 2.0
"""How many times the error of a value inside a model may grow."""

_LARGEST = 4.0
"""How many times the largest error of an element may grow: a fault may sit in one."""

_FLOOR = 0.5
"""What one rounding may do, in units in the last place of the largest element. Of a few
elements that happen to be exact, another order of roundings is as good."""


def _is_kept(old: Data | None, new: Data | None, exact: Data | None) -> bool:
    """Whether an error has not grown by more than ``GROWTH``."""
    arrays = (old, new, exact)
    if not all(isinstance(array, np.ndarray) for array in arrays):
        return False
    sides: list[Mapping[str, Data]] = [{"v": a} for a in arrays if a is not None]
    (found,) = error_growth(dict(sides[0]), dict(sides[1]), dict(sides[2]), GROWTH, _FLOOR)
    if not found.passed:
        return False
    before, after, right = (np.asarray(a).astype(np.float64) for a in arrays)
    if before.shape != right.shape:
        return False
    usable = np.isfinite(before) & np.isfinite(after) & np.isfinite(right)
    if not usable.any():
        return True
    # The spacing of halves at the largest element; that of float32 is less, and no matter.
    least = float(np.abs(right[usable]).max()) * 2.0**-11
    errors = [float(np.abs(side - right)[usable].max()) for side in (before, after)]
    return errors[1] <= _LARGEST * max(errors[0], least)


MOST = 1 << 24
"""Numbers that a part reads, on all samples, up to which it is evaluated."""

PATIENT_MOST = 1 << 28
"""The same for a model, before its result is refused."""

_FAR = 1e-2
"""How far a value may be from double precision, as a share of its largest element: what is
farther was computed otherwise."""

_MANY, _LUCK = 16, 8.0
"""Elements from which on errors are compared, and how many times they may have grown: a kernel
that adds in 64 lanes rounds an eighth of what one sum does."""


def is_doubtful(check: OutputCheck) -> bool:
    """Whether a value is within its limit by the absolute part of it alone.

    The limit is ``atol + rtol * scale``. An error of a rounding is a share of the largest
    element, so that only the relative part is a sign of it.
    """
    return (
        check.passed
        and check.limit is not None
        and (check.max_abs or 0.0) > check.limit - check.atol
    )


@np.errstate(all="ignore")
def find_cause(
    one: Obligation,
    before: Side,
    after: Side,
    recordings: Sequence[Mapping[str, Data]],
    pairs: Sequence[tuple[Data | None, Data | None]],
    beyond: Sequence[int] | None = None,
    *,
    elsewhere: bool = False,
) -> DerivedFinding:
    """Return why a value differs.

    A part of a model is held to ``MOST`` and ``MOST_WORK``. Before a result is refused more is
    allowed. Where all samples are still too much, those beyond their limit and one other are
    evaluated. The pairs are run in one form, by sample. ``beyond`` are the samples on which
    the value breaks its limit, if the result is refused. An engine may round below float32
    ``elsewhere`` than at each node.
    """
    patient = beyond is not None
    sides = before, after
    found = _find_cause(one, sides, recordings, pairs, patient=patient, elsewhere=elsewhere)
    within = [k for k in range(len(pairs)) if k not in (beyond or ())]
    if found.cause is not Cause.TOO_LARGE or not beyond or len(within) < 2:
        return found
    # At the edges rounding may hide a fault, so that one sample more is evaluated.
    some = sorted((*beyond, within[0]))
    recordings, pairs = [recordings[k] for k in some], [pairs[k] for k in some]
    return _find_cause(one, sides, recordings, pairs, patient=patient, elsewhere=elsewhere)


def _find_cause(
    one: Obligation,
    models: tuple[Side, Side],
    recordings: Sequence[Mapping[str, Data]],
    pairs: Sequence[tuple[Data | None, Data | None]],
    *,
    patient: bool,
    elsewhere: bool,
) -> DerivedFinding:
    unknown = DerivedFinding(Cause.UNKNOWN)
    if not all(_comparable(*pair) for pair in pairs):
        return unknown
    asked = [(one.old, models[0]), (one.new, models[1])][: 1 if one.tensor is not None else 2]
    sides = [PartInFloat64.of(name, side, recordings, patient=patient) for name, side in asked]
    known = [side for side in sides if side is not None]
    if len(known) < len(sides):
        return unknown
    if steps := any(side.makes_steps for side in known):  # many evaluations follow
        known = [replace(side, patient=False) for side in known]
    if sum(side.elements for side in known) > (PATIENT_MOST if patient else MOST):
        return DerivedFinding(Cause.TOO_LARGE)
    if known[-1].low - known[0].low or len({side.rounds_by_a_sum for side in known}) > 1:
        return unknown  # doubles do not see what is rounded to fewer digits on purpose
    try:
        apart = distance_of(known, one.tensor)
        if apart is None:
            return unknown
        if steps:
            return unknown if apart else known[0].near_steps(pairs)
    except TooMuchWorkError:
        return DerivedFinding(Cause.TOO_LARGE)
    except OnnxPassesError:
        return unknown
    exact = known[0].exact
    if elsewhere and not apart and known[0].low and known[0].rounds_as_far(pairs):
        return DerivedFinding(Cause.ROUNDING)
    if any(_is_far(old, right) for (old, _), right in zip(pairs, exact, strict=True)):
        return unknown
    if apart:
        return DerivedFinding(Cause.FUNCTION, apart)
    rounded = [
        _without_overflow(*pair, right) for pair, right in zip(pairs, exact, strict=True)
    ]
    rows = zip(rounded, exact, strict=True)
    kept = all(_is_kept(*pair, right) for pair, right in rows)
    kept = kept or (_is_near(rounded, exact) and known[0].within_bounds(rounded))
    return DerivedFinding(Cause.ROUNDING if kept else Cause.LOSS)


_NEAR = 64.0
"""How far a result may be from double precision where the original overflows, in epsilons."""


def _without_overflow(
    old: Data | None, new: Data | None, exact: Array
) -> tuple[Data | None, Data | None]:
    """Return both sides as in double precision where the original alone overflows.

    An infinity that double precision does not have, and what follows from it, is the
    original's own. The result must be near to what is right there.
    """
    before, after = np.asarray(old), np.asarray(new)
    if kind_of(before.dtype) != "float" or before.shape != exact.shape:
        return old, new
    limits = float_limits(before.dtype)
    own = ~np.isfinite(before) & (np.abs(exact) <= float(limits.max))
    wide = after.astype(np.float64)
    own &= np.abs(wide - exact) <= _NEAR * float(limits.eps) * np.abs(exact) + float(
        limits.tiny
    )
    right = exact.astype(before.dtype)
    return np.where(own, right, before), np.where(own, right, after)


def _is_far(old: Data | None, exact: Array) -> bool:
    """Whether the result of an engine differs from double precision by more than rounding."""
    value = np.asarray(old, np.float64)
    both = np.isfinite(value) & np.isfinite(exact)
    error = np.sqrt(np.mean(np.square((value - exact)[both]))) if both.any() else 0.0
    return bool(error > _FAR * np.abs(exact[both]).max(initial=0.0) + 1e-30)


def _is_near(pairs: Sequence[tuple[Data | None, Data | None]], exact: Sequence[Array]) -> bool:
    """Whether errors grew by so little that luck may be behind it.

    The same elements must be NaN or infinite. Of a few elements the old ones may be nearly
    exact by chance; of many, errors that grow several times are lost digits.
    """
    errors = [0.0, 0.0]
    count = 0
    for pair, right in zip(pairs, exact, strict=True):
        old, new = (np.asarray(side, np.float64) for side in pair)
        finite = np.isfinite(old) & np.isfinite(right)
        if not np.array_equal(old[~finite], new[~finite], equal_nan=True):
            return False
        if not np.isfinite(new[finite]).all():
            return False
        size = float(np.abs(right[finite]).max(initial=0.0)) or 1.0
        for k, side in enumerate((old, new)):
            errors[k] += float(np.square((side - right)[finite] / size).sum())
        count += int(np.count_nonzero(finite))
    return count < _MANY or errors[1] <= _LUCK**2 * errors[0]


def excuse_by_cause(
    check: Check,
    models: tuple[ir.Model, ir.Model],
    samples: Sequence[Feeds],
    rows: Sequence[tuple[Outputs, Outputs]],
    compared: Sequence[Outputs],
    otherwise: Check | None = None,
    *,
    elsewhere: bool = False,
) -> Check:
    """Return a failed check of outputs as passed if all that failed is rounding.

    ``rows`` are what an engine gave of the original and the model, by sample. ``otherwise`` is
    returned if no output is another function and some may not be rounding; None for the check.
    """
    causes = []
    old, new = map(inlined, models)
    sides = (old, tuple(old.graph)), (new, tuple(new.graph))
    given = ((str(v.name), v.const_value) for v in old.graph.inputs)
    defaults = {name: tensor.numpy() for name, tensor in given if tensor is not None}
    known = [{**defaults, **feeds} for feeds in samples]
    for output in (o for o in check.outputs if not o.passed):
        name, promise = output.output, Promise(Tolerance(output.rtol, output.atol))
        pairs = [(before.get(name), after.get(name)) for before, after in rows]
        held = zip(compared, pairs, strict=True)
        beyond = [
            k
            for k, (one, (_, after)) in enumerate(held)
            if promise.broken({name: one.get(name)}, {name: after})
        ]
        one = Obligation(name, name)
        causes.append(find_cause(one, *sides, known, pairs, beyond, elsewhere=elsewhere))
    if any(one.cause is Cause.FUNCTION for one in causes):
        return check
    if any(one.cause is not Cause.ROUNDING for one in causes):
        return otherwise or check
    wrong = sorted(o.output for o in check.outputs if not o.passed)
    size = max((o.max_abs or 0.0 for o in check.outputs if not o.passed), default=0.0)
    told = "; ".join(dict.fromkeys(one.text for one in causes))
    reason = f"{', '.join(wrong[:3])} differs by up to {bound(size)}; {told}"
    outputs = tuple(
        replace(o, passed=True, reason=told) if not o.passed else o for o in check.outputs
    )
    return replace(check, verdict=Verdict.PASSED, reason=reason, sample=None, outputs=outputs)


def _comparable(old: Data | None, new: Data | None) -> bool:
    arrays = isinstance(old, np.ndarray) and isinstance(new, np.ndarray)
    if not arrays or old.dtype != new.dtype or old.shape != new.shape:  # type: ignore[union-attr]
        return False
    return kind_of(old.dtype) in ("float", "int", "bool")  # type: ignore[union-attr]


_DOUBLE = 1e-9
"""How far double precision may be off, as a share of the largest element."""

_SPREADS = 4.0
"""Limit of an element's error, as a multiple of the spread of a few random roundings."""

_CONSTANTS = RandomRoundings(0, constants=0.5)

_FEW = 4


def distance_of(
    sides: Sequence[PartInFloat64], tensor: ir.TensorProtocol | None
) -> float | None:
    """Return how far two sides are apart in double precision.

    ``sides`` has no second part if the value is the constant ``tensor`` there. 0 if rounding
    of their constants explains it; None if shapes, NaN or infinities differ.
    """
    old = sides[0].exact
    new = (
        sides[1].exact if tensor is None else [tensor.numpy().astype(np.float64) for _ in old]
    )
    most, moved = 0.0, _Moved(sides)
    for k, (left, right) in enumerate(zip(old, new, strict=True)):
        if left.shape != right.shape:
            return None
        finite = np.isfinite(left) & np.isfinite(right)
        if not np.array_equal(left[~finite], right[~finite], equal_nan=True):
            return None
        difference = np.abs(left - right, where=finite, out=np.zeros(left.shape))
        size = float(np.max(np.abs(left), initial=0.0, where=finite))
        if (difference <= _DOUBLE * size).all():
            continue
        own = np.zeros(left.shape)
        if tensor is not None:
            own += np.abs(right) * _epsilon(tensor.dtype)
        for spread in moved.growing(k):
            slack = spread + own
            # By chance, no trial moved some element much: it may move as its neighbours do.
            usual = float(
                np.sqrt(np.mean(np.square(slack, where=finite, out=np.zeros(left.shape))))
            )
            allowed = _SPREADS * np.maximum(slack, usual) + _DOUBLE * size
            if (difference <= allowed)[finite].all():
                break
        else:
            most = max(most, float(difference.max()))
    return most


@dataclass
class _Moved:
    """What roundings of constants do to each element, by side and sample.

    A trial only makes it larger, so that those not needed are not evaluated.
    """

    sides: Sequence[PartInFloat64]
    spreads: dict[int, list[Array]] = field(default_factory=dict)
    trials: int = 0

    def growing(self, sample: int) -> Iterator[Array]:
        """Yield what they do to a sample, after ever more trials, until all were made."""
        if self.spreads:
            yield self._of(sample)
        while self.trials < _FEW * len(self.sides):
            seed, side = divmod(self.trials, len(self.sides))
            found = self.sides[side].spread(replace(_CONSTANTS, seed=seed), 1)
            known = self.spreads.get(side, found)
            self.spreads[side] = [np.fmax(*both) for both in zip(known, found, strict=True)]
            self.trials += 1
            yield self._of(sample)

    def _of(self, sample: int) -> Array:
        return np.asarray(sum(spread[sample] for spread in self.spreads.values()))


def _epsilon(dtype: ir.DataType) -> float:
    return float(float_limits(dtype.numpy()).eps) if dtype.is_floating_point() else 0.0


FUSED = "rounding, at other places where the engine fuses nodes"
"""Why a value that differs passes."""


def find_fused_cause(
    one: Obligation,
    before: Side,
    after: Side,
    recordings: Sequence[Mapping[str, Data]],
    pairs: Sequence[tuple[Data, Data]],
) -> DerivedFinding:
    """Return why a value inside a model differs, on an engine that fuses nodes.

    The pairs are run in one form. It is rounding within the running errors of both sides, and
    another function if it differs by more on some sample. Unknown if a part has an operator
    without a bound, a body, or too many elements.
    """
    unknown, other = (DerivedFinding(c, fused=True) for c in (Cause.UNKNOWN, Cause.FUNCTION))
    old = part_leading_to(one.old, before, recordings)
    # A constant is held to the bounds of what it replaces.
    new = old if one.tensor is not None else part_leading_to(one.new, after, recordings)
    found: list[bool | None] = []
    for recording, (expected, actual) in zip(recordings, pairs, strict=True):
        if not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray):
            return unknown
        if expected.shape != actual.shape or expected.dtype != actual.dtype:
            return other
        if old is None or new is None:
            return unknown
        read = [str(value.name) for value in (*old.graph.inputs, *new.graph.inputs)]
        feeds = {n: a for n in read if isinstance(a := recording[n], np.ndarray)}
        if len(feeds) < len({*read}):
            return unknown
        found.append(rounding_verdict(old, new, feeds, expected, actual, one.old))
    if False in found:
        return other
    return unknown if None in found else DerivedFinding(Cause.ROUNDING, fused=True)
