"""The one judge: does what a model gives keep a promise about what another one gave?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.runtime.base import Outputs
from onnx_passes.verify.compare import compare
from onnx_passes.verify.noise import merge
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
        low: Names of outputs of which the same holds, because they come by way of values below
            float32.
        negative_zero: Whether -0 and 0 differ where floats must be equal.
        kind: What reports call it; by default the name of the contract.
    """

    contract: Equality | Tolerance
    limit: Tolerance | None = None
    overrides: Mapping[str, Tolerance] = field(default_factory=dict)
    inside: bool = False
    low: frozenset[str] = frozenset()
    negative_zero: bool = False
    kind: str = ""

    def __post_init__(self) -> None:
        """Name the kind."""
        if not self.kind:
            object.__setattr__(self, "kind", str(self.contract).partition("(")[0])


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
        ignored: Values that are no evidence, because the reference does not repeat them.
        names: What is special about each sample, for the reason.

    Returns:
        The worst comparison of each value; failed where one of them is. Not verified where
        nothing is left to compare.
    """
    worst: dict[str, OutputCheck] = {}
    failed: int | None = None
    limit = promise.contract if promise.limit is None else promise.limit
    for sample, sides in enumerate(zip(expected, actual, strict=True)):
        old, new = ({k: v for k, v in side.items() if k not in ignored} for side in sides)
        if not old and sides[0]:
            continue
        results = compare(
            old,
            new,
            limit,
            overrides=promise.overrides,
            scale_by_max=promise.inside or promise.low,
            negative_zero=promise.negative_zero,
        )
        for result in results:
            merge(worst, result)
        if failed is None and not all(result.passed for result in results):
            failed = sample
    outputs = tuple(worst.values())
    if not worst:
        unstable = ", ".join(sorted(ignored))
        reason = f"the original gives another result each time: {unstable}"
        return Check(promise.kind, Verdict.NOT_VERIFIED, reason=reason)
    if failed is None:
        return Check(promise.kind, Verdict.PASSED, outputs=outputs)
    name = names[failed] if failed < len(names) else None
    reason = describe_mismatch(promise.kind, outputs, failed, name)
    return Check(promise.kind, Verdict.FAILED, reason=reason, sample=failed, outputs=outputs)


def describe_mismatch(
    kind: str, outputs: Sequence[OutputCheck], sample: int, name: str | None = None
) -> str:
    """Say which value is wrong, where and by how much."""
    failed = [output for output in outputs if not output.passed]
    worst = max(failed, key=lambda o: o.max_abs or 0.0)
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
    error = f" by {output.max_abs:.3g}" if output.max_abs is not None else ""
    return f"{count}, at {place}{error}: expected {output.expected}, got {output.actual}"


def on_engine(check: Check, engine: str, scope: str = "model") -> Check:
    """Return a check with the engine that the values are from."""
    return replace(check, engine=engine, scope=scope)
