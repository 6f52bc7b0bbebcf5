"""How far runs of the same model are apart: below that, nothing can be told from nothing."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.runtime.base import Outputs
from onnx_passes.verify.compare import compare
from onnx_passes.verify.result import OutputCheck, Spread
from onnx_passes.verify.score import score

HEADROOM = 10.0
"""How many times its spread an engine is allowed, where no limit was given."""


@dataclass(frozen=True)
class Runs:
    """Two runs of the original, by sample, and what they are.

    Attributes:
        engine: Name of the engine that is asked about.
        between: What was run, as text.
        first: Outputs of the one.
        second: Outputs of the other.
    """

    engine: str
    between: str
    first: Sequence[Outputs]
    second: Sequence[Outputs]

    def spread(self, ignored: frozenset[str] = frozenset()) -> list[Spread]:
        """Return the spread of each numeric output, over all samples.

        Args:
            ignored: Outputs that are no evidence.
        """
        return [
            Spread(found.output, self.between, found.max_abs, found.max_rel or 0.0)
            for found in self._compare(Equality(), {}, ignored)
            if found.max_abs is not None
        ]

    def against(
        self,
        limit: Tolerance,
        overrides: Mapping[str, Tolerance],
        ignored: frozenset[str] = frozenset(),
        scaled: Collection[str] = (),
    ) -> list[OutputCheck]:
        """Hold one run against the other under a limit, as a pass would be held.

        Outputs without a limit, integers for one, are left out.

        Args:
            limit: The limit.
            overrides: Limits of single outputs.
            ignored: Outputs that are no evidence.
            scaled: Outputs that are measured against their largest element.
        """
        found = self._compare(limit, overrides, ignored, scaled)
        return [output for output in found if output.share is not None]

    def score(self, ignored: frozenset[str] = frozenset()) -> float:
        """Return the spread as one number: see :func:`onnx_passes.verify.score.score`."""
        return score(self.first, self.second, ignored)

    def _compare(
        self,
        contract: Equality | Tolerance,
        overrides: Mapping[str, Tolerance],
        ignored: frozenset[str],
        scaled: Collection[str] = (),
    ) -> list[OutputCheck]:
        found: dict[str, OutputCheck] = {}
        for first, second in zip(self.first, self.second, strict=True):
            old, new = (
                {k: v for k, v in side.items() if k not in ignored} for side in (first, second)
            )
            if not old:
                continue
            for result in compare(
                old, new, contract, overrides=overrides, scale_by_max=scaled or False
            ):
                merge(found, result)
        return list(found.values())


def merge(found: dict[str, OutputCheck], new: OutputCheck) -> None:
    """Add a sample's comparison: the worst sample is told, the errors are of all."""
    old = found.get(new.output)
    if old is None:
        found[new.output] = new
        return
    found[new.output] = replace(
        new if worse(new, old) else old,
        max_abs=_most(old.max_abs, new.max_abs),
        max_rel=_most(old.max_rel, new.max_rel),
        share=_share(old, new),
    )


def _share(old: OutputCheck, new: OutputCheck) -> float | None:
    most = _most(old.share, new.share)
    # What failed by no limit (a shape, a type) fails under any.
    beyond = any(not check.passed and check.share is None for check in (old, new))
    return math.inf if most is not None and beyond else most


def worse(new: OutputCheck, old: OutputCheck | None) -> bool:
    """Whether ``new`` tells more of a failure than ``old``, or is farther off."""
    if old is None or old.passed != new.passed:
        return old is None or old.passed
    return (new.max_abs or 0.0) > (old.max_abs or 0.0)


def _most(one: float | None, other: float | None) -> float | None:
    return max((v for v in (one, other) if v is not None), default=None)
