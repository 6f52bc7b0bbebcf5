"""Results held against one in double precision: ``verify.reference: float64``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from onnx_passes.configs.sections import Verify
from onnx_passes.errors import OnnxPassesError
from onnx_passes.pipeline.baseline import Baseline
from onnx_passes.pipeline.engine_side import Bench
from onnx_passes.runtime.engine_base import Feeds, Outputs
from onnx_passes.runtime.inputs import name_of
from onnx_passes.verify.float64 import evaluate
from onnx_passes.verify.growth import error_growth
from onnx_passes.verify.judge import Worst
from onnx_passes.verify.result import Check, Verdict
from onnx_passes.verify.snapshot import Snapshot

KIND = "error-growth"


@dataclass
class Truth:
    """What the original gives in double precision.

    Attributes:
        settings: The section ``verify`` of the pipeline.
        baseline: The samples, and what may not be compared.
        original: The original model.
        reason: Why there is no such result; None where there is, or nobody asked yet.
    """

    settings: Verify
    baseline: Baseline
    original: Snapshot
    reason: str | None = None
    _outputs: list[Outputs] = field(default_factory=list)
    _samples: Sequence[Feeds] | None = None

    @property
    def wanted(self) -> bool:
        """Whether the pipeline asks for it."""
        return self.settings.reference == "float64"

    @property
    def usable(self) -> bool:
        """Whether there is something to hold results against; it is computed once."""
        if not self.baseline.samples:
            return False
        if self._samples is not self.baseline.samples:
            self._samples, self.reason = self.baseline.samples, None
            try:
                found = evaluate(self.original.model, self.baseline.samples)
            except OnnxPassesError as error:
                self._outputs, self.reason = [], error.message
            else:
                self._outputs = found.outputs
                self.baseline.notes += found.notes()
        return self.reason is None

    @property
    def outputs(self) -> Sequence[Outputs]:
        """The result in double precision, by sample; only where it is usable."""
        return self._outputs

    def missing(self, bench: Bench) -> list[Check]:
        """Say that error growth was asked for and not measured, where that is so."""
        if not self.wanted or self.reason is None:
            return []
        reason = f"there is no float64 reference, so tolerances decide: {self.reason}"
        return [Check(KIND, Verdict.NOT_VERIFIED, bench.engine.name, reason=reason)]

    def judge(self, bench: Bench, produced: Sequence[Outputs]) -> Check:
        """Compare the errors of a model with those of the original on the same engine.

        Args:
            bench: The engine, with the outputs of the original.
            produced: Outputs of the result, one mapping a sample.
        """
        start = time.perf_counter()
        worst = Worst()
        rows = zip(bench.original, produced, self._outputs, strict=True)
        for sample, outputs in enumerate(rows):
            old, new, truth = (self._stable(found) for found in outputs)
            worst.add(sample, error_growth(old, new, truth, self.settings.growth))
        check = worst.check(KIND, [name_of(feeds) for feeds in self.baseline.samples])
        seconds = time.perf_counter() - start
        return replace(check, engine=bench.engine.name, seconds=seconds)

    def _stable(self, outputs: Outputs) -> Outputs:
        return {k: v for k, v in outputs.items() if k not in self.baseline.unstable}
