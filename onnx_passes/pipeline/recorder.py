"""Record the inner values of a model once, and compute the missing ones from them.

A recorder runs the accepted model with its values as outputs, in batches that fit the memory.
Values that were not recorded are computed again by the nodes before them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx_ir as ir

from onnx_passes.errors import EngineError, ModelError
from onnx_passes.pipeline.baseline import Baseline, EngineBaseline
from onnx_passes.pipeline.garbage_collection import collect_young
from onnx_passes.risky_runs import avoided, running
from onnx_passes.runtime.engine_base import (
    Data,
    Engine,
    Feeds,
    Outputs,
    label_of_feeds,
    run_each,
    run_one,
)
from onnx_passes.verify.recording import (
    Recorded,
    Recording,
    byte_size,
    choose_unrecorded,
    computed_weights,
    expose_values,
    inlined,
    record_for_all,
    value_names,
)
from onnx_passes.verify.region import (
    Region,
    backward_slice,
    boundary_of,
    changed_region,
    region_model,
)

_AT_ONCE = 1 << 26
"""Bytes of values that are computed at once, if they read no input."""

_MOST = 2
"""One part in this of all nodes is the most that is run again; else all of them are."""


def record_weights(
    engine: Engine, model: ir.Model, recordings: Sequence[Recording], names: Collection[str]
) -> set[str]:
    """Record large values that read no input, once for all samples; return their names."""
    batches: list[list[str]] = [[]]
    size = 0
    for value in (value for node in model.graph for value in node.outputs):
        if value.name in names:
            size += byte_size(value)
            if size > _AT_ONCE and batches[-1]:
                batches.append([])
                size = byte_size(value)
            batches[-1].append(str(value.name))
    done: set[str] = set()
    for batch in batches:
        found = recompute(engine, model, recordings[:1], batch)
        if found:
            record_for_all(recordings, found[0])
            done.update(batch)
    return done


def recompute(
    engine: Engine, model: ir.Model, recordings: Sequence[Recording], names: Collection[str]
) -> list[Outputs] | None:
    """Compute values of a model that has run, from the values recorded nearest above them.

    Large values are left out of recordings, and passes ask for a few of them. An engine that
    runs each node as it is written gives the same bytes for them as a run of the whole model,
    at the price of a few nodes. None if they cannot be computed this way, or not for less than
    half of the model.
    """
    known = recordings[0].keys()
    nodes = backward_slice(names, model.graph, known.__contains__)
    boundary = boundary_of(nodes)
    made = {v.name for node in nodes for v in node.outputs}
    if not (made.issuperset(names) and known >= set(boundary)):
        return None
    if _MOST * len(nodes) > len(model.graph):
        return None
    region = Region(tuple(nodes), boundary, tuple(names))
    feeds = [recording.row(boundary) for recording in recordings]
    try:
        hidden = {str(name) for name in made - set(names)}  # engines keep what is an output
        part = region_model(model, region, recordings, hidden)
        with engine.prepare(part) as session:
            return run_each(engine, session, feeds, list(names))
    except EngineError:
        return None


_EAGER = 256
"""What part of the memory limit is filled with values that no check has asked for yet.

The first touch of memory costs more than most kernels: what is missing is computed again."""


@dataclass
class Recorder:
    """Records on one engine.

    ``memory_limit`` is in bytes; more goes to disk. ``usable`` is False if the engine cannot
    record this model at all.
    """

    bench: EngineBaseline
    memory_limit: int
    usable: bool = True
    _sizes: dict[str, int] = field(default_factory=dict)

    def obtain(
        self,
        known: Recorded | None,
        model: ir.Model,
        baseline: Baseline,
        needed: frozenset[str],
        *,
        untouched: bool,
    ) -> Recorded | None:
        """Return the values of a model, those needed among them; None if the engine cannot.

        With ``untouched`` the model computes what the original does: one run is then the
        recording and gives the original's outputs.
        """
        fixed: frozenset[str] = frozenset()
        if self.bench.node_by_node and baseline.deterministic:
            fixed = computed_weights(model, needed)
        if known is not None:
            _add_defaults(known, model, needed)
            if self._fill(known, model, needed, fixed):
                return known
        for left_out in (fixed, frozenset()) if fixed else (fixed,):
            found = self.record(model, baseline, needed - left_out, untouched=untouched)
            if found is None:
                return None
            _add_defaults(found, model, needed)
            if not left_out or self._fill(found, model, needed, fixed):
                break
        return found

    def inputs(self, samples: Sequence[Feeds]) -> Recorded:
        """Return samples as a recording of a model that has not run."""
        return Recorded([self._recording(feeds, feeds, len(samples)) for feeds in samples])

    def _recording(self, feeds: Feeds, values: Mapping[str, Data], count: int) -> Recording:
        # Those of the model before and of the one after are there at the same time.
        recording = Recording(self.memory_limit // 2 // count, label=label_of_feeds(feeds))
        recording.update({**feeds, **values})
        return recording

    def _fill(
        self, known: Recorded, model: ir.Model, needed: frozenset[str], fixed: frozenset[str]
    ) -> bool:
        """Compute what a recording lacks; return whether it now holds all that is needed."""
        if dropped := known.filled - needed:
            for recording in known.samples:
                recording.keep(recording.keys() - dropped)
        known.filled &= needed
        lacking = {name for recording in known.samples for name in needed - recording.keys()}
        if lacking & fixed:
            known.filled |= record_weights(
                self.bench.engine, model, known.samples, lacking & fixed
            )
            lacking -= known.filled
        if not lacking:
            return True
        if not self.bench.node_by_node:
            return False
        found = recompute(self.bench.engine, model, known.samples, sorted(lacking))
        for recording, values in zip(known.samples, found or (), strict=bool(found)):
            recording.update(values)
        known.filled |= lacking if found else set()
        return known.holds(needed)

    def record(
        self,
        model: ir.Model,
        baseline: Baseline,
        needed: frozenset[str] = frozenset(),
        *,
        untouched: bool = False,
    ) -> Recorded | None:
        """Run a model once with every value as an output.

        Where all values are more than the memory limit, only those needed are kept: running
        the model again is cheaper than reading them from disk. With ``untouched`` no pass has
        changed the model yet.
        """
        if not self.usable:
            return None
        bench = self.bench
        # An engine that rewrites graphs may compute outputs otherwise where others are kept.
        once = baseline.deterministic and not bench.ran and bench.node_by_node
        once = once and avoided(bench.label) is None
        run: ir.Model | None = model
        if once and not untouched:
            run = _named_alike(baseline.model, model, needed)
            once = run is not None
        if not once:
            baseline.ready(bench.when)
        try:
            with running(bench.label) if once else nullcontext():
                found, originals = self.run(
                    run if once and run is not None else model,
                    baseline.samples,
                    needed,
                    model,
                    drop=baseline if once else None,
                )
        except EngineError:
            # Values that cannot be outputs (sequences of unknown type, for one), or samples
            # that the original does not run on.
            if once:
                baseline.ready(bench.when)
                return self.record(model, baseline, needed)
            self.usable = False
            return None
        if once:
            bench.take(originals)
        return found

    def run(
        self,
        model: ir.Model,
        samples: Sequence[Feeds],
        needed: frozenset[str] = frozenset(),
        shaped: ir.Model | None = None,
        drop: Baseline | None = None,
    ) -> tuple[Recorded, list[Outputs]]:
        """Run a model, and keep its inner values as far as they fit, those needed in any case.

        Values of ``shaped`` may be asked for, if it differs. For the original, ``drop`` leaves
        out the samples that it does not run on.
        """
        collect_young()
        shaped = shaped or model
        names = [str(value.name) for value in model.graph.outputs]
        share = self.memory_limit // 2 // max(len(samples), 1)
        found: list[Outputs] = []
        while len(found) < len(samples):
            hidden = self._hidden(model, shaped, samples, {*needed, *names})
            shown = expose_values(model, weights=False, hidden=hidden, needed=needed)
            with self.bench.engine.prepare(shown) as session:
                if not found:
                    try:
                        found = [run_one(session, samples[0])]
                    except EngineError:
                        if drop is None or not drop.sift(self.bench, session, names[:1]):
                            raise
                        samples = drop.samples
                        found = [run_one(session, samples[0])]
                    self._sizes |= {name: _size(value) for name, value in found[0].items()}
                    # Sizes that nobody noted are known now: the others need not pay for them.
                    more = self._hidden(model, shaped, samples, {*needed, *names})
                    found = [{n: value for n, value in found[0].items() if n not in more}]
                    if sum(self._sizes.get(n, 0) for n in more - hidden) > share // _EAGER:
                        continue
                wanted = list(found[0])
                try:
                    found += run_each(self.bench.engine, session, samples[1:], wanted)
                except EngineError:
                    if drop is None or not drop.sift(self.bench, session, names[:1]):
                        raise
                    samples = drop.samples
                    found += run_each(self.bench.engine, session, samples[1:], wanted)
        rows = zip(samples, found, strict=True)
        recordings = [self._recording(*row, len(samples)) for row in rows]
        outputs = [{name: values[name] for name in names} for values in found]
        return Recorded(recordings), outputs

    def hidden(
        self, model: ir.Model, samples: Sequence[Feeds], needed: Collection[str]
    ) -> set[str]:
        """Return the values of a model that are too large to be recorded."""
        return self._hidden(model, model, samples, set(needed))

    def _hidden(
        self, model: ir.Model, shaped: ir.Model, samples: Sequence[Feeds], needed: set[str]
    ) -> set[str]:
        limit = self.memory_limit // _EAGER
        hidden = choose_unrecorded(shaped, samples, needed, limit, self._sizes)
        if shaped is not model:
            hidden |= {*value_names(model)} - {*value_names(shaped), *needed}
        return hidden


def _named_alike(
    original: ir.Model, model: ir.Model, needed: frozenset[str]
) -> ir.Model | None:
    """Return the original if values of its names are, bit for bit, those of a later model.

    Passes that only remove Identities, or move constants, leave it so.
    """
    original = inlined(original)
    region = changed_region(original, model)
    if region is None or region.nodes or not needed <= set(value_names(original)):
        return None
    return original


def _add_defaults(known: Recorded, model: ir.Model, needed: frozenset[str]) -> None:
    """Record the defaults that samples leave inputs to, as far as they are needed."""
    for value in model.graph.inputs:
        name, tensor = str(value.name), value.const_value
        if tensor is None or name not in needed:
            continue
        for recording in known.samples:
            if name not in recording:
                recording.update({name: tensor.numpy()})


def _size(value: Data) -> int:
    return value.nbytes if isinstance(value, np.ndarray) else 0


def dump_context(model: ir.Model, baseline: Baseline, folder: Path) -> list[str]:
    """Write the values of the first sample to ``context.npz``, and return what is left out."""
    if not baseline.samples or not baseline.benches:
        return ["full_context_dump: there are no samples to run the result on"]
    feeds = baseline.samples[0]
    try:
        with baseline.benches[0].engine.prepare(expose_values(model)) as session:
            values = {**feeds, **session.run(feeds)}
    except EngineError as error:
        return [f"full_context_dump: the values cannot be had: {error.message}"]
    arrays = {
        name: value
        for name, value in values.items()
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufc"
    }
    path = folder / "context.npz"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            # Positional names would clash with numpy's own parameter `file`.
            np.savez(file, allow_pickle=False, **arrays)
    except OSError as error:
        raise ModelError(
            f"the context cannot be written: {error}",
            where=f"  --> {path}",
            help="see dump_dir",
        ) from error
    left = sorted(values.keys() - arrays.keys())
    notes = [f"full_context_dump: {len(arrays)} values in {path}"]
    return [*notes, f"full_context_dump left out {', '.join(left)}"] if left else notes
