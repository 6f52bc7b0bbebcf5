"""The gate after every pass: structure, interface, annotations, evidence, next state.

The original is called through the interface that a pass gave the model. The conclusion gives
the evidence for each application, and the state that comes next.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.configs.engine_configs import resolve_engines
from onnx_passes.configs.resolve import GroupStep, PassStep, ResolvedPipeline, ResolvedStep
from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.configs.sections import OutputTolerance, Verify
from onnx_passes.configs.sections import Reference as Settings
from onnx_passes.contracts import Metric
from onnx_passes.errors import EngineError, OnnxPassesError, ReferenceDataError
from onnx_passes.model.copy import copy_model
from onnx_passes.model.walk import all_graphs, node_operator, nodes_of
from onnx_passes.ops.node_queries import RANDOM, RANDOM_CONTRIB, may_draw
from onnx_passes.passes.base import Pass
from onnx_passes.passes.context import Application, InterfaceMap, Port
from onnx_passes.pipeline.arbitration import (
    check_deployed,
    check_end,
    check_original,
    check_thresholds,
    separate_engine_faults,
)
from onnx_passes.pipeline.baseline import Baseline, ask_again
from onnx_passes.pipeline.compiling_engines import CompiledLevels, begin
from onnx_passes.pipeline.engine_check import EngineCheck, Step, with_observability
from onnx_passes.pipeline.noise import Noise
from onnx_passes.pipeline.observability import can_see
from onnx_passes.pipeline.output_checks import OutputComparison
from onnx_passes.pipeline.random_values import Allowance
from onnx_passes.pipeline.samples import (
    make_generated,
    make_special,
    make_substitutes,
    name_special,
    prepare_baseline,
    roll_out,
)
from onnx_passes.pipeline.state import Checked, EngineState, State
from onnx_passes.report.run_report import EngineReport, ReferenceReport, RunReport
from onnx_passes.report.text import bound
from onnx_passes.risky_runs import INPUTS, RESULT, running
from onnx_passes.runtime.engine_base import (
    Engine,
    Feeds,
    GeneratedFeeds,
    Outputs,
    only_compiles,
)
from onnx_passes.runtime.engine_models import keep_split
from onnx_passes.runtime.inputs import (
    AdversarialFeeds,
    describe_feeds,
    generate,
    name_of,
    without_crashes,
)
from onnx_passes.runtime.inputs.dimensions import symbols_of
from onnx_passes.runtime.inputs.seeded_feeds import (
    Feed,
    given_steps,
    run_steps,
)
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.runtime.reference import ReferenceEngine
from onnx_passes.verify.evidence import (
    BY_STRUCTURE,
    Check,
    Evidence,
    Kind,
    Verdict,
    each_application_executed,
)
from onnx_passes.verify.obligations import compute_alike
from onnx_passes.verify.recording import inlined
from onnx_passes.verify.reference_data import ReferenceData, check_feeds, load_reference
from onnx_passes.verify.region import boundary_of, changed_region, run_nodes
from onnx_passes.verify.snapshot import (
    Change,
    Interface,
    Snapshot,
    compare_interfaces,
    interface_of,
)
from onnx_passes.verify.validity import Opening, check_validity, operators_without_engine
from onnx_passes.verify.well_formed import (
    CheckedNodes,
    check_structure,
    find_wrong_annotations,
    first_few,
    named_sizes,
    without_names,
)


def follow_interface(state: State, before: ir.Model, model: ir.Model) -> State:
    """Keep the samples that a new interface admits, or make new ones."""
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
    are the defaults, which the checks of the pass find out. Returns the model itself if there
    are no such inputs, else a copy.
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
        replace(bench, original=outputs, _known=[])
        for bench, (outputs, _) in zip(state.baseline.benches, known, strict=True)
    ]
    old = state.baseline
    baseline = Baseline(original.model, benches, samples, old.given, unstable, old.notes)
    baseline.unstable, baseline.deterministic = unstable, old.deterministic
    return replace(
        state,
        comparing=state.comparing.moved_to(baseline, original, labels),
        known=tuple(
            EngineState(samples, accepted, None, before.budget)
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
    return GeneratedFeeds(found, feeds.label) if isinstance(feeds, GeneratedFeeds) else found


def _outputs(values: Mapping[str, Any], port: Port) -> dict[str, Any]:
    return dict(port(name, value) for name, value in values.items())


def check_annotations(
    engines: EngineCheck, state: State, before: ir.Model, model: ir.Model
) -> tuple[Check, State]:
    """Hold the types and shapes that a pass noted against the values that were seen.

    Values that are recorded for this are those of the next passes, too.
    """
    start = time.perf_counter()
    index = next((i for i, b in enumerate(state.baseline.benches) if b.when == "each"), None)
    recorded = None if index is None else state.of(index).recorded
    if index is not None and recorded is None and state.baseline.samples:
        recorder = engines.recorder(state.baseline.benches[index])
        recorded = recorder.obtain(
            None, inlined(model), state.baseline, frozenset(), untouched=not state.moved
        )
        state = state.knowing(index, replace(state.of(index), recorded=recorded))
    wrong: list[str] = []
    if recorded is not None:
        wrong = find_wrong_annotations(
            before,
            model,
            recorded.samples,
            lambda node, row: _standard_results(model, node, row),
        )
    verdict = Verdict.FAILED if wrong else Verdict.PASSED
    reason = "; ".join(wrong[:3]) or None
    if recorded is None:
        reason = "types and shapes were not held against values: none were recorded"
    check = Check("annotations", verdict, reason=reason, seconds=time.perf_counter() - start)
    return check, state


def _standard_results(
    model: ir.Model, node: ir.Node, row: Mapping[str, Array]
) -> Outputs | None:
    """Return what the standard makes of a node's operands; None if one is not known.

    Samples leave inputs to their defaults, and large values out of recordings.
    """
    defaults = {v.name: v.const_value for v in model.graph.inputs}
    known: dict[str, Array] = {}
    for name in boundary_of([node]):
        if name in row:
            known[name] = row[name]
        elif (tensor := defaults.get(name)) is not None:
            known[name] = tensor.numpy()
        else:
            return None
    return run_nodes(ReferenceEngine(), model, [node], [known])[0]


ONLY_NAMES = "only names, order or metadata changed"
DEFAULTS_FIXED = "inputs that had defaults are weights of the same content"


def only_renamed(
    state: State, step: Step, checks: list[Check], what: str = ONLY_NAMES
) -> Checked:
    """Say that nothing changed that is computed, so that nothing has to be run."""
    region = changed_region(step.before, step.model)
    if region is None or region.nodes:
        state = state.without_recordings()  # values have other names
    reason = f"{what}: nothing was run"
    evidence = [Evidence(step.pass_.name, Kind.PROVED, step.numbers, reason=BY_STRUCTURE)]
    found = Check("equality", Verdict.PASSED, scope="structure", reason=reason)
    return Checked([*checks, found], evidence, state)


def conclude(
    state: State,
    step: Step,
    checks: list[Check],
    evidence: list[Evidence],
    change: Change,
    *,
    charged: bool,
) -> Checked:
    """Return what follows, with the state in which the model is the accepted one."""
    if any(check.verdict is Verdict.FAILED for check in checks):
        return Checked(checks, evidence, state.distrusted(checks))
    spent = {check.engine: check.budget for check in checks}
    known = tuple(
        replace(k, budget=k.budget.charged(spent.get(b.engine.name, ()), moved=not charged))
        for b, k in state.pairs()
    )
    moves = change is Change.COMPUTATION
    by_metric = any(isinstance(c, Metric) for c in step.pass_.contracts())
    measured = by_metric and any(check.metrics for check in checks)
    state = replace(
        state,
        known=known,
        moved=state.moved or moves,
        vouched=state.vouched
        and (not moves or (step.by_type and each_application_executed(evidence))),
        at_origin=measured and not step.promises,
    )
    return Checked(checks, evidence, state)


@dataclass
class Gate:
    """Holds a model against the one before it, and against the original.

    ``faults`` counts what was wrong with the structure of the original, without names.
    ``checked`` are nodes and tensors that onnx's checker has accepted. ``opening`` leaves out
    what no engine runs.
    """

    settings: Verify
    state: State
    faults: Counter[str] = field(default_factory=Counter)
    levels: CompiledLevels = field(default_factory=CompiledLevels)
    opening: Opening = field(default_factory=Opening)
    allowance: Allowance = field(init=False)
    engines: EngineCheck = field(init=False)
    checked: CheckedNodes = field(default_factory=CheckedNodes)

    def __post_init__(self) -> None:
        self.allowance = Allowance(self.settings.drawn_parts)
        self.engines = EngineCheck(self.settings, self.allowance)

    @classmethod
    def begin(
        cls,
        settings: Verify,
        baseline: Baseline,
        original: Snapshot,
        labels: Sequence[Outputs] | None = None,
        faults: Sequence[str] = (),
        levels: CompiledLevels | None = None,
        opening: Opening | None = None,
    ) -> Gate:
        """Return the gate of a run whose original has not been touched yet."""
        comparing = OutputComparison(settings, baseline, original, labels)
        levels = levels or CompiledLevels()
        levels.comparing = comparing
        state = State(comparing, tuple(EngineState() for _ in baseline.benches))
        known = Counter(map(without_names, faults))
        return cls(settings, state, known, levels, opening or Opening())

    @property
    def baseline(self) -> Baseline:
        return self.state.baseline

    @property
    def original(self) -> Snapshot:
        """The original, as it is called through the interface that passes gave the model."""
        return self.state.original

    @property
    def labels(self) -> Sequence[Outputs] | None:
        return self.state.labels

    @property
    def noise(self) -> Noise:
        return self.state.comparing.noise

    def keep(self, checked: Checked) -> None:
        """Hold the next pass against the model that was checked."""
        assert checked.state is not None, "this gate checked it"
        self.state = checked.state

    @ask_again
    def check(
        self,
        pass_: Pass,
        before: Snapshot,
        model: ir.Model,
        change: Change,
        override: OutputTolerance | None = None,
        applied: Sequence[Application] = (),
    ) -> Checked:
        """Put all questions that a pass must answer, the cheapest first.

        Numbers are only compared where the structure is sound. Nothing is kept by this.
        """
        state = self.state
        if state.at_origin:
            state = replace(state, origin=before, at_origin=False)
        old, new = interface_of(before.model), interface_of(model)
        checks = [self.structure(model), self.interface(pass_, old, new)]
        if any(check.verdict is Verdict.FAILED for check in checks):
            return Checked(checks, [], state.distrusted(checks))
        compiled = before.model, model
        try:
            before, model = self._opened(before), self.opening.open(model)
        except OnnxPassesError as error:
            checks.append(Check("equality", Verdict.NOT_VERIFIED, reason=error.message))
            return Checked(checks, [], state.distrusted(checks))
        # A pass may also give inputs another meaning under the same names, types and shapes.
        mapped = pass_.interface_map(before.model) if pass_.interface_changes else None
        called = mapped is not None or (bool(pass_.interface_changes) and new != old)
        step = Step(pass_, before.model, model, override, applied)
        if change is Change.NAMES and not called and compute_alike(before.model, model):
            return only_renamed(state, step, checks)
        charged = bool(step.promises)
        if called:
            charged = False
            if mapped is None:
                state = follow_interface(state, before.model, model)
                step = replace(step, before=with_fixed_defaults(before.model, model))
                if step.before is not before.model and compute_alike(step.before, model):
                    return only_renamed(state, step, checks, DEFAULTS_FIXED)
            else:
                state = translate(state, mapped, before.model)
                step = replace(step, translated=True)
        if sum(bench.when == "each" for bench in state.baseline.benches) > 1:
            state.baseline.ready("each")  # one may leave out samples that others would record
        if _draws(before.model) != _draws(model):
            state.baseline.distrust_random(before.model, model)
        evidence: list[Evidence] = []
        certain: set[str] = set()
        for index, bench in enumerate(state.baseline.benches):
            if bench.when == "each":
                found = self.engines.check(index, bench, state, step)
                certain |= {bench.engine.name} if found.certain else set()
                checks += found.checks
                evidence = evidence or found.evidence
                state = state.knowing(index, found.known)
        if not called:
            checks = separate_engine_faults(self.engines, state, step, checks, certain)
        checks += self.levels.check(*compiled, "each")
        if not called and all(check.verdict is not Verdict.FAILED for check in checks):
            state, regions, known = self._by_region(state, step)
            checks += regions
            evidence = evidence or self._with_sight(known, state, step)
        if change is Change.ANNOTATIONS and not called:
            check, state = check_annotations(self.engines, state, before.model, model)
            checks.append(check)
        return conclude(state, step, checks, evidence, change, charged=charged)

    def _by_region(
        self, state: State, step: Step
    ) -> tuple[State, list[Check], list[Evidence]]:
        """Run what the pass changed on engines that compile, now or when they are asked."""
        if self.settings.scope == "model":
            return state, [], []
        promises = [state.comparing.inside(c, step.override) for c in step.promises]
        models = step.before, step.model
        engine = next((b.engine for b in state.baseline.benches if b.node_by_node), None)
        batch = self.levels.change(
            step.pass_.name, models, step.applied, promises, engine or OnnxRuntimeEngine()
        )
        if batch is None:
            return state, [], []
        changes = self.levels.later(state.changes, batch, self.settings.memory_limit)
        state = replace(state, changes=changes)
        return state, *self.levels.by_region([batch], "each")

    def _with_sight(self, known: list[Evidence], state: State, step: Step) -> list[Evidence]:
        """Ask whether the outputs can see what no region vouches for; any engine will do."""
        if all(one.kind is not Kind.OUTPUTS_ONLY for one in known):
            return known
        sample, unstable = state.baseline.samples[0], state.baseline.unstable
        sees = can_see(OnnxRuntimeEngine(), step.before, step.model, sample, unstable)
        return [
            with_observability(one, sees) if one.kind is Kind.OUTPUTS_ONLY else one
            for one in known
        ]

    def structure(self, model: ir.Model) -> Check:
        """Ask whether the model is valid, apart from what was wrong with it before."""
        start = time.perf_counter()
        faults = check_structure(model, known=self.checked)
        found = Counter(map(without_names, faults))
        # Passes that rename nodes and values change the text of what was wrong before.
        faults = [f for f in faults if found[one := without_names(f)] > self.faults[one]]
        return Check(
            "structure",
            Verdict.FAILED if faults else Verdict.PASSED,
            reason="; ".join(first_few(faults)) or None,
            seconds=time.perf_counter() - start,
        )

    def interface(self, pass_: Pass, old: Interface, new: Interface) -> Check:
        """Ask whether the model is called as before, apart from what the pass declares."""
        changes = compare_interfaces(old, new, pass_.interface_changes)
        verdict = Verdict.FAILED if changes else Verdict.PASSED
        return Check("interface", verdict, reason="; ".join(changes) or None)

    def only_amplifies(self, check: Check, evidence: Sequence[Evidence] | None = None) -> bool:
        """Whether outputs drift beyond a default, though each change agrees by itself."""
        vouched = self.state.vouched and (
            evidence is None or each_application_executed(evidence)
        )
        held = self.state.comparing.thresholds.holds(check.kind)
        shares = [output.share for output in check.outputs]
        finite = bool(shares) and all(s is None or math.isfinite(s) for s in shares)
        return vouched and check.kind == "drift" and not held and finite

    @ask_again
    def against_original(self, model: ir.Model, moments: Sequence[str]) -> list[Check]:
        """Hold a whole model against the original, on the engines of the given moments."""
        try:
            model = self.opening.open(model)
        except OnnxPassesError as error:
            return [Check("drift", Verdict.NOT_VERIFIED, reason=error.message)]
        with self.running(RESULT):
            checks = check_end(self.state, model, moments)
            if "end" in moments and all(c.verdict is Verdict.PASSED for c in checks):
                self.state, deployed = check_deployed(self.state, model, checks)
                checks += deployed
        return checks

    def _opened(self, snapshot: Snapshot) -> Snapshot:
        return (
            Snapshot(self.opening.open(snapshot.model)) if self.opening.operators else snapshot
        )

    @contextmanager
    def running(self, name: str) -> Iterator[None]:
        """Note what a check is called until the block ends, should it end the process."""
        special = any(isinstance(s, AdversarialFeeds) for s in self.baseline.samples)
        with running(name), running(INPUTS) if special else nullcontext():
            yield


def _draws(model: ir.Model) -> frozenset[tuple[str, str]]:
    """Return the random nodes of a model, by operator and the value that gives their seed."""
    return frozenset(
        (node.op_type, str(node.outputs[0].name))
        for graph in all_graphs(model)
        for node in nodes_of(graph)
        if node_operator(node)[1] in _RANDOM and may_draw(node)
    )


_RANDOM = RANDOM | RANDOM_CONTRIB


STEPS = "steps"
"""Scope of a check in which each step reads what the step before it made."""


def drift_along_steps(gate: Gate, model: ir.Model, settings: Settings) -> list[Check]:
    """Run the original and the result each on its own states, and compare each step.

    Reference inputs hold the original's states at each step, so that a fault is seen where it
    is made. What errors add up to where they are fed back only a run of its own shows. Returns
    a check for each engine that executes; none without steps.
    """
    if settings.steps is None or not gate.state.moved:
        return []
    baseline, comparing = gate.baseline, gate.state.comparing
    samples = list(baseline.samples[: settings.steps])
    found: list[Check] = []
    for bench in (b for b in baseline.benches if b.when != "never"):
        name = bench.engine.name
        if interface_of(model) != interface_of(baseline.model):
            reason = "the interface changed: states are not fed back"
            found.append(Check("drift", Verdict.NOT_VERIFIED, name, STEPS, reason))
            continue
        try:
            expected = _free(baseline.model, bench.engine, samples, settings.feed)
            actual = _free(model, bench.engine, samples, settings.feed)
        except EngineError as error:
            found.append(Check("drift", Verdict.FAILED, name, STEPS, error.message))
            continue
        limits = comparing.thresholds.drift()
        check = comparing.compare("drift", bench, expected, actual, *limits)
        if check.verdict is Verdict.PASSED:
            check = replace(check, reason=_told(expected, actual))
        found.append(replace(check, scope=STEPS))
    return found


def _free(
    model: ir.Model, engine: Engine, samples: Sequence[Feeds], feed: Feed
) -> list[Outputs]:
    """Return the outputs of each step, where a model reads the states that it made."""
    with engine.prepare(model) as session:
        return run_steps(session, len(samples), feed, given_steps(samples))[1]


def _told(expected: Sequence[Outputs], actual: Sequence[Outputs]) -> str:
    """Say how far apart the steps are: the first, the farthest and the last."""
    apart = [_apart(old, new) for old, new in zip(expected, actual, strict=True)]
    shown = sorted({0, int(np.argmax(apart)), len(apart) - 1})
    steps = ", ".join(f"{bound(apart[step])} at step {step}" for step in shown)
    return f"on its own states: apart by {steps}"


def _apart(old: Outputs, new: Outputs) -> float:
    found = 0.0
    for name, value in old.items():
        if isinstance(value, np.ndarray) and value.dtype.kind in "fV":
            one, other = (np.asarray(v).astype(np.float64) for v in (value, new[name]))
            gaps = np.abs(one - other)[np.isfinite(one) & np.isfinite(other)]
            found = max(found, float(gaps.max(initial=0.0)))
    return found


def make_gate(
    original: Snapshot,
    config: PipelineConfig,
    pipeline: ResolvedPipeline,
    report: RunReport,
    reference: ReferenceData | None,
) -> Gate:
    """Return what checks the passes of a run, with the engines and samples of the pipeline.

    ``report`` gets notes, engines, and the source of the samples.
    """
    model = whole = original.model
    keep_split(model)
    if reference is None:
        spec = config.reference.model_dump()
        reference = load_reference(spec, model, config.folder or Path())
    engines = resolve_engines(config)
    executing = [step.engine for step in engines if not only_compiles(step.engine)]
    opening = Opening.of(model, operators_without_engine(model, executing))
    if opening.operators:
        original = Snapshot(opening.open(model))
        reference = _with_results(original.model, config, reference)
        report.notes.append(
            f"no engine runs {opening.names}: all else is verified, on drawn values in place "
            "of its results; a library under onnxruntime.custom_ops, or a function of the "
            "model with its body, verifies it, too"
        )
    model = original.model
    invalid = check_validity(
        model,
        executing,
        allow_invalid=config.verify.allow_invalid,
        where=report.model,
    )
    report.notes += invalid
    given = bool(reference.samples)
    made = [] if given else make_generated(model, config.reference)
    special = make_special(model, config, reference.samples, made)
    if made:
        source = f"generated (seed {config.reference.seed})"
        samples = without_crashes(made)
        reference = ReferenceData(samples, reference.expected, source)
    if config.reference.steps is not None:
        reference = roll_out(model, config.reference, reference, engines, given=given)
    baseline = prepare_baseline(
        model,
        reference.samples,
        engines,
        given=given,
        special=special,
        substitutes=make_substitutes(model, config),
    )
    faults = check_structure(whole) if invalid or opening.operators else []
    told = [] if invalid else first_few(faults)
    report.notes += [f"the original is not valid ONNX: {fault}" for fault in told]
    others = [name for name, _ in config.onnxruntime.providers[1:]]
    if others:
        first = config.onnxruntime.providers[0][0]
        report.notes.append(f"of onnxruntime.providers only {first} is used, not {others}")
    report.reference = ReferenceReport(
        source=f"{reference.source}{name_special(special)}",
        samples=len(baseline.samples),
        inputs=describe_feeds(baseline.samples[0]) if baseline.samples else {},
        names=[name_of(feeds) or "" for feeds in baseline.samples] if special else [],
    )
    labels = reference.expected
    levels = begin(whole, baseline.samples, engines)
    gate = Gate.begin(config.verify, baseline, original, labels, faults, levels, opening)
    if opening.operators:
        baseline.unheard.append(f"no engine runs {opening.names}")
    check_original(gate.state, gate.settings)
    check_thresholds(gate.state, _own_tolerances(pipeline.steps))
    report_baseline(report, gate)
    return gate


def _with_results(
    model: ir.Model, config: PipelineConfig, reference: ReferenceData
) -> ReferenceData:
    """Return reference data with drawn values of the inputs that opening a model adds."""
    settings, samples = config.reference, list[Feeds]()
    named = symbols_of(model.graph.inputs, model).kinds  # formulas follow from them
    for given in reference.samples:
        sizes = named_sizes(model.graph.inputs, given).items()
        dims = {**settings.dims, **{n: size for n, size in sizes if n in named}}
        (made,) = make_generated(
            model, settings.model_copy(update={"samples": 1, "dims": dims})
        )
        samples.append({**made.feeds, **given})
    return replace(reference, samples=samples, expected=None)


def _own_tolerances(
    steps: Sequence[ResolvedStep],
) -> list[tuple[str, str | None, OutputTolerance]]:
    """Return the passes with a tolerance of their own: name, place, tolerance."""
    found: list[tuple[str, str | None, OutputTolerance]] = []
    for step in steps:
        if isinstance(step, GroupStep):
            found += _own_tolerances(step.steps)
        elif isinstance(step, PassStep) and step.tolerance is not None:
            found.append((step.text, step.where, step.tolerance))
    return found


def report_baseline(report: RunReport, gate: Gate, result: ir.Model | None = None) -> None:
    """Report what is known of engines and samples, which is more once the original ran."""
    baseline = gate.baseline
    report.engines = [
        EngineReport(
            b.engine.name,
            b.when,
            b.engine.describe(),
            b.fallback_for,
            spreads=gate.noise.spreads(b),
        )
        for b in baseline.benches
        if b.when != "never"
    ]
    report.engines += gate.levels.reports(result)
    told = [*baseline.notes, *filter(None, [b.note for b in baseline.benches])]
    told += filter(None, [gate.allowance.note])
    report.notes += [note for note in told if note not in report.notes]
    if report.reference is not None:
        report.reference.samples = len(baseline.samples)
        chosen = baseline.substitutes.chosen if baseline.substitutes is not None else None
        if chosen is not None and chosen.text not in report.reference.source:
            # They stand in place of all that was generated, other sizes included.
            seed = baseline.substitutes.seed if baseline.substitutes is not None else 0
            report.reference.source = f"generated (seed {seed}), {chosen.text}"
            report.reference.inputs = describe_feeds(chosen.samples[0])
        if report.reference.names:
            report.reference.names = [name_of(feeds) or "" for feeds in baseline.samples]
