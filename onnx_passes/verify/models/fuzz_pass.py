"""The property test of a pass that is not a rewrite rule: random models, both sides run."""

from __future__ import annotations

import time
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.contracts import Equality, Tolerance, contracts_of
from onnx_passes.passes.base import Analysis, Pass
from onnx_passes.passes.context import PassContext
from onnx_passes.passes.registry import collect
from onnx_passes.verify.models.recipe import Recipe, network_recipes, recipes
from onnx_passes.verify.models.trial import Trial, attempt

MODELS = 100


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
    trial: Trial | None
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

    Ends at ``models`` models, or at the first after them that the pass changes, if it changed
    none before. That repeats for a seed; an end after ``seconds`` does not.
    A pass may crash the engine: run it in a child process where that matters.

    Args:
        cls: The pass; options without a default come from its ``example``.
        seconds: Wall time at most; the shrinking of what is found comes on top.
        seed: Of all choices.
        models: Models that the pass is judged on.
        most: Models that one is sought among which it changes; ``models`` if that is more.

    Raises:
        OptionError: The pass has options without a default or example.
    """
    cls(**cls.example)
    reads = issubclass(cls, Analysis)
    end = time.monotonic() + seconds
    judged = changed = refused = 0
    make = network_recipes if cls.tested_after else recipes
    for count, recipe in enumerate(make(models if reads else max(models, most), seed=seed)):
        if count >= models and changed:
            break
        if time.monotonic() > end:
            short = count < models or not changed
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


def examine(cls: type[Pass], recipe: Recipe) -> Trial:
    """Run a pass, after what it requires, on the model of a recipe, and compare.

    Args:
        cls: The pass.
        recipe: Makes the model.
    """
    contracts = contracts_of(cls)
    contract = next((c for c in contracts if isinstance(c, Equality | Tolerance)), None)
    trial = attempt(
        recipe,
        lambda model: _applied(_made(cls, model), model),
        contract=contract,
        allowed=cls.interface_changes,
        disorder=cls.name == "topological-sort",
        prepare=lambda model: _prepared(cls, model),
        mapped=lambda model: _made(cls, model).interface_map(model),
    )
    if trial.changed and trial.fault is None and issubclass(cls, Analysis):
        return Trial(True, True, "an analysis changed the model", trial.before, trial.after)
    return trial


def _made(cls: type[Pass], model: ir.Model) -> Pass:
    return cls(**cls.example_for(model))


def _prepared(cls: type[Pass], model: ir.Model) -> ir.Model:
    for step in collect((*cls.tested_after, *cls.required_passes)):
        model = _applied(step(), model)
    return model


def _applied(pass_: Pass, model: ir.Model) -> ir.Model:
    pass_.context = PassContext()
    return pass_(model).model
