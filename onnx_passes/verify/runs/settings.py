"""How models are run and compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from onnx_passes.verify.runs.judging import ResultJudge, Simple
from onnx_passes.verify.runs.postprocess import LargestIndices

MEMORY_LIMIT = 2 << 30
"""Bytes that values may have in memory, where nobody says."""

PARTS = 4
"""What an engine computes exists twice while it is handed over, beside what it is held against
and what is kept."""


@dataclass(frozen=True)
class Settings:
    """How models are run and compared.

    Attributes:
        outputs: Names of values, "all", or None for the models' outputs.
        judge: By what they are compared.
        limits: The limits that name outputs, so that the names are checked.
        postprocess: What is done to outputs first.
        validate: Whether NaN and infinities count as a failure.
        fail_fast: Whether the rest is left out after the first difference.
        iterations: Timed runs of each sample.
        warm_up: Runs of each sample before those.
        memory_limit: Bytes that values may have in memory.
        keep: Whether the values of every run are kept, to be saved or drawn.
        hashes: Whether models and inputs are hashed, which identifies saved results.
        progress: Called with the samples that were run and those that there are, over all
            models on all engines.
    """

    outputs: Sequence[str] | str | None = None
    judge: ResultJudge = field(default_factory=Simple)
    limits: Simple | None = None
    postprocess: LargestIndices | None = None
    validate: bool = False
    fail_fast: bool = False
    iterations: int = 1
    warm_up: int = 0
    memory_limit: int = MEMORY_LIMIT
    keep: bool = False
    hashes: bool = False
    progress: Callable[[int, int], object] = lambda done, total: None

    @property
    def share(self) -> int:
        """Bytes that an engine may be asked for at once, and that are kept beside it."""
        return max(1, self.memory_limit // PARTS)

    @property
    def wanted(self) -> Sequence[str] | None:
        """The values that were named; None for all, or the outputs."""
        return None if isinstance(self.outputs, str) else self.outputs
