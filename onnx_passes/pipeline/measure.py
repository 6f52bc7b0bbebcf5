"""Sentences about mismatches, and metrics over all samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from onnx_passes.contracts import metrics
from onnx_passes.errors import OnnxPassesError
from onnx_passes.pipeline.baseline import Bench
from onnx_passes.runtime.base import Array, Outputs
from onnx_passes.verify.noise import merge, worse
from onnx_passes.verify.result import Check, MetricCheck, OutputCheck, Verdict

__all__ = ["detail", "merge", "metrics_check", "mismatch", "worse"]

_SAYS = {"equality": "not as expected", "tolerance": "not within tolerance"}


def mismatch(
    kind: str, outputs: Mapping[str, OutputCheck], sample: int, name: str | None = None
) -> str:
    """Say which output is wrong, where and by how much."""
    failed = [output for output in outputs.values() if not output.passed]
    worst = max(failed, key=lambda o: o.max_abs or 0.0)
    says = _SAYS.get(kind, "too far from the original")
    name = f" ({name})" if name else ""
    others = f" (and {len(failed) - 1} more outputs)" if len(failed) > 1 else ""
    return f"{worst.output} {says}{others}: {detail(worst)}, in sample {sample}{name}"


def detail(output: OutputCheck) -> str:
    """Say what is wrong with one output, in one clause."""
    if output.worst is None or output.rmse_new is not None:
        return output.reason or "it differs"
    count = f"{output.mismatched} of {output.size} elements differ"
    place = f"[{', '.join(map(str, output.worst))}]"
    error = f" by {output.max_abs:.3g}" if output.max_abs is not None else ""
    return f"{count}, at {place}{error}: expected {output.expected}, got {output.actual}"


def metrics_check(
    bench: Bench,
    ranges: Mapping[str, tuple[float, float]],
    original: Sequence[Outputs],
    produced: Sequence[Outputs],
    labels: Sequence[Outputs] | None,
) -> Check:
    """Measure every metric over all samples given, and hold it to its range."""
    found: list[MetricCheck] = []
    for name, (low, high) in ranges.items():
        metric = metrics.lookup(name)
        expected = metric.choose_expected(_arrays(original), _arrays(labels or ()))
        try:
            value = metric.measure(_arrays(produced), expected)
        except OnnxPassesError as error:
            reason = error.message
            verdict = Verdict.FAILED
            if metric.expects == "labels" and not labels:
                reason = f"metric {name} needs labels: give them under reference.outputs"
                verdict = Verdict.NOT_VERIFIED
            return Check("metric", verdict, bench.engine.name, reason=reason)
        samples = sum(map(_rows, expected))
        found.append(MetricCheck(name, value, low, high, samples))
    failed = [m for m in found if not m.passed]
    reason = "; ".join(
        f"{m.name} {m.value:g} not within [{m.low:g}, {m.high:g}]" for m in failed
    )
    return Check(
        "metric",
        Verdict.FAILED if failed else Verdict.PASSED,
        bench.engine.name,
        reason=reason or None,
        metrics=tuple(found),
    )


def _arrays(samples: Sequence[Outputs]) -> list[list[Array]]:
    return [[v for v in sample.values() if isinstance(v, np.ndarray)] for sample in samples]


def _rows(sample: Sequence[Array]) -> int:
    return sample[0].shape[0] if sample and sample[0].ndim else 1
