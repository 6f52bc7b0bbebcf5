"""Check only what a pass changed, on recorded values: the gate at the price of a few nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir

from onnx_passes.contracts import Contract, Equality, Tolerance
from onnx_passes.errors import EngineError, PassError
from onnx_passes.pipeline import measure
from onnx_passes.pipeline.baseline import Baseline, Bench
from onnx_passes.pipeline.recompute import recompute
from onnx_passes.runtime.base import Data, Feeds, Outputs
from onnx_passes.runtime.inputs import name_of
from onnx_passes.runtime.parallel import run_each
from onnx_passes.verify.compare import compare
from onnx_passes.verify.node_equality import Folded
from onnx_passes.verify.recording import Recording, exposed, inlined, value_names
from onnx_passes.verify.region import Region, changed_region, region_model
from onnx_passes.verify.result import Check, OutputCheck, Verdict
from onnx_passes.verify.sizing import too_much

_EAGER = 16
"""What part of the memory limit is filled with values that no check has asked for yet.

The first touch of memory costs more than most kernels: what is missing is computed again."""

_LARGE = 16
"""A region of at least this part of all nodes costs as much as the whole model."""

_HANDS_ON = frozenset(
    ("Expand", "Flatten", "Reshape", "Shape", "Squeeze", "Transpose", "Unsqueeze")
)
"""Operators that compute no element: where only these are new, no output is likely to move."""

_HALVES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)

Resolve = Callable[[Tolerance], tuple[Tolerance, dict[str, Tolerance]]]


@dataclass
class Regional:
    """Region checks of one engine.

    Attributes:
        memory_limit: Bytes of recorded values kept in memory; more goes to disk.
        recordings: Values of the last accepted model by sample; None before it was run.
        usable: Whether the engine can record this model at all.
        moved: Whether a value that the last region computes for others is another one, bit for
            bit, so that the outputs may be.
        differed: What is not equal in the last region, where only the outputs of the whole
            model tell whether it matters.
    """

    memory_limit: int
    recordings: list[Recording] | None = None
    usable: bool = True
    moved: bool = False
    differed: str | None = None
    _next: list[Recording] | None = None
    _outputs: list[Outputs] = field(default_factory=list)
    _learned: list[Outputs] = field(default_factory=list)
    _names: set[str] = field(default_factory=set)
    _filled: set[str] = field(default_factory=set)
    _sizes: dict[str, int] = field(default_factory=dict)

    def check(
        self,
        bench: Bench,
        baseline: Baseline,
        before: ir.Model,
        model: ir.Model,
        contracts: Sequence[Contract],
        resolve: Resolve,
        *,
        untouched: bool = False,
    ) -> list[Check] | None:
        """Check the changed region of a model against the model before it.

        Args:
            bench: The engine.
            baseline: The samples, and the original.
            before: The model before.
            model: The model.
            contracts: What the pass promises.
            resolve: Fills in what a tolerance leaves open.
            untouched: Whether ``before`` computes what the original does. One run is then
                the recording and the original's outputs.

        Returns:
            The checks, one for each contract; None where only a run of the whole model tells:
            values cannot be matched or recorded, or a promise of equality is not kept locally.

        Raises:
            EngineError: No engine can run the original.
        """
        start = time.perf_counter()
        self._learned, self._next, self.moved, self.differed = [], None, False, None
        whole = model
        try:
            before, model = inlined(before), inlined(model)
        except PassError:
            return None
        region = self._region(bench, baseline, before, model, untouched=untouched)
        if region is None:
            return None
        self._names = set(value_names(model))
        checks = self._follow_ahead(bench, model, region, baseline, contracts, resolve)
        if checks is not None:
            bench.learn(whole, baseline.samples, self._outputs)
            return [replace(checks[0], seconds=time.perf_counter() - start), *checks[1:]]
        outputs = self._run(bench, model, region, baseline.samples)
        if outputs is None:
            return None
        checks = [
            self._judge(bench, region, baseline.samples, outputs, c, resolve)
            for c in contracts
        ]
        if any(isinstance(c, Equality) for c in contracts) and any(
            check.verdict is Verdict.FAILED for check in checks
        ):
            self.differed = next(check.reason for check in checks if check.reason)
            return None
        inner = set(region.frontier)
        # What is downstream was computed from the old frontier, so that is what stays.
        self._learned = [{k: v for k, v in o.items() if k not in inner} for o in outputs]
        return [replace(checks[0], seconds=time.perf_counter() - start), *checks[1:]]

    def _region(
        self,
        bench: Bench,
        baseline: Baseline,
        before: ir.Model,
        model: ir.Model,
        *,
        untouched: bool,
    ) -> Region | None:
        """Find what changed, with the values recorded that it is held against.

        A constant in place of a value that the engine computed is compared with that value:
        equal bit for bit, it makes nothing new that reads it. Where one is not, its readers
        are part of the region.
        """
        folded = Folded()
        while (region := changed_region(before, model, folded)) is not None:
            needed = region.needed
            if self.recordings is not None and not self._fill(bench, before, needed):
                self.recordings = None  # not all was kept
            # A recording costs a run of the whole model, so it waits until its values are
            # needed.
            if (region.nodes or region.folded) and not self.record(
                bench, before, baseline, needed, untouched=untouched
            ):
                return None
            wrong = {n for n, t in region.folded.items() if not self._holds(n, t)}
            if not wrong:
                break
            folded = Folded(refused=folded.refused | wrong)
        return region

    def _holds(self, name: str, tensor: ir.TensorProtocol) -> bool:
        """Whether a value was, on every sample, what a constant is, bit for bit."""
        return all(
            name in recording and _equal(recording, {name: tensor.numpy()}, [name])
            for recording in self.recordings or ()
        )

    def _fill(self, bench: Bench, before: ir.Model, needed: frozenset[str]) -> bool:
        """Compute what a recording lacks, in place of what the last check lacked.

        Returns:
            Whether all that is needed is recorded now.
        """
        assert self.recordings is not None
        for recording in self.recordings if self._filled - needed else ():
            recording.keep(recording.keys() - (self._filled - needed))
        self._filled &= needed
        lacking = {name for recording in self.recordings for name in needed - recording.keys()}
        if not lacking:
            return True
        if not _runs_as_written(bench, before):
            return False
        found = recompute(bench.engine, before, self.recordings, sorted(lacking))
        for recording, values in zip(self.recordings, found or (), strict=bool(found)):
            recording.update(values)
        self._filled |= lacking if found else set()
        return all(needed <= recording.keys() for recording in self.recordings)

    def record(
        self,
        bench: Bench,
        model: ir.Model,
        baseline: Baseline,
        needed: frozenset[str],
        *,
        untouched: bool = False,
    ) -> bool:
        """Run a model once with every value as an output, unless that was done.

        Where all values are more than the memory limit, only those needed are kept: running
        the model again is cheaper than reading them from disk.

        Raises:
            EngineError: No engine can run the original.
        """
        if self.recordings is not None or not self.usable:
            return self.usable
        # An engine that rewrites graphs may compute outputs otherwise where others are kept.
        once = baseline.deterministic and not bench.ran and _runs_as_written(bench, model)
        run: ir.Model | None = model
        if once and not untouched:
            run = _named_alike(baseline.model, model, needed)
            once = run is not None and _runs_as_written(bench, run)
        if not once:
            baseline.ready(bench.when)
        try:
            self.recordings, originals = self._recorded(
                bench, run if once and run is not None else model, baseline, needed, model
            )
            if once:
                bench.take(originals)
        except EngineError:
            # Values that cannot be outputs (sequences of unknown type, for one), or samples
            # that the original does not run on.
            self.recordings, self.usable = None, False
            if once:
                baseline.ready(bench.when)
                self.usable = True
                return self.record(bench, model, baseline, needed)
        return self.usable

    def _recorded(
        self,
        bench: Bench,
        model: ir.Model,
        baseline: Baseline,
        needed: frozenset[str] = frozenset(),
        shaped: ir.Model | None = None,
    ) -> tuple[list[Recording], list[Outputs]]:
        """Run a model, and keep its inner values as far as they fit.

        Args:
            bench: The engine.
            model: The model that is run.
            baseline: The samples.
            needed: Names that are kept in any case.
            shaped: The model whose values may be asked for, where it is another one.
        """
        samples, shaped = baseline.samples, shaped or model
        names = [str(value.name) for value in model.graph.outputs]
        # Those of the model before and of the one after are there at the same time.
        share = self.memory_limit // 2 // max(len(samples), 1)
        found: list[Outputs] = []
        while len(found) < len(samples):
            hidden = self._hidden(model, shaped, samples, {*needed, *names})
            shown = exposed(model, weights=False, hidden=hidden, needed=needed)
            with bench.engine.prepare(shown) as session:
                if not found:
                    found = [session.run(samples[0])]
                    self._sizes |= {name: _size(value) for name, value in found[0].items()}
                    # Sizes that nobody noted are known now: the others need not pay for them.
                    more = self._hidden(model, shaped, samples, {*needed, *names})
                    found = [{n: value for n, value in found[0].items() if n not in more}]
                    if sum(self._sizes.get(n, 0) for n in more - hidden) > share // _EAGER:
                        continue
                found += run_each(bench.engine, session, samples[1:], list(found[0]))
        recordings = []
        for feeds, values in zip(samples, found, strict=True):
            recording = Recording(share)
            recording.update(feeds)
            recording.update(values)
            recordings.append(recording)
        return recordings, [{name: values[name] for name in names} for values in found]

    def _hidden(
        self, model: ir.Model, shaped: ir.Model, samples: Sequence[Feeds], needed: set[str]
    ) -> set[str]:
        """Return the values of a model that are not recorded."""
        limit = self.memory_limit // _EAGER
        hidden = too_much(shaped, samples, needed, limit, self._sizes)
        if shaped is not model:
            hidden |= {*value_names(model)} - {*value_names(shaped), *needed}
        return hidden

    def follow(self, bench: Bench, model: ir.Model, baseline: Baseline) -> list[Outputs]:
        """Return the outputs of the model checked last, at the price of one run.

        The values of that run become the recorded ones once the model is accepted. An engine
        that rewrites graphs computes other outputs where inner values are kept: it runs the
        model as it is, and what was recorded stays, old beside new where both are compared.

        Raises:
            EngineError: The model does not run.
        """
        samples = baseline.samples
        if self._next is None:
            if not _runs_as_written(bench, model):
                return bench.run(model, samples)
            try:
                self._next, self._outputs = self._recorded(bench, inlined(model), baseline)
            except EngineError:
                return bench.run(model, samples)
            bench.learn(model, samples, self._outputs)
        return self._outputs

    def _follow_ahead(
        self,
        bench: Bench,
        model: ir.Model,
        region: Region,
        baseline: Baseline,
        contracts: Sequence[Contract],
        resolve: Resolve,
    ) -> list[Check] | None:
        """Run the whole model at once, where a tolerance pass changed much of it.

        Its outputs have to be followed anyway, and the values inside are held to the same
        limits: with what the region before them took added, so that only a failure has to be
        asked again on recorded values.

        Returns:
            The checks; None where the region has to be run.
        """
        large = _LARGE * len(region.nodes) > len(model.graph)
        large &= any(node.op_type not in _HANDS_ON for node in region.nodes)
        tolerant = all(isinstance(contract, Tolerance) for contract in contracts)
        if not (large and tolerant and region.frontier and _runs_as_written(bench, model)):
            return None
        try:
            recordings, outputs = self._recorded(
                bench, model, baseline, frozenset(region.frontier)
            )
        except EngineError:
            return None
        kept = (*recordings, *(self.recordings or ()))
        if any(name not in recording for name in region.frontier for recording in kept):
            return None
        produced = [{name: r[name] for name in region.frontier} for r in recordings]
        checks = [
            self._judge(bench, region, baseline.samples, list(produced), contract, resolve)
            for contract in contracts
        ]
        if any(check.verdict is Verdict.FAILED for check in checks):
            self.moved = False
            return None
        self._next, self._outputs = recordings, outputs
        return checks

    def accept(self) -> None:
        """Take the values of the model checked last for those of the accepted one."""
        if self._next is not None:
            self.recordings, self._next, self._learned = self._next, None, []
            return
        for recording, values in zip(self.recordings or [], self._learned, strict=False):
            recording.update(values)
            recording.keep(self._names)

    def forget(self) -> None:
        """Drop all values: the next check records anew."""
        self.recordings, self._next, self._learned = None, None, []

    def _run(
        self, bench: Bench, model: ir.Model, region: Region, samples: Sequence[Feeds]
    ) -> list[Outputs] | None:
        """Run the region on each sample; None where a value that it needs is no tensor."""
        if not region.nodes:
            return [{} for _ in self.recordings or ()]
        assert self.recordings is not None
        needed = frozenset((*region.boundary, *region.frontier))
        if any(not needed <= recording.keys() for recording in self.recordings):
            return None
        try:
            hidden = self._hidden(model, model, samples, {*region.frontier})
            part = region_model(model, region, self.recordings[0], hidden)
            with bench.engine.prepare(part) as session:
                return [
                    session.run({name: recording[name] for name in region.boundary})
                    for recording in self.recordings
                ]
        except EngineError:
            return None

    def _judge(
        self,
        bench: Bench,
        region: Region,
        samples: Sequence[Feeds],
        outputs: Sequence[Mapping[str, Data]],
        contract: Contract,
        resolve: Resolve,
    ) -> Check:
        kind = str(contract).partition("(")[0]
        held = (*region.frontier, *region.folded)
        if not held:
            reason = "nothing that reaches an output is computed differently"
            return Check(kind, Verdict.PASSED, bench.engine.name, "region", reason)
        limit: Equality | Tolerance = Equality()
        overrides: dict[str, Tolerance] = {}
        if isinstance(contract, Tolerance):
            limit, overrides = resolve(contract)
        worst: dict[str, OutputCheck] = {}
        failed: int | None = None
        for sample, produced in enumerate(outputs):
            assert self.recordings is not None
            recording = self.recordings[sample]
            given = {name: tensor.numpy() for name, tensor in region.folded.items()}
            results = compare(
                {name: recording[name] for name in held},
                {**{name: produced[name] for name in region.frontier}, **given},
                limit,
                overrides=overrides,
                scale_by_max=True,
                negative_zero=True,
            )
            for result in results:
                measure.merge(worst, result)
            if isinstance(limit, Tolerance) and region.frontier and not self.moved:
                self.moved = not _equal(recording, produced, region.frontier)
            if failed is None and not all(result.passed for result in results):
                failed = sample
        return Check(
            kind,
            Verdict.PASSED if failed is None else Verdict.FAILED,
            bench.engine.name,
            "region",
            reason=None
            if failed is None
            else measure.mismatch(kind, worst, failed, name_of(samples[failed])),
            sample=failed,
            outputs=tuple(worst.values()),
        )


def _equal(
    recording: Mapping[str, Data], produced: Mapping[str, Data], names: Sequence[str]
) -> bool:
    """Whether values are the same bit for bit, NaN being NaN."""
    old, new = ({name: side[name] for name in names} for side in (recording, produced))
    return all(c.passed for c in compare(old, new, Equality(), negative_zero=True))


def _named_alike(
    original: ir.Model, model: ir.Model, needed: frozenset[str]
) -> ir.Model | None:
    """Return the original if values of its names are, bit for bit, those of a later model.

    Passes that only take out Identities, or move constants, leave it so.
    """
    try:
        original = inlined(original)
    except PassError:
        return None
    region = changed_region(original, model)
    if region is None or region.nodes or not needed <= set(value_names(original)):
        return None
    return original


def _runs_as_written(bench: Bench, model: ir.Model) -> bool:
    """Whether an output is the same where inner values are recorded beside it.

    For floats of 16 bits that the CPU has no kernel for, ONNX Runtime casts to 32 and back,
    and leaves out both casts between two nodes, unless the value is an output: recorded, it
    is rounded, and so is what follows.
    """
    if not getattr(bench.engine, "node_by_node", False):
        return False
    graph = model.graph
    values = [*graph.inputs, *graph.initializers.values()]
    values += [value for node in graph.all_nodes() for value in node.outputs]
    return all(value.dtype not in _HALVES for value in values)


def _size(value: Data) -> int:
    return value.nbytes if isinstance(value, np.ndarray) else 0
