"""The original as it is called through an interface that a pass gave the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import onnx_ir as ir

from onnx_passes.errors import ReferenceDataError
from onnx_passes.model.copy import copy_model
from onnx_passes.passes.context import InterfaceMap, Port
from onnx_passes.pipeline.baseline import Baseline
from onnx_passes.pipeline.state import Known, State
from onnx_passes.runtime.engine_base import Feeds, MadeUpFeeds, Outputs
from onnx_passes.runtime.inputs import AdversarialFeeds, generate
from onnx_passes.verify.feeds import check_feeds
from onnx_passes.verify.snapshot import Snapshot


def follow_interface(state: State, before: ir.Model, model: ir.Model) -> State:
    """Keep the samples that a new interface admits, or make new ones.

    Args:
        state: What is known of the model before.
        before: The model that had the interface before.
        model: The model that has the new one.

    Raises:
        EngineError: The original or the model before does not run on the new samples.
    """
    baseline, labels = state.baseline, state.labels
    kept = [i for i, feeds in enumerate(baseline.samples) if _fit(feeds, model)]
    if len(kept) == len(baseline.samples):
        return state.without_recordings()
    if kept:
        labels = labels and [labels[i] for i in kept if i < len(labels)]
        samples = [baseline.samples[i] for i in kept]
        known = [(_rows(b.original, kept), _rows(k.accepted, kept)) for b, k in state.pairs()]
        return _moved(state, samples, known, state.original, labels, baseline.unstable)
    samples = generate(model)
    note = (
        "the reference samples do not fit the interface that the pass gave the model; "
        "new ones were generated"
    )
    if note not in baseline.notes:
        baseline.notes.append(note)
    known = [
        (b.run(state.original.model, samples), b.run(before, samples)) if b.ran else ([], None)
        for b in baseline.benches
    ]
    return _moved(state, samples, known, state.original, None, baseline.unstable)


def with_fixed_defaults(before: ir.Model, model: ir.Model) -> ir.Model:
    """Return a model whose inputs with defaults are weights where another model has weights.

    The new interface lets no caller override these. That says nothing of whether the weights
    are the defaults, which the checks of the pass find out.

    Args:
        before: The model before.
        model: The model that has the new interface.

    Returns:
        The model itself where there are none, else a copy.
    """
    inputs = {value.name for value in model.graph.inputs}
    fixed = {
        value.name
        for value in before.graph.inputs
        if value.const_value is not None
        and value.name not in inputs
        and value.name in before.graph.initializers
    }
    if not fixed:
        return before
    copy = copy_model(before)
    kept = [value for value in copy.graph.inputs if value.name not in fixed]
    copy.graph.inputs.clear()
    copy.graph.inputs.extend(kept)
    return copy


def translate(state: State, mapped: InterfaceMap, before: ir.Model) -> State:
    """Hold the next models against the original as it is called through a new interface.

    The original and the model before run once more, on what they see of the new inputs, which
    may be rounded. Their results are translated without any graph, so that a fault of the pass
    cannot hide in it.

    Args:
        state: What is known before the pass.
        mapped: How values of the old interface become those of the new one.
        before: The model before the pass.

    Raises:
        EngineError: An engine cannot run the original.
    """
    baseline = state.baseline
    baseline.ready("each", "checkpoint", "end")
    samples = [_feeds(feeds, mapped.inputs) for feeds in baseline.samples]
    seen = [_feeds(feeds, mapped.back) for feeds in samples]
    known: list[tuple[list[Outputs], list[Outputs] | None]] = []
    for bench in baseline.benches:
        if not bench.ran:
            known.append(([], None))
            continue
        original = bench.run(state.original.model, seen)
        accepted = bench.run(before, seen) if bench.when == "each" else original
        known.append(
            (
                [_outputs(found, mapped.outputs) for found in original],
                [_outputs(found, mapped.outputs) for found in accepted],
            )
        )
    wrapped = state.original.restore()
    mapped.wrap(wrapped)
    unstable = frozenset(mapped.outputs(name, None)[0] for name in baseline.unstable)
    labels = state.labels and [_outputs(row, mapped.outputs) for row in state.labels]
    return _moved(state, samples, known, Snapshot(wrapped), labels, unstable)


def _moved(
    state: State,
    samples: list[Feeds],
    known: Sequence[tuple[list[Outputs], list[Outputs] | None]],
    original: Snapshot,
    labels: Sequence[Outputs] | None,
    unstable: frozenset[str],
) -> State:
    benches = [
        replace(bench, original=outputs, _known=[], _ahead=None)
        for bench, (outputs, _) in zip(state.baseline.benches, known, strict=True)
    ]
    old = state.baseline
    baseline = Baseline(
        original.model, benches, samples, old.given, unstable, old.notes, ahead=old.ahead
    )
    baseline.unstable, baseline.deterministic = unstable, old.deterministic
    return replace(
        state,
        comparing=state.comparing.moved_to(baseline, original, labels),
        known=tuple(
            Known(samples, accepted, None, before.budget)
            for (_, accepted), before in zip(known, state.known, strict=True)
        ),
        moved=True,
    )


def _rows(outputs: list[Outputs] | None, kept: Sequence[int]) -> Any:
    return outputs and [outputs[i] for i in kept]


def _fit(feeds: Feeds, model: ir.Model) -> bool:
    try:
        check_feeds(feeds, model, {}, allow_nan=True)
    except ReferenceDataError:
        return False
    return True


def _feeds(feeds: Feeds, port: Port) -> Feeds:
    found = _outputs(feeds, port)
    if isinstance(feeds, AdversarialFeeds):
        kept = AdversarialFeeds(found, feeds.kind, "")
        kept.name = feeds.name
        return kept
    return MadeUpFeeds(found, feeds.label) if isinstance(feeds, MadeUpFeeds) else found


def _outputs(values: Mapping[str, Any], port: Port) -> dict[str, Any]:
    return dict(port(name, value) for name, value in values.items())
