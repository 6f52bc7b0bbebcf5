"""Set up the baseline of a model: the engines beside the original."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnx_passes.configs.engine_configs import EngineStep
from onnx_passes.pipeline.baseline import Baseline
from onnx_passes.pipeline.engine_side import Bench
from onnx_passes.runtime.engine_base import Feeds, only_compiles
from onnx_passes.runtime.inputs import Substitutes


def prepared(
    model: ir.Model,
    samples: Sequence[Feeds],
    engines: Sequence[EngineStep],
    *,
    given: bool,
    special: Sequence[Feeds] = (),
    substitutes: Substitutes | None = None,
) -> Baseline:
    """Put the engines beside the original; what shows without running it is asked here.

    Args:
        model: The original.
        samples: Reference inputs.
        engines: The engines asked for; those that only compile are left out.
        given: Whether the user gave the samples; one that does not run is then an error.
        special: Samples of special values, which may fail to run.
        substitutes: Other inputs, where the samples are generated and none of them runs.

    Raises:
        EngineUnavailableError: An engine is not on this machine: nothing stands in for it.
    """
    engines = [step for step in engines if not only_compiles(step.engine)]
    for step in engines:
        step.engine.describe()
    benches = [Bench(step.engine, step.when) for step in engines]
    baseline = Baseline(model, benches, [*samples, *special], given)
    baseline.substitutes = None if given else substitutes
    return baseline


def establish(
    model: ir.Model,
    samples: Sequence[Feeds],
    engines: Sequence[EngineStep],
    *,
    given: bool,
    special: Sequence[Feeds] = (),
    substitutes: Substitutes | None = None,
) -> Baseline:
    """Put the engines beside the original, and run it once on each.

    Args:
        model: The original.
        samples: Reference inputs.
        engines: The engines asked for.
        given: Whether the user gave the samples; one that does not run is then an error.
        special: Samples of special values, which may fail to run.
        substitutes: Other inputs, where the samples are generated and none of them runs.

    Raises:
        EngineError: Neither the engine nor the reference evaluator can run the original.
        EngineUnavailableError: An engine is not on this machine: nothing stands in for it.
    """
    baseline = prepared(
        model, samples, engines, given=given, special=special, substitutes=substitutes
    )
    baseline.ready(*{step.when for step in engines})
    return baseline
