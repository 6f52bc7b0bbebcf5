"""Which differences are rounding, which another function, and which lost digits.

A default limit knows the type of a value only. Sums of a million terms, and a mean far from
zero, are farther apart than it allows however right the rewrite is. Its absolute part
hides any fault in a value whose elements are small. Both sides of a change are evaluated in
double precision instead, from the same recorded values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array, float_limits
from onnx_passes.contracts import Tolerance
from onnx_passes.contracts.scores import kind_of
from onnx_passes.errors import OnnxPassesError, TooMuchWorkError
from onnx_passes.pipeline.causes import Cause, DerivedFinding
from onnx_passes.pipeline.float64_part import PartInFloat64
from onnx_passes.pipeline.rounding_checks import error_growth_of
from onnx_passes.report.text import bound
from onnx_passes.runtime.engine_base import Data, Feeds, Outputs
from onnx_passes.verify.float64 import RandomRoundings
from onnx_passes.verify.judge import Promise
from onnx_passes.verify.obligations import Obligation
from onnx_passes.verify.recording import inlined
from onnx_passes.verify.region import Side
from onnx_passes.verify.result import Check, OutputCheck, Verdict

MOST = 1 << 24
"""Numbers that a part reads, on all samples, up to which it is evaluated."""

PATIENT_MOST = 1 << 28
"""The same for a model, before its result is refused."""

_FAR = 1e-2
"""How far a value may be from double precision, as a share of its largest element: what is
farther was computed otherwise."""

_MANY, _LUCK = 16, 4.0
"""Elements from which on errors are compared, and how many times they may have grown."""


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
) -> DerivedFinding:
    """Return why a value differs.

    A part of a model is held to ``MOST`` and ``MOST_WORK``. Before a result is refused more is
    allowed. Where all samples are still too much, those beyond their limit and one
    other are evaluated.

    Args:
        one: The value.
        before: The model before, and those of its nodes that a pass removed.
        after: The model after, and its new nodes.
        recordings: What is known of the model before, by sample: its inputs at least.
        pairs: What the engine gave before and after, by sample, run in one form.
        beyond: The samples on which it breaks its limit, if the result is refused for it.
    """
    patient = beyond is not None
    sides = before, after
    found = _find_cause(one, sides, recordings, pairs, patient=patient)
    within = [k for k in range(len(pairs)) if k not in (beyond or ())]
    if found.cause is not Cause.TOO_LARGE or not beyond or len(within) < 2:
        return found
    # At the edges rounding may hide a fault, so that one sample more is evaluated.
    some = sorted((*beyond, within[0]))
    recordings, pairs = [recordings[k] for k in some], [pairs[k] for k in some]
    return _find_cause(one, sides, recordings, pairs, patient=patient)


def _find_cause(
    one: Obligation,
    models: tuple[Side, Side],
    recordings: Sequence[Mapping[str, Data]],
    pairs: Sequence[tuple[Data | None, Data | None]],
    *,
    patient: bool,
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
    if known[-1].low - known[0].low:
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
    if any(_is_far(old, right) for (old, _), right in zip(pairs, exact, strict=True)):
        return unknown
    if apart:
        return DerivedFinding(Cause.FUNCTION, apart)
    rows = zip(pairs, exact, strict=True)
    kept = all(error_growth_of(*pair, right) is not None for pair, right in rows)
    kept = kept or (_is_near(pairs, exact) and known[0].within_bounds(pairs))
    return DerivedFinding(Cause.ROUNDING if kept else Cause.LOSS)


def near_steps(
    name: str,
    model: ir.Model,
    feeds: Sequence[Feeds],
    pairs: Sequence[tuple[Data | None, Data | None]],
) -> DerivedFinding:
    """Return whether all elements of an output are as random roundings may make them.

    Args:
        name: The output.
        model: The original.
        feeds: The samples.
        pairs: What an engine gave of the original and of the result, by sample.

    Returns:
        Rounding, with the number of elements that differ; or unknown, also where the model is
        too large to be evaluated in double precision.
    """
    side = PartInFloat64(name, model, feeds)
    if not all(_comparable(*pair) for pair in pairs) or side.elements > MOST:
        return DerivedFinding(Cause.UNKNOWN)
    try:
        return side.near_steps(pairs)
    except OnnxPassesError:
        return DerivedFinding(Cause.UNKNOWN)


def _is_far(old: Data | None, exact: Array) -> bool:
    """Whether what an engine gave is not what double precision gives, but for rounding."""
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
) -> Check:
    """Return a failed check of outputs as passed if all that failed is rounding.

    Args:
        check: The check.
        models: The original and the model in question.
        samples: Inputs of the original.
        rows: What an engine gave of both, by sample.
        compared: What the outputs in question were compared with, by sample.
        otherwise: What is returned if no output is another function, and some may not be
            rounding; None for the check.
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
        causes.append(find_cause(Obligation(name, name), *sides, known, pairs, beyond))
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
"""How many times the spread of a few random roundings an element may be off."""

_CONSTANTS = RandomRoundings(0, constants=0.5)

_FEW = 4


def distance_of(
    sides: Sequence[PartInFloat64], tensor: ir.TensorProtocol | None
) -> float | None:
    """Return how far two sides are apart in double precision.

    Args:
        sides: The part before, and the one after if the value is not a constant there.
        tensor: The constant; None for none.

    Returns:
        0 where rounding of their constants explains it; None where shapes, NaN or infinities
        differ.
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
