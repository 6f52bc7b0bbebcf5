"""Random models through a shipped pipeline: what differs, as small as it gets."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import onnx_ir as ir

from onnx_passes.config.load import load_config
from onnx_passes.config.resolve import resolve
from onnx_passes.config.schema import PipelineConfig
from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.verify.models import Recipe
from onnx_passes.verify.models.trial import Trial, attempt

EXACT = ("cleanup", "simplify", "tensorrt")
"""Presets that compute every bit as it was, on one engine, the sign of zero as well."""


def faults_of(preset: str, models: Iterable[Recipe]) -> tuple[int, list[str]]:
    """Return how many models could be judged, and what differs in which, shrunk.

    Args:
        preset: Name of a shipped pipeline.
        models: The models.
    """
    try_ = trial_of(preset)
    judged, faults = 0, []
    for recipe in models:
        trial = try_(recipe)
        judged += trial.judged
        if trial.fault is not None:
            small = recipe.shrunk(lambda r: try_(r).fault is not None)
            faults.append(f"{small}: {try_(small).fault}")
    return judged, faults


def trial_of(preset: str) -> partial[Trial]:
    """Return what runs a preset on the model of a recipe and compares."""
    settings = load_config(preset, ["verify=false", "reproducers=false"])
    exact = preset in EXACT
    allowed = {
        part for step in resolve(settings).passes for part in step.cls.interface_changes
    }
    return partial(
        attempt,
        transform=partial(_transformed, settings=settings),
        contract=Equality() if exact else Tolerance(),
        allowed=frozenset(allowed),
        negative_zero=exact,
        disorder=True,
    )


def _transformed(model: ir.Model, settings: PipelineConfig) -> ir.Model:
    run = run_pipeline(model, settings)
    run.raise_for_failure()
    return run.model
