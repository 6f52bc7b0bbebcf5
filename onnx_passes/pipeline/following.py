"""The reference samples, where a pass has given the model another interface."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.errors import ReferenceDataError
from onnx_passes.pipeline.comparing import Comparing
from onnx_passes.runtime.base import Feeds
from onnx_passes.runtime.inputs import generate
from onnx_passes.verify.feeds import check_feeds


def follow_interface(comparing: Comparing, before: ir.Model, model: ir.Model) -> None:
    """Keep the samples that a new interface admits, or make new ones.

    Args:
        comparing: What holds the samples, their labels, and the original.
        before: The model that had the interface before.
        model: The model that has the new one.

    Raises:
        EngineError: The original or the model before does not run on the new samples.
    """
    baseline, labels = comparing.baseline, comparing.labels
    kept = [i for i, feeds in enumerate(baseline.samples) if _fit(feeds, model)]
    if len(kept) == len(baseline.samples):
        return
    if kept:
        baseline.keep(kept)
        comparing.labels = labels and [labels[i] for i in kept if i < len(labels)]
        return
    started = [bench for bench in baseline.benches if bench.ran]
    samples = generate(model)
    baseline.samples, comparing.labels = samples, None
    baseline.notes.append(
        "the reference samples do not fit the interface that the pass gave the model; "
        "new ones were generated"
    )
    for bench in started:
        bench.original = bench.run(comparing.original.model, samples)
        bench.accepted = bench.run(before, samples)


def _fit(feeds: Feeds, model: ir.Model) -> bool:
    try:
        check_feeds(feeds, model, {}, allow_nan=True)
    except ReferenceDataError:
        return False
    return True
