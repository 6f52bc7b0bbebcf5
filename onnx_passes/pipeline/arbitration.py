"""Separate what an engine does to a model from what the model computes.

Engines may rewrite graphs before they run them. The arbiter asks again, in double precision or
node by node, before it blames a pass. The second opinion after a pass uses it, and so do the
checks of the original and of the final result.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import onnx_ir as ir

from onnx_passes.configs.sections import OutputTolerance, Verify
from onnx_passes.contracts import Contract, Metric, Tolerance
from onnx_passes.errors import EngineError, OnnxPassesError, ReferenceDataError
from onnx_passes.pipeline.baseline import Baseline, EngineBaseline
from onnx_passes.pipeline.engine_check import (
    EngineCheck,
    RegionCheck,
    Step,
    does_not_run,
    is_in_doubt,
)
from onnx_passes.pipeline.output_checks import OutputComparison
from onnx_passes.pipeline.policy import Budget
from onnx_passes.pipeline.recorder import Recorder
from onnx_passes.pipeline.region_evidence import RegionFinding
from onnx_passes.pipeline.state import EngineState, State
from onnx_passes.risky_runs import AHEAD, RESULT, avoided, label, running
from onnx_passes.runtime.engine_base import Engine, Feeds
from onnx_passes.runtime.inputs import AdversarialFeeds
from onnx_passes.runtime.inputs.seeded_feeds import elements_of
from onnx_passes.runtime.ort import OnnxRuntimeEngine, skipped_optimizations
from onnx_passes.verify.evidence import AS_WRITTEN, ENGINE, Check, Verdict
from onnx_passes.verify.judge import Promise


@dataclass
class Arbiter:
    """Looks into failures on engines that rewrite graphs.

    ``second`` asks an engine that runs node by node, which is not one of ``asked``, about the
    change. It returns that engine if it finds no fault.
    """

    state: State
    before: ir.Model
    model: ir.Model
    asked: Sequence[EngineBaseline]
    second: Callable[[], EngineBaseline | None] | None = None

    @property
    def comparing(self) -> OutputComparison:
        return self.state.comparing

    def after_pass(
        self,
        checks: list[Check],
        contracts: Sequence[Contract],
        override: OutputTolerance | None,
    ) -> list[Check]:
        """Separate the failures of a pass from those of an engine."""
        plain = self._plain(checks, contracts, override)
        return checks if plain is None else self._judged(checks, plain)

    def at_end(self, checks: list[Check]) -> list[Check]:
        """Separate a result that is wrong from one that an engine treats otherwise."""
        plain = self._plain(checks, None, None)
        return checks if plain is None else self._judged(checks, plain)

    def _judged(self, checks: list[Check], plain: EngineBaseline) -> list[Check]:
        return [
            self._weighed(c, plain) if self._is_suspect(c) and not c.metrics else c
            for c in checks
        ]

    def _is_suspect(self, check: Check) -> bool:
        if check.verdict is not Verdict.FAILED or check.engine is None:
            return False
        return any(b.engine.name == check.engine and not b.node_by_node for b in self.asked)

    def _plain(
        self,
        checks: Sequence[Check],
        contracts: Sequence[Contract] | None,
        override: OutputTolerance | None,
    ) -> EngineBaseline | None:
        """Return an engine that runs node by node and finds nothing wrong; None for none."""
        suspects = [check for check in checks if self._is_suspect(check)]
        if not suspects:
            return None
        plain = {b.engine.name: b for b in self.asked if b.node_by_node}
        said = [c for c in checks if c.engine in plain and c.kind != "metric"]
        if said:
            agreed = all(c.verdict is Verdict.PASSED for c in said)
            return plain[str(said[0].engine)] if agreed else None
        first = next(b for b in self.asked if b.engine.name == suspects[0].engine)
        twin = _twin(first)
        if is_foreign(first.engine) and contracts is not None and self.second is not None:
            return self.second()
        if twin is None or (contracts is not None and not _compares(contracts)):
            return None
        try:
            return twin if self._agrees(twin, contracts, override) else None
        except EngineError:
            return None

    def _agrees(
        self,
        twin: EngineBaseline,
        contracts: Sequence[Contract] | None,
        override: OutputTolerance | None,
    ) -> bool:
        """Ask an engine that the pipeline does not have, for this one answer."""
        samples = self.state.baseline.samples
        twin.take(twin.run(self.state.original.model, samples))
        produced = twin.run(self.model, samples)
        if contracts is None:
            found = self.comparing.end(twin, None, produced, self.model)
        else:
            accepted = twin.run(self.before, samples)
            found = [
                check
                for contract in contracts
                for check in self.comparing.contract(
                    twin, accepted, produced, contract, override, Budget(), self.model
                )
            ]
        return all(check.verdict is Verdict.PASSED for check in found)

    def _weighed(self, check: Check, plain: EngineBaseline) -> Check:
        """Say that an engine failed, or that it only rounds at other places."""
        bench = next(b for b in self.asked if b.engine.name == check.engine)
        noise = self._noise(check, bench, plain)
        if noise is not None:
            return noise
        reason = (
            f"{check.engine} treats the result otherwise than the original, and "
            f"{plain.engine.name} finds them to agree: {check.reason or 'they differ'}"
        )
        wrong = {
            o.output: Promise(Tolerance(o.rtol, o.atol)) for o in check.outputs if not o.passed
        }
        if any(
            promise.broken({name: one[name]}, {name: other[name]})
            for one, other in zip(bench.original, plain.original, strict=True)
            for name, promise in wrong.items()
            if name in one and name in other
        ):
            reason += (
                "; they differ on the original already: -e onnxruntime checks without what "
                "this engine rewrites"
            )
        if getattr(bench.engine, "fuse_qdq", False) and any(map(_quantises, self.model.graph)):
            reason += "; with its option fuse_qdq: false it leaves quantisers as they are"
        return replace(check, kind=ENGINE, reason=reason)

    def _noise(
        self, check: Check, bench: EngineBaseline, plain: EngineBaseline
    ) -> Check | None:
        """Return what a check is if the places of roundings are all that differs.

        Each change agrees by itself, since ``plain`` runs node by node and finds it to.
        """
        if check.scope == "region" or not check.outputs:
            return None
        try:
            produced = bench.run(self.model, self.state.baseline.samples)
            found = self.comparing.excused(
                bench, produced, check, self.model, vouched=True, plain=plain.original
            )
        except OnnxPassesError:
            return None
        if found.verdict is not Verdict.PASSED:
            return None
        told = f"context noise: {plain.engine.name} finds them to agree, and {found.reason}"
        return replace(found, reason=told)


def _quantises(node: ir.Node) -> bool:
    return node.op_type.lower().endswith("quantizelinear")


def _compares(contracts: Sequence[Contract]) -> bool:
    return bool(contracts) and not any(isinstance(c, Metric) for c in contracts)


def is_foreign(engine: Engine) -> bool:
    """Whether an engine is not ONNX Runtime, which can be made to run node by node."""
    return not isinstance(engine, OnnxRuntimeEngine)


def _twin(bench: EngineBaseline) -> EngineBaseline | None:
    """Return the same engine without optimizations, where it runs node by node then.

    For an engine of another kind it is ONNX Runtime.
    """
    if not isinstance(bench.engine, OnnxRuntimeEngine):
        return EngineBaseline(OnnxRuntimeEngine(prepacking=False), "never")
    twin = EngineBaseline(
        replace(bench.engine, optimization="none", prepacking=False), "never"
    )
    return twin if twin.node_by_node else None


@dataclass
class CrossCheck:
    """What an engine that runs node by node says of a pass; it is asked at most once."""

    ask: Callable[[], tuple[EngineBaseline, RegionFinding | None]]

    @cached_property
    def _found(self) -> tuple[EngineBaseline, RegionFinding | None]:
        return self.ask()

    @property
    def confirms(self) -> bool:
        """Whether it finds values inside that differ, too."""
        found = self._found[1]
        return found is not None and found.failed

    @property
    def contradicts(self) -> EngineBaseline | None:
        """The engine, where it runs what changed before and after, and finds it right."""
        bench, found = self._found
        agrees = found is not None and not found.failed and found.differs is None
        return bench if agrees else None


def separate_engine_faults(
    engines: EngineCheck,
    state: State,
    step: Step,
    checks: list[Check],
    certain: Collection[str],
) -> list[Check]:
    """Separate what an engine that rewrites graphs does from what the pass did.

    On the engines of ``certain`` a value inside differs by more than rounding can do.
    """
    asked = [b for b in state.baseline.benches if b.when == "each"]
    opinion = CrossCheck(lambda: _ask_node_by_node(engines, state, step))
    for index, bench in enumerate(state.baseline.benches):
        # Values inside a model do not show how an engine rounds the whole.
        inside = [c for c in checks if c.engine == bench.engine.name and c.scope == "region"]
        failed = any(c.verdict is Verdict.FAILED for c in inside)
        failed &= bench in asked and not bench.node_by_node
        failed &= bench.engine.name not in certain
        if failed and not (is_foreign(bench.engine) and opinion.confirms):
            whole = engines.whole(index, bench, state, step).checks
            checks = [c for c in checks if c not in inside] + whole
    arbiter = Arbiter(state, step.before, step.model, asked, lambda: opinion.contradicts)
    return arbiter.after_pass(checks, step.pass_.contracts(), step.override)


def _ask_node_by_node(
    engines: EngineCheck, state: State, step: Step
) -> tuple[EngineBaseline, RegionFinding | None]:
    """Ask an engine that runs node by node what changed; None if it does not run that."""
    comparing, bench = state.comparing, EngineBaseline(OnnxRuntimeEngine(), "never")
    check = RegionCheck(
        Recorder(bench, engines.settings.memory_limit),
        Baseline(step.before, [bench], list(state.baseline.samples)),
        step.before,
        step.model,
        step.applied,
        [comparing.inside(c, step.override) for c in step.promises],
        untouched=True,
    )
    try:
        return bench, check.run(None) if step.promises else None
    except EngineError:
        return bench, None


def check_original(state: State, settings: Verify) -> None:
    """Raise ReferenceDataError if the original itself breaks the metrics' ranges."""
    if settings.metrics:
        state.baseline.ready("each", "checkpoint", "end")
    # One that the original does not run on checks nothing: another one is there for it.
    for bench in (b for b in state.baseline.benches if b.original):
        for check in state.comparing.metrics(bench, bench.original, ()):
            if check.verdict is not Verdict.PASSED and not check.metrics:
                raise ReferenceDataError(
                    check.reason or "a metric cannot be evaluated",
                    help="give other labels under reference.outputs, or another metric",
                )
            for metric in check.metrics:
                if not metric.passed:
                    raise ReferenceDataError(
                        f"the original itself has {metric.name} {metric.value:g} on "
                        f"{bench.engine.name}, not in [{metric.low:g}, {metric.high:g}]",
                        help=f"equal outputs have {metric.name} inf: allow .inf"
                        if metric.value == math.inf
                        else "correct verify.metrics, or the reference data",
                    )


def check_thresholds(
    state: State, steps: Sequence[tuple[str, str | None, OutputTolerance]] = ()
) -> None:
    """Raise ConfigError if a limit that the user gave lies under the noise."""
    thresholds = state.comparing.thresholds
    if not (thresholds.given or steps) or not state.baseline.samples:
        return
    state.baseline.ready("each", "checkpoint", "end")
    for bench in list(state.baseline.benches):
        if bench.ran:
            thresholds.refuse(state.comparing.noise.of(bench), state.baseline.unstable, steps)


def check_end(state: State, model: ir.Model, moments: Sequence[str]) -> list[Check]:
    """Hold a whole model against the original, on the engines of the given moments.

    Nothing is run if no pass changed what is computed.
    """
    asked = [b for b in state.baseline.benches if b.when in moments]
    if not state.moved:
        reason = "not run: no pass changed what is computed"
        names = [bench.engine.name for bench in asked]
        return [Check("drift", Verdict.UNCHANGED, name, reason=reason) for name in names]
    checks: list[Check] = []
    for bench in asked:
        if found := _against_plain(bench, state, model):
            checks += found
            continue
        state.baseline.ready(bench.when)
        if bench.when in moments:
            found = run_end(bench, state, model)
            again = is_in_doubt(state, bench, found)
            checks += run_end(bench, state, model) if again else found
    asked = [b for b in asked if b.ran and b.when in moments]
    if state.at_origin or state.origin is not None:
        return checks
    return Arbiter(state, state.original.model, model, asked).at_end(checks)


def _stage(bench: EngineBaseline) -> str:
    return f"{RESULT} on {bench.engine.name}"


def _against_plain(bench: EngineBaseline, state: State, model: ir.Model) -> list[Check]:
    """Hold a result on ONNX Runtime against the original as another bench runs it, as written.

    If they agree, the original need not run once more. Nothing if they do not.
    """
    baseline, comparing = state.baseline, state.comparing
    plain = next((b for b in baseline.benches if b.ran and b.node_by_node), None)
    moved_on = state.at_origin or state.origin is not None
    if plain is None or bench.ran or moved_on or comparing.truth.wanted:
        return []
    if is_foreign(bench.engine) or is_foreign(plain.engine):
        return []
    start, name = time.perf_counter(), label(AHEAD, bench.engine.name)
    if avoided(name):
        return []
    try:
        with running(name):
            produced = bench.run(model, baseline.samples)
    except EngineError:
        return []
    check = comparing.drift(bench, plain.original, produced)
    if check.verdict is not Verdict.PASSED:
        return []
    told = skipped_optimizations(bench.engine, model)
    baseline.notes += [note for note in told if note not in baseline.notes]
    return [replace(check, reason=AS_WRITTEN, seconds=time.perf_counter() - start)]


def run_end(bench: EngineBaseline, state: State, model: ir.Model) -> list[Check]:
    """Hold a whole model against the original on one engine."""
    name, samples = bench.engine.name, state.baseline.samples
    if not samples:
        reason = "there are no reference samples"
        return [Check("equality", Verdict.NOT_VERIFIED, name, reason=reason)]
    start = time.perf_counter()
    try:
        with running(_stage(bench)):
            produced = bench.run(model, samples)
        origin = None
        if state.at_origin:
            origin = produced
        elif state.origin is not None:
            origin = bench.run(state.origin.model, samples)
    except EngineError as error:
        failed = does_not_run("equality", bench, error)
        if state.baseline.leave_out_empty(bench, model, str(failed.reason)):
            return run_end(bench, state, model)
        return [replace(failed, seconds=time.perf_counter() - start)]
    seconds = time.perf_counter() - start
    checks = state.comparing.end(bench, origin, produced, model, vouched=state.vouched)
    checks[0] = replace(checks[0], seconds=checks[0].seconds + seconds)
    return checks


def check_deployed(
    state: State, model: ir.Model, found: Sequence[Check]
) -> tuple[State, list[Check]]:
    """Run the result on ONNX Runtime as it is deployed, and where it differs the original.

    All optimizations, copies of weights and the threads of the machine are on. The smallest
    sample is run. Where the result is farther from the original than the limits, both are run
    so. Where they are farther apart than the limits, and than this form of ONNX Runtime is
    from the other on the original, it joins the engines of the pipeline. The check is missing
    if the pipeline leaves out what ONNX Runtime rewrites, or if nothing is computed
    differently.
    """
    baseline, comparing = state.baseline, state.comparing
    asked = {b.engine: b for b in baseline.benches if b.when != "never"}
    runtimes = [e for e in asked if isinstance(e, OnnxRuntimeEngine)]
    plain = next((b for e in runtimes if (b := asked[e]).ran and e.node_by_node), None)
    whole = next((engine for engine in runtimes if engine.optimization == "all"), None)
    if plain is None or whole is None or not state.moved or state.at_origin:
        return state, []
    engine = replace(whole, threads=0, prepacking=True)
    if engine in asked:
        return state, []
    place = min(
        (i for i, feeds in enumerate(baseline.samples) if _is_usual(feeds)),
        key=lambda i: elements_of(baseline.samples[i]),
        default=None,
    )
    if place is None:
        return state, []
    bench, sample, start = (
        EngineBaseline(engine, "end"),
        [baseline.samples[place]],
        time.perf_counter(),
    )
    if state.original.weight_bytes > comparing.settings.memory_limit:
        told = "the result was not run as deployed: copies of weights exceed"
        baseline.notes.append(f"{told} verify.memory_limit")
        return state, []
    limits, known = comparing.thresholds.drift(), [plain.original[place]]
    refused: EngineError | None = None
    try:
        new = bench.run_anew(model, sample)
    except EngineError as error:
        refused, new = error, []
    if state.origin is None and refused is None:
        check = comparing.compare(ENGINE, bench, known, new, *limits)
        if check.verdict is not Verdict.FAILED:
            seconds = time.perf_counter() - start
            return state, [replace(check, reason=AS_WRITTEN, seconds=seconds)]
    origin = state.original if state.origin is None else state.origin
    try:
        old = bench.run_anew(origin.model, sample)
    except EngineError as error:
        baseline.notes.append(f"the original does not run as deployed: {error.message}")
        return state, []
    if refused is not None:
        return state, [does_not_run(ENGINE, bench, refused)]
    check = comparing.compare(ENGINE, bench, old, new, *limits)
    if check.verdict is Verdict.FAILED and state.origin is None:
        check = _within(check, comparing.compare(ENGINE, bench, known, old, *limits))
    if check.verdict is not Verdict.FAILED:
        return state, [replace(check, seconds=time.perf_counter() - start)]
    baseline.benches.append(bench)
    state = replace(state, known=(*state.known, EngineState()))
    baseline.ready("end")
    checks = [*found, *run_end(bench, state, model)]
    arbiter = Arbiter(state, state.original.model, model, [plain, bench])
    return state, arbiter.at_end(checks)[len(found) :]


def _is_usual(feeds: Feeds) -> bool:
    """Whether a sample has no special values; a batch of one is what is deployed most."""
    return not isinstance(feeds, AdversarialFeeds) or feeds.kind == "size 1"


def _within(check: Check, own: Check) -> Check:
    """Pass a check of outputs that differ no more than those of the original itself."""
    most = {o.output: o.max_abs or 0.0 for o in own.outputs}
    for output in check.outputs:
        size, share = output.max_abs, output.share
        finite = share is not None and share < math.inf
        near = size is not None and size <= most.get(output.output, 0.0)
        if not output.passed and not (finite and near):
            return check
    outputs = tuple(replace(output, passed=True) for output in check.outputs)
    told = "no farther apart than the original is from itself without optimizations"
    return replace(check, verdict=Verdict.PASSED, reason=told, outputs=outputs, sample=None)
