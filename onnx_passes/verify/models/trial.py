"""Run a transformation on a random model, and look for something that it broke."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.errors import EngineError, OnnxPassesError, ReferenceDataError
from onnx_passes.runtime.base import Feeds, Outputs
from onnx_passes.runtime.inputs import generate
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.surgery.text import canonical_lines
from onnx_passes.verify.compare import compare
from onnx_passes.verify.interface import compare_interfaces, interface_of
from onnx_passes.verify.models.recipe import Recipe
from onnx_passes.verify.snapshot import Change, Snapshot
from onnx_passes.verify.structure import check_structure

Transform = Callable[[ir.Model], ir.Model]
SAMPLES = 2


@dataclass(frozen=True)
class Trial:
    """What one model showed.

    Attributes:
        judged: Whether the model could be judged: it is valid, and the engine runs it.
        changed: Whether the transformation changed it.
        fault: What was broken, in one sentence; None where nothing was.
        before: The model, as text.
        after: What was made of it, as text; empty where nothing was.
    """

    judged: bool
    changed: bool = False
    fault: str | None = None
    before: str = ""
    after: str = ""


def attempt(
    recipe: Recipe,
    transform: Transform,
    *,
    contract: Equality | Tolerance | None = None,
    allowed: frozenset[str] = frozenset(),
    negative_zero: bool = False,
) -> Trial:
    """Transform the model of a recipe, and compare what both compute.

    Args:
        recipe: The model.
        transform: Is given a copy; may change it in place.
        contract: What it promises; equality by default.
        allowed: Parts of the interface that it declares to change.
        negative_zero: Whether -0 and 0 are different under equality.
    """
    model = recipe.model()
    if check_structure(model):
        return Trial(judged=False)
    try:
        samples = generate(model, seed=recipe.seed % 1000, samples=SAMPLES)
        expected = _run(model, samples)
    except (EngineError, ReferenceDataError):
        return Trial(judged=False)
    before, kept = _text(model), Snapshot(model)
    try:
        after = transform(kept.restore())
    except OnnxPassesError as error:
        return Trial(True, True, f"it raised {type(error).__name__}: {error.message}", before)
    except Exception as error:
        return Trial(True, True, f"it raised {type(error).__name__}: {error}", before)
    fault = _structure(model, after, allowed)
    if fault is not None:
        return Trial(True, True, fault, before, _unsure_text(after))
    text, changed = _text(after), kept.change(after) is not Change.NONE
    if changed:
        fault = _values(after, samples, expected, contract or Equality(), negative_zero)
    return Trial(True, changed, fault, before, text)


def _structure(before: ir.Model, after: ir.Model, allowed: frozenset[str]) -> str | None:
    faults = check_structure(after) or compare_interfaces(
        interface_of(before), interface_of(after), allowed
    )
    return faults[0] if faults else None


def _values(
    model: ir.Model,
    samples: Sequence[Feeds],
    expected: Sequence[Outputs],
    contract: Equality | Tolerance,
    negative_zero: bool,
) -> str | None:
    wanted = {str(value.name) for value in model.graph.inputs}
    names = [str(value.name) for value in model.graph.outputs]
    fed: list[Feeds] = [{k: v for k, v in feeds.items() if k in wanted} for feeds in samples]
    try:
        produced = _run(model, fed)
    except EngineError as error:
        return f"the result does not run: {error.message}"
    for old, new in zip(expected, produced, strict=True):
        # By position: where a pass may rename outputs, their order is what stays.
        known = dict(zip(names, old.values(), strict=False))
        for check in compare(known, new, contract, negative_zero=negative_zero):
            if not check.passed:
                return f"{check.output}: {check.reason}"
    return None


def _run(model: ir.Model, samples: Sequence[Feeds]) -> list[Outputs]:
    with OnnxRuntimeEngine(prepacking=False).prepare(model) as session:
        return [session.run(feeds) for feeds in samples]


def _text(model: ir.Model) -> str:
    return "\n".join(canonical_lines(model))


def _unsure_text(model: ir.Model) -> str:
    try:
        return _text(model)
    except Exception as error:  # of a model that is broken, anything
        return f"(it has no text: {error})"
