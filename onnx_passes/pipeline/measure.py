"""Metrics over all samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from onnx_passes.contracts import metrics
from onnx_passes.errors import OnnxPassesError
from onnx_passes.pipeline.engine_side import Bench
from onnx_passes.runtime.engine_base import Array, Outputs
from onnx_passes.verify.result import Check, MetricCheck, Verdict


def metrics_check(
    bench: Bench,
    ranges: Mapping[str, tuple[float, float]],
    original: Sequence[Outputs],
    produced: Sequence[Outputs],
    labels: Sequence[Outputs] | None,
) -> Check:
    """Measure every metric over all samples given, and hold it to its range.

    Args:
        bench: The engine.
        ranges: The least and the greatest allowed value by metric.
        original: Outputs of the original, one mapping a sample.
        produced: Outputs of the result, one mapping a sample.
        labels: Labels by name, one mapping a sample; None for none.
    """
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
