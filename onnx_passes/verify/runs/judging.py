"""What is compared at once, and what compares it: element by element by default."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.runtime.engine_base import Outputs
from onnx_passes.verify.judge import Promise
from onnx_passes.verify.result import OutputCheck


@dataclass(frozen=True)
class Measured(OutputCheck):
    """A comparison by one number.

    Attributes:
        measure: What was measured, as text: "cosine".
        value: What was found.
        demand: What is asked, as text: "at least 0.997".
        badness: Grows as the result gets worse, to find the worst sample.
    """

    measure: str = ""
    value: float | None = None
    demand: str = ""
    badness: float = 0.0


@dataclass(frozen=True)
class SampleValues:
    """What is compared at once: some values of one sample.

    Attributes:
        expected: Those of the reference.
        actual: Those of the candidate.
        inner: The values inside the model, whose small elements carry the large ones' error.
        truth: Gives the same values in double precision.
    """

    expected: Outputs
    actual: Outputs
    inner: frozenset[str] = frozenset()
    truth: Callable[[], Outputs] | None = None


class ResultJudge(Protocol):
    """Compares two results."""

    @property
    def name(self) -> str:
        """What a report calls it."""
        ...

    def __call__(self, side: SampleValues) -> list[OutputCheck]:
        """Return a check for each value."""
        ...


@dataclass(frozen=True)
class Simple:
    """Element by element: ``|actual - expected| <= atol + rtol * |expected|``.

    Attributes:
        contract: The limits; what they leave open is the default of each dtype.
        overrides: Limits by name of an output.
    """

    contract: Equality | Tolerance = field(default_factory=Tolerance)
    overrides: Mapping[str, Tolerance] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The contract."""
        return f"simple, {self.contract}"

    def __call__(self, side: SampleValues) -> list[OutputCheck]:
        """Compare; values inside are measured against the largest element of each."""
        found: list[OutputCheck] = []
        # The order is compared among outputs only: that of values inside means nothing.
        for inside in (False, True):
            old, new = (
                {n: v for n, v in values.items() if (n in side.inner) is inside}
                for values in (side.expected, side.actual)
            )
            if old or new:
                promise = Promise(self.contract, overrides=self.overrides, inside=inside)
                found += promise.check(old, new)
        return found
