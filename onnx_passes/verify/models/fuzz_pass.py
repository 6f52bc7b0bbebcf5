"""The property test of a pass that is not a rewrite rule: random models, both sides run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.passes.base import Analysis, Pass
from onnx_passes.passes.context import PassContext
from onnx_passes.passes.registry import collect
from onnx_passes.runtime.engine_base import Feeds
from onnx_passes.runtime.inputs import generate
from onnx_passes.verify.models.recipe import Recipe, recipes_on
from onnx_passes.verify.models.trial import PassTrial, attempt

MODELS = 100
CHANGED = 200
"""Models that a pass has to change if it says on which kinds of them it is tested."""


@dataclass(frozen=True)
class TestedPass:
    """What the property test of one pass found.

    Attributes:
        models: Models that could be judged.
        changed: Those of them that the pass changed.
        recipe: What shows the fault, shrunk; None where there is none.
        trial: What it showed.
        out_of_time: Whether the time ended before the models that were asked for; then nothing
            is decided, unless a fault was found.
        seed: Of all choices.
        refused: Models that the pass said it cannot do.
        reads: Whether the pass only reads, so that changing nothing is its promise.
    """

    models: int
    changed: int
    recipe: Recipe | None
    trial: PassTrial | None
    out_of_time: bool
    seed: int
    refused: int = 0
    reads: bool = False

    @property
    def verdict(self) -> str:
        """Return "tested", "refuted", "undecided" or "never fired"."""
        if self.recipe is not None:
            return "refuted"
        if self.out_of_time:
            return "undecided"
        return "tested" if self.changed or (self.reads and self.models) else "never fired"


def fuzz_pass(
    cls: type[Pass],
    *,
    seconds: float = 10.0,
    seed: int = 0,
    models: int = MODELS,
    most: int = 0,
) -> TestedPass:
    """Test a pass on random models, by the contract that it declares.

    Ends at ``models`` models, and for a pass that is ``tested_on`` some kinds when it changed
    that many; any other has to change one. That repeats for a seed; an end after ``seconds``
    does not.
    A pass may crash the engine: run it in a child process where that matters.

    Args:
        cls: The pass; options without a default come from its ``example``.
        seconds: Wall time at most; the shrinking of what is found comes on top.
        seed: Of all choices.
        models: Models that the pass is judged on.
        most: Models drawn at most for those that it changes; ``models`` if that is more.

    Raises:
        OptionError: The pass has options without a default or example.
    """
    cls(**cls.example)
    reads = issubclass(cls, Analysis)
    end = time.monotonic() + seconds
    judged = changed = refused = 0
    wanted = models if cls.tested_on else 1
    bound = models if reads else max(models, most)
    for count, recipe in enumerate(recipes_on(cls.tested_on, bound, seed=seed)):
        if count >= models and changed >= wanted:
            break
        if time.monotonic() > end:
            short = count < models or changed < wanted
            return TestedPass(judged, changed, None, None, short, seed, refused, reads)
        trial = examine(cls, recipe)
        judged += trial.judged
        changed += trial.judged and trial.changed
        refused += trial.refused
        if trial.fault is not None:
            small = recipe.shrunk(lambda r: examine(cls, r).fault is not None)
            shown = examine(cls, small)
            return TestedPass(judged, changed, small, shown, False, seed, refused, reads)
    return TestedPass(judged, changed, None, None, False, seed, refused, reads)


def examine(cls: type[Pass], recipe: Recipe) -> PassTrial:
    """Run a pass, after what it requires, on the model of a recipe, and compare.

    Args:
        cls: The pass.
        recipe: Makes the model.
    """
    contracts = cls.contracts()
    contract = next((c for c in contracts if isinstance(c, Equality | Tolerance)), None)
    trial = attempt(
        recipe,
        lambda model: _applied(_made(cls, model), model, _samples(cls, model)),
        contract=contract,
        allowed=cls.interface_changes,
        disorder=cls.name == "topological-sort",
        prepare=lambda model: _prepared(cls, model),
        mapped=lambda model: _made(cls, model).interface_map(model),
    )
    if trial.changed and trial.fault is None and issubclass(cls, Analysis):
        return PassTrial(
            True, True, "an analysis changed the model", trial.before, trial.after
        )
    return trial


def _made(cls: type[Pass], model: ir.Model) -> Pass:
    return cls(**cls.example_for(model))


def _prepared(cls: type[Pass], model: ir.Model) -> ir.Model:
    for step in collect((*cls.tested_after, *cls.required_passes)):
        for first in (*collect(step.required_passes), step):
            model = _applied(first(**first.example_for(model)), model)
    return model


def _samples(cls: type[Pass], model: ir.Model) -> Sequence[Feeds]:
    """Return data for a pass that takes some, as its option says; none for any other."""
    return generate(model, samples=2) if hasattr(cls, "data") else ()


def _applied(pass_: Pass, model: ir.Model, samples: Sequence[Feeds] = ()) -> ir.Model:
    pass_.context = PassContext(samples=samples)
    return pass_(model).model


def models_wanted(cls: type[Pass]) -> int:
    """Return how many models a certificate of a pass needs, most of them changed or not.

    Args:
        cls: The pass.
    """
    return CHANGED if cls.tested_on else MODELS
