"""Random models through a shipped pipeline: what differs, as small as it gets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

import onnx_ir as ir

from onnx_passes.certifying.models import Recipe
from onnx_passes.certifying.models.fuzz_pass import PassTrial, attempt
from onnx_passes.configs.pipeline_files import default_config, load_config
from onnx_passes.configs.resolve import resolve
from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.pipeline.run import run_pipeline

EXACT = ("cleanup", "simplify", "tensorrt")
"""Presets that compute every bit as it was, on one engine, the sign of zero as well."""


@dataclass
class Findings:
    """What random models showed of a preset.

    Attributes:
        models: How many there were.
        unjudged: Why how many could not be judged.
        fired: How often each rule fired.
        faults: What differs in which, shrunk.
        kinds: How many there were of each kind of low precision; "" for those without.
        judged_kinds: How many of these could be judged.
    """

    models: int = 0
    unjudged: Counter[str] = field(default_factory=Counter)
    fired: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    judged_kinds: Counter[str] = field(default_factory=Counter)

    @property
    def judged(self) -> int:
        """How many could be judged."""
        return self.models - self.unjudged.total()

    @property
    def low_share(self) -> float:
        """Share of the models of low precision that could be judged."""
        low = self.kinds.total() - self.kinds[""]
        return (self.judged_kinds.total() - self.judged_kinds[""]) / max(low, 1)

    def __str__(self) -> str:
        """Return all counts in one line."""
        kinds = ", ".join(
            f"{kind or 'float32'} {self.judged_kinds[kind]}/{count}"
            for kind, count in sorted(self.kinds.items())
        )
        left = "; ".join(f"{count} not: {why}" for why, count in self.unjudged.items())
        return (
            f"{self.models} models, {self.judged} judged{f' ({left})' if left else ''}, "
            f"{len(self.faults)} wrong, {len(self.fired)} rules fired; judged: {kinds}"
        )


def findings_of(preset: str, models: Iterable[Recipe], *, verify: bool = False) -> Findings:
    """Run a preset on models, and say how many could be judged and what differs.

    Args:
        preset: Name of a shipped pipeline.
        models: The models.
        verify: Whether the gate looks on. What it refuses is a fault then, of the gate or of a
            pass: the same models without it show which.
    """
    found = Findings()
    try_, quiet = (trial_of(preset, fired, verify) for fired in (found.fired, Counter()))
    for recipe in models:
        trial = try_(recipe)
        found.models += 1
        found.kinds[recipe.precision or ""] += 1
        found.judged_kinds[recipe.precision or ""] += trial.unjudged is None
        if trial.unjudged is not None:
            found.unjudged[trial.unjudged] += 1
        if trial.fault is not None:
            small = recipe.shrunk(lambda r: quiet(r).fault is not None)
            found.faults.append(f"{small}: {quiet(small).fault}")
    return found


def trial_of(preset: str, fired: Counter[str], verify: bool) -> partial[PassTrial]:
    """Return what runs a preset on the model of a recipe, counts rules and compares."""
    off = [] if verify else ["verify=false"]
    settings = load_config(preset, ["reproducers=false", *off])
    if verify:
        # Not every machine has NVIDIA's compiler.
        settings = settings.model_copy(update={"engines": default_config().engines})
    exact = preset in EXACT
    allowed = {
        part for step in resolve(settings).passes for part in step.cls.interface_changes
    }
    return partial(
        attempt,
        transform=partial(_transformed, settings=settings, fired=fired),
        contract=Equality() if exact else Tolerance(),
        allowed=frozenset(allowed),
        negative_zero=exact,
        disorder=not verify,  # the gate runs the original, which no engine would
    )


def _transformed(model: ir.Model, settings: PipelineConfig, fired: Counter[str]) -> ir.Model:
    run = run_pipeline(model, settings)
    fired.update(rewrite.rule for step in run.report.passes for rewrite in step.rewrites)
    run.raise_for_failure()
    return run.model
