"""The property test of a pass that is no rewrite rule: random models, both sides run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from onnx_passes.contracts import Equality, Tolerance, contracts_of
from onnx_passes.passes.base import Pass
from onnx_passes.verify.models.recipe import Recipe, recipes
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
        out_of_time: Whether the time ended before the models did; only then does a second
            run with the same seed not repeat the first.
        seed: Of all choices.
    """

    models: int
    changed: int
    recipe: Recipe | None
    trial: Trial | None
    out_of_time: bool
    seed: int

    @property
    def verdict(self) -> str:
        """Return "tested", "refuted" or "never fired"."""
        if self.recipe is not None:
            return "refuted"
        return "tested" if self.changed else "never fired"


def fuzz_pass(
    make: Callable[[], Pass], *, seconds: float = 10.0, seed: int = 0, models: int = MODELS
) -> TestedPass:
    """Test a pass on random models, by the contract that it declares.

    Ends at ``models`` models, which repeats for a seed, or after ``seconds``, which does not.

    Args:
        make: Creates the pass.
        seconds: Wall time at most; the shrinking of what is found comes on top.
        seed: Of all choices.
        models: Models at most.
    """
    cls = type(make())
    contract = next(
        (c for c in contracts_of(cls) if isinstance(c, Equality | Tolerance)), None
    )

    def examine(recipe: Recipe) -> Trial:
        return attempt(
            recipe,
            lambda model: make()(model).model,
            contract=contract,
            allowed=cls.interface_changes,
        )

    end = time.monotonic() + seconds
    judged = changed = 0
    for recipe in recipes(models, seed=seed):
        if time.monotonic() > end:
            return TestedPass(judged, changed, None, None, True, seed)
        trial = examine(recipe)
        judged += trial.judged
        changed += trial.judged and trial.changed
        if trial.fault is not None:
            small = recipe.shrunk(lambda r: examine(r).fault is not None)
            return TestedPass(judged, changed, small, examine(small), False, seed)
    return TestedPass(judged, changed, None, None, False, seed)
