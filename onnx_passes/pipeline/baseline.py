"""The original model on every engine: what passes are held against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_passes.config.engines import EngineStep
from onnx_passes.contracts import Equality
from onnx_passes.errors import EngineError, EngineUnavailableError, UnsupportedModelError
from onnx_passes.passes._support.randomness import RANDOM, Determinism
from onnx_passes.passes._support.scopes import nodes_within
from onnx_passes.runtime.base import Engine, Feeds, Outputs
from onnx_passes.runtime.reference import ReferenceEngine
from onnx_passes.surgery.walk import captured_values
from onnx_passes.verify.compare import compare


@dataclass
class Bench:
    """One engine, and what it gave for the reference samples.

    Attributes:
        engine: The engine that runs.
        when: "each", "checkpoint" or "end".
        fallback_for: Why it stands in for the engine asked for, as a sentence.
        original: Outputs of the original model, by sample.
        accepted: Outputs of the last model that was accepted, by sample.
        stale: Whether a later model was accepted without a run of the whole.
    """

    engine: Engine
    when: str
    fallback_for: str | None = None
    original: list[Outputs] = field(default_factory=list)
    accepted: list[Outputs] = field(default_factory=list)
    stale: bool = False

    def run(self, model: ir.Model, samples: Sequence[Feeds]) -> list[Outputs]:
        """Return the outputs of ``model`` for every sample."""
        with self.engine.prepare(model) as session:
            return [session.run(feeds) for feeds in samples]


@dataclass
class Baseline:
    """The engines at work, the samples, and what cannot be compared.

    Attributes:
        benches: One for every engine.
        samples: The inputs; those on which the original does not run are left out.
        unstable: Outputs in which two runs of the original differ.
        notes: What a user should know of the above, a sentence each.
    """

    benches: list[Bench]
    samples: list[Feeds]
    unstable: frozenset[str] = frozenset()
    notes: list[str] = field(default_factory=list)


def establish(
    model: ir.Model, samples: Sequence[Feeds], engines: Sequence[EngineStep], *, given: bool
) -> Baseline:
    """Run the original model once on every engine.

    An engine that cannot run it is replaced by onnx's reference evaluator if that can, and the
    baseline says so.

    Args:
        model: The original.
        samples: Reference inputs.
        engines: The engines asked for.
        given: Whether the user gave the samples; one that does not run is then an error.

    Raises:
        EngineError: Neither the engine nor the reference evaluator can run the original.
        EngineUnavailableError: An engine is not on this machine: nothing stands in for it.
    """
    baseline = Baseline([], list(samples))
    for step in engines:
        bench = Bench(step.engine, step.when)
        try:
            _first_run(bench, model, baseline, given=given)
        except EngineUnavailableError:
            raise
        except EngineError as error:
            reason = f"{bench.engine.name} cannot run the original: {error.message}"
            bench = Bench(ReferenceEngine(), step.when, fallback_for=reason)
            if any(b.engine == bench.engine for b in baseline.benches):
                continue  # it checks each pass already, and so the end
            try:
                _first_run(bench, model, baseline, given=given)
            except EngineError:
                raise error from None
            baseline.notes.append(f"{reason}; {bench.engine.name} stands in for it")
        baseline.benches.append(bench)
    for bench in baseline.benches:
        bench.original = bench.original[: len(baseline.samples)]
        bench.accepted = list(bench.original)
    suspects = _suspects(model)
    if suspects:
        baseline.unstable = _random_outputs(model, suspects) | _unstable(model, baseline)
    return baseline


def _suspects(model: ir.Model) -> list[ir.Node]:
    determinism = Determinism(model)
    return [n for n in model.graph if not determinism.holds(n, model.opset_imports)]


def _random_outputs(model: ir.Model, suspects: Sequence[ir.Node]) -> frozenset[str]:
    """Return the outputs that depend on random numbers drawn without a seed.

    ONNX Runtime draws the same ones for the same graph, and others for one with fewer nodes:
    two runs of the original do not show it, and a pass is not to blame for it.
    """
    random: set[ir.Value] = set()
    for node in model.graph:
        draws = node in suspects and (
            node.op_identifier() in model.functions or any(map(_draws, nodes_within(node)))
        )
        read = (*node.inputs, *captured_values(node))
        if draws or any(value in random for value in read):
            random.update(node.outputs)
    return frozenset(str(v.name) for v in model.graph.outputs if v in random)


def _draws(node: ir.Node) -> bool:
    known = node.domain == "" and (node.op_type in RANDOM or node.op_type == "Dropout")
    return known and "seed" not in node.attributes


def _first_run(bench: Bench, model: ir.Model, baseline: Baseline, *, given: bool) -> None:
    if not baseline.samples:
        bench.original = []
        return
    try:
        bench.original = bench.run(model, baseline.samples)
    except UnsupportedModelError:
        raise
    except EngineError as error:
        if given:
            raise EngineError(
                f"{bench.engine.name} cannot run the original model on the reference inputs: "
                f"{error.message}",
                help="correct the inputs under 'reference', or the model",
            ) from error
        _drop_failing(bench, model, baseline, error)


def _drop_failing(
    bench: Bench, model: ir.Model, baseline: Baseline, error: EngineError
) -> None:
    """Keep the generated samples that the original runs on."""
    kept: list[Feeds] = []
    bench.original = []
    with bench.engine.prepare(model) as session:
        for index, feeds in enumerate(baseline.samples):
            try:
                bench.original.append(session.run(feeds))
            except EngineError as failure:
                error = failure
                for other in baseline.benches:
                    del other.original[len(kept)]
                baseline.notes.append(
                    f"generated sample {index} does not run on {bench.engine.name}: "
                    f"{failure.message}"
                )
            else:
                kept.append(feeds)
    if not kept:
        raise EngineError(
            f"{bench.engine.name} cannot run the original model on generated inputs: "
            f"{error.message}",
            help="give inputs that it can take under 'reference: {inputs: ...}'",
        ) from error
    baseline.samples = kept


def _unstable(model: ir.Model, baseline: Baseline) -> frozenset[str]:
    found: set[str] = set()
    for bench in baseline.benches:
        again = bench.run(model, baseline.samples)
        for first, second in zip(bench.original, again, strict=True):
            checks = compare(first, second, Equality())
            found.update(
                check.output.partition("[")[0] for check in checks if not check.passed
            )
    return frozenset(found)
