"""The baseline, moved over to an interface that a pass gave the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from onnx_passes.passes.interface_map import InterfaceMap, Port
from onnx_passes.pipeline.baseline import Bench
from onnx_passes.runtime.base import Feeds, Outputs
from onnx_passes.runtime.inputs import AdversarialFeeds
from onnx_passes.verify.snapshot import Snapshot

if TYPE_CHECKING:
    from onnx_passes.pipeline.comparing import Comparing


@dataclass(frozen=True)
class Untranslated:
    """What a gate knew before; it goes back to it if the pass is undone."""

    original: Snapshot
    samples: list[Feeds]
    labels: Sequence[Outputs] | None
    unstable: frozenset[str]
    outputs: list[tuple[Bench, list[Outputs], list[Outputs], bool]]

    def restore(self, comparing: Comparing) -> None:
        """Go back."""
        _set_original(comparing, self.original)
        comparing.baseline.samples, comparing.labels = self.samples, self.labels
        comparing.baseline.unstable = self.unstable
        for bench, original, accepted, stale in self.outputs:
            bench.original, bench.accepted, bench.stale = original, accepted, stale


def translate(comparing: Comparing, mapped: InterfaceMap, before: ir.Model) -> Untranslated:
    """Hold the next models against the original as it is called through a new interface.

    The original and the model before run once more, on what they see of the new inputs, which
    may be rounded, and what they give is translated without any graph: a fault of the pass
    cannot hide in it.

    Raises:
        EngineError: An engine cannot run the original.
    """
    baseline = comparing.baseline
    baseline.ready("each", "checkpoint", "end")
    known = Untranslated(
        comparing.original,
        baseline.samples,
        comparing.labels,
        baseline.unstable,
        [(b, b.original, b.accepted, b.stale) for b in baseline.benches],
    )
    samples = [_feeds(feeds, mapped.inputs) for feeds in baseline.samples]
    seen = [_feeds(feeds, mapped.back) for feeds in samples]
    for bench in baseline.benches:
        if not bench.ran:
            continue
        original = bench.run(comparing.original.model, seen)
        accepted = bench.run(before, seen) if bench.when == "each" else original
        bench.original = [_outputs(found, mapped.outputs) for found in original]
        bench.accepted = [_outputs(found, mapped.outputs) for found in accepted]
        bench.stale = False
    wrapped = comparing.original.restore()
    mapped.wrap(wrapped)
    _set_original(comparing, Snapshot(wrapped))
    baseline.samples = samples
    baseline.unstable = frozenset(mapped.outputs(name, None)[0] for name in baseline.unstable)
    if comparing.labels is not None:
        comparing.labels = [_outputs(labels, mapped.outputs) for labels in comparing.labels]
    return known


def _set_original(comparing: Comparing, original: Snapshot) -> None:
    comparing.original = comparing.truth.original = original
    comparing.baseline.model = original.model


def _feeds(feeds: Feeds, port: Port) -> Feeds:
    found = _outputs(feeds, port)
    if isinstance(feeds, AdversarialFeeds):
        kept = AdversarialFeeds(found, feeds.kind, "")
        kept.name = feeds.name
        return kept
    return found


def _outputs(values: Mapping[str, Any], port: Port) -> dict[str, Any]:
    return dict(port(name, value) for name, value in values.items())
