"""How far runs of the same model are apart: smaller differences mean nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.contracts.scores import widen
from onnx_passes.runtime.engine_base import Outputs
from onnx_passes.verify.judge import Promise, judge
from onnx_passes.verify.result import EngineSpread, OutputCheck
from onnx_passes.verify.score import score

_EXACT = Promise(Equality())

HEADROOM = 10.0
"""How many times its spread an engine is allowed, where no limit was given."""

SIGHT = 1e-2
"""The largest limit that noise may lead to, as a share of an element, and of the largest one.

A wrong factor of 1.02 is seen. What is farther off and within the noise is not judged."""

_COARSE = 4.0
"""The same as a multiple of the default of a type, for those whose steps are larger."""


@dataclass(frozen=True)
class OriginalRuns:
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

    def spread(self, ignored: frozenset[str] = frozenset()) -> list[EngineSpread]:
        """Return the spread of each numeric output, over all samples.

        Args:
            ignored: Outputs that do not count as evidence.
        """
        return [
            EngineSpread(found.output, self.between, found.max_abs, found.max_rel or 0.0)
            for found in judge(self.first, self.second, _EXACT, ignored=ignored).outputs
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
            ignored: Outputs that do not count as evidence.
            scaled: Outputs that are measured against their largest element.
        """
        promise = Promise(limit, overrides=overrides, low=frozenset(scaled))
        found = judge(self.first, self.second, promise, ignored=ignored).outputs
        return [output for output in found if output.share is not None]

    def limit_of(self, found: OutputCheck, factor: float) -> Tolerance:
        """Return a limit above the noise, but at most one under which a fault is seen.

        Args:
            found: The output, held to its default.
            factor: How many times the default noise asks for.
        """
        values = [sample.get(found.output) for sample in self.first]
        floats = [np.abs(widen(v)) for v in values if isinstance(v, np.ndarray)]
        largest = (np.max(v, initial=0.0, where=np.isfinite(v)) for v in floats)
        size = max(map(float, largest), default=np.inf)
        if found.rtol:
            factor = min(factor, max(SIGHT / found.rtol, _COARSE))
        atol = max(min(found.atol * factor, SIGHT * size), found.atol)
        return Tolerance(found.rtol * factor, atol)

    def score(self, ignored: frozenset[str] = frozenset()) -> float:
        """Return the spread as one number: see :func:`onnx_passes.verify.score.score`."""
        return score(self.first, self.second, ignored)
