"""The one judge: does what a model gives keep a promise about what another one gave?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.runtime.engine_base import Outputs
from onnx_passes.verify.compare import compare
from onnx_passes.verify.result import Check, OutputCheck, Verdict

_SAYS = {"equality": "not as expected", "tolerance": "not within tolerance"}


@dataclass(frozen=True)
class Promise:
    """What values are held to, with nothing left open.

    Attributes:
        contract: What was declared.
        limit: The limit for each value; None for that of the contract.
        overrides: Limits of single values, by name.
        inside: Whether the values lie inside a model, where the small elements of a tensor
            carry the error of its large ones.
        low: Names of other outputs for which the same holds, because they depend on values
            below float32.
        negative_zero: Whether -0 and 0 differ where floats must be equal.
        derived: Whether double precision decides where the limit is that of the type alone.
        kind: What reports call it; by default the name of the contract.
    """

    contract: Equality | Tolerance
    limit: Tolerance | None = None
    overrides: Mapping[str, Tolerance] = field(default_factory=dict)
    inside: bool = False
    low: frozenset[str] = frozenset()
    negative_zero: bool = False
    derived: bool = False
    kind: str = ""

    def __post_init__(self) -> None:
        """Name the kind."""
        if not self.kind:
            object.__setattr__(self, "kind", str(self.contract).partition("(")[0])

    def is_derived(self, name: str) -> bool:
        """Whether no more than the type of a value limits it, and double precision decides."""
        given = self.contract if self.limit is None else self.limit
        by_type = isinstance(given, Tolerance) and given.rtol is None and given.atol is None
        return self.derived and by_type and name not in self.overrides

    def relative(self) -> Promise:
        """Return the promise without the absolute part of the limit of a type."""
        return replace(self, limit=Tolerance(atol=0.0))

    def check(self, expected: Outputs, actual: Outputs) -> tuple[OutputCheck, ...]:
        """Return a comparison of each value of one sample; see :func:`compare`.

        Args:
            expected: Values by name.
            actual: Values by name.
        """
        return compare(
            expected,
            actual,
            self.contract if self.limit is None else self.limit,
            overrides=self.overrides,
            scale_by_max=self.inside or self.low,
            negative_zero=self.negative_zero,
        )

    def broken(self, expected: Outputs, actual: Outputs) -> list[OutputCheck]:
        """Return the comparisons of one sample that do not keep the promise.

        Args:
            expected: Values by name.
            actual: Values by name.
        """
        return [found for found in self.check(expected, actual) if not found.passed]


def judge(
    expected: Sequence[Outputs],
    actual: Sequence[Outputs],
    promise: Promise,
    *,
    ignored: frozenset[str] = frozenset(),
    names: Sequence[str | None] = (),
) -> Check:
    """Hold values to a promise, on all samples.

    Args:
        expected: The values of the reference, by sample.
        actual: Those of the candidate.
        promise: What they are held to.
        ignored: Values that do not count as evidence, because the reference does not repeat
            them.
        names: What is special about each sample, for the reason.

    Returns:
        The worst comparison of each value; failed where one of them is. Not verified where
        nothing is left to compare.
    """
    worst = Worst()
    for sample, sides in enumerate(zip(expected, actual, strict=True)):
        old, new = ({k: v for k, v in side.items() if k not in ignored} for side in sides)
        if old or not sides[0]:
            worst.add(sample, promise.check(old, new))
    if not worst.found:
        unstable = ", ".join(sorted(ignored))
        reason = f"the original gives another result each time: {unstable}"
        return Check(promise.kind, Verdict.NOT_VERIFIED, reason=reason)
    return worst.check(promise.kind, names)


@dataclass
class Worst:
    """The worst comparison of each value over samples.

    Attributes:
        found: The worst comparisons, by value.
        samples: The sample of each.
    """

    found: dict[str, OutputCheck] = field(default_factory=dict)
    samples: dict[str, int] = field(default_factory=dict)

    def add(self, sample: int, results: Sequence[OutputCheck]) -> None:
        """Add the comparisons of one sample.

        Args:
            sample: Number of the sample.
            results: The comparison of each value.
        """
        for result in results:
            worst, old = result, self.found.get(result.output)
            if old is None or _worse(result, old):
                self.samples[result.output] = sample
            else:
                worst = old
            if old is not None:
                # The element is that of the worst sample; the errors are of all.
                worst = replace(
                    worst,
                    max_abs=_most(old.max_abs, result.max_abs),
                    max_rel=_most(old.max_rel, result.max_rel),
                    share=_share(old, result),
                )
            self.found[result.output] = worst

    def check(self, kind: str, names: Sequence[str | None] = ()) -> Check:
        """Return all as one check, which names the sample of the worst failure.

        Args:
            kind: What reports call it.
            names: What is special about each sample, for the reason.
        """
        outputs = tuple(self.found.values())
        failed = [output for output in outputs if not output.passed]
        if not failed:
            return Check(kind, Verdict.PASSED, outputs=outputs)
        sample = self.samples[_farthest(failed).output]
        name = names[sample] if sample < len(names) else None
        reason = describe_mismatch(kind, outputs, sample, name)
        return Check(kind, Verdict.FAILED, reason=reason, sample=sample, outputs=outputs)


def _share(old: OutputCheck, new: OutputCheck) -> float | None:
    most = _most(old.share, new.share)
    # What failed by no limit (a shape, a type) fails under any.
    beyond = any(not check.passed and check.share is None for check in (old, new))
    return math.inf if most is not None and beyond else most


def _worse(new: OutputCheck, old: OutputCheck) -> bool:
    """Whether ``new`` says more of a failure than ``old``, or is farther off."""
    if old.passed != new.passed:
        return old.passed
    return (new.max_abs or 0.0) > (old.max_abs or 0.0)


def _farthest(failed: Sequence[OutputCheck]) -> OutputCheck:
    return max(failed, key=lambda output: output.max_abs or 0.0)


def _most(one: float | None, other: float | None) -> float | None:
    return max((v for v in (one, other) if v is not None), default=None)


def describe_mismatch(
    kind: str, outputs: Sequence[OutputCheck], sample: int, name: str | None = None
) -> str:
    """Say which value is wrong, where and by how much.

    Args:
        kind: The kind of the check.
        outputs: Comparisons, some of them failed.
        sample: Number of the sample.
        name: Name of a special sample; None for others.
    """
    failed = [output for output in outputs if not output.passed]
    worst = _farthest(failed)
    says = _SAYS.get(kind, "too far from the original")
    told = f" ({name})" if name else ""
    more = len(failed) - 1
    others = f" (and {more} more output{'s' if more > 1 else ''})" if more else ""
    return f"{worst.output} {says}{others}: {describe(worst)}, in sample {sample}{told}"


def describe(output: OutputCheck) -> str:
    """Say what is wrong with one value, in one clause."""
    if output.worst is None or output.rmse_new is not None:
        return output.reason or "it differs"
    count = f"{output.mismatched} of {output.size} elements differ"
    place = f"[{', '.join(map(str, output.worst))}]"
    # An element that is NaN on one side is off by nothing that a number could express.
    error = f" by {output.max_abs:.3g}" if output.max_abs else ""
    return f"{count}, at {place}{error}: expected {output.expected}, got {output.actual}"


def on_engine(check: Check, engine: str, scope: str = "model") -> Check:
    """Return a check with the engine that the values are from.

    Args:
        check: The check.
        engine: Name of the engine.
        scope: What was run: a region, or the whole model.
    """
    return replace(check, engine=engine, scope=scope)
