"""Run a transformation on a random model, and look for something that it broke."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.errors import EngineError, OnnxPassesError, PassError, ReferenceDataError
from onnx_passes.model.diff import canonical_lines
from onnx_passes.model.walk import all_graphs
from onnx_passes.passes.context import InterfaceMap, Port
from onnx_passes.runtime.engine_base import Data, Feeds, Outputs
from onnx_passes.runtime.inputs import generate
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.interface_check import compare_interfaces, interface_of
from onnx_passes.verify.judge import Promise
from onnx_passes.verify.low_precision import low_tolerances
from onnx_passes.verify.models.dispute import DISPUTED, is_disputed, other_opinion
from onnx_passes.verify.models.quantizers import agree_between_steps
from onnx_passes.verify.models.recipe import Recipe
from onnx_passes.verify.snapshot import Change, Snapshot
from onnx_passes.verify.well_formed import check_structure

Transform = Callable[[ir.Model], ir.Model]
SAMPLES = 2
INVALID = "the model is not valid"
NOT_PREPARED = "what has to run first fails on the model"
NOT_RUN = "ONNX Runtime does not run the model"


@dataclass(frozen=True)
class PassTrial:
    """What one model showed.

    Attributes:
        judged: Whether the model could be judged: it is valid, the engine runs it, and what it
            gives for the original is not in dispute (see :func:`is_disputed`).
        changed: Whether the transformation changed it.
        unjudged: Why it could not be judged, in one sentence; None where it was.
        refused: Whether the transformation said that it cannot do it, by a PassError.
        fault: What was broken, in one sentence; None where nothing was.
        before: The model, as text.
        after: What was made of it, as text; empty where nothing was.
        model: The model, where there is a fault.
        result: What was made of it, where it computes something else.
        feeds: Inputs on which it does.
    """

    judged: bool
    changed: bool = False
    unjudged: str | None = field(default=None, kw_only=True)
    refused: bool = field(default=False, kw_only=True)
    fault: str | None = None
    before: str = ""
    after: str = ""
    model: ir.Model | None = field(default=None, compare=False)
    result: ir.Model | None = field(default=None, compare=False)
    feeds: Feeds = field(default_factory=dict, compare=False)


def attempt(
    recipe: Recipe,
    transform: Transform,
    *,
    contract: Equality | Tolerance | None = None,
    allowed: frozenset[str] = frozenset(),
    negative_zero: bool = False,
    disorder: bool = False,
    prepare: Callable[[ir.Model], ir.Model] | None = None,
    mapped: Callable[[ir.Model], InterfaceMap | None] | None = None,
) -> PassTrial:
    """Transform the model of a recipe, and compare what both compute.

    Args:
        recipe: The model.
        transform: Is given a copy; may change it in place.
        contract: What it promises; equality by default.
        allowed: Parts of the interface that it declares to change.
        negative_zero: Whether -0 and 0 are different under equality.
        disorder: Whether one model in eight is given with its nodes out of order.
        prepare: What runs before it, and counts neither as its change nor as its fault.
        mapped: Says of a model how its inputs and outputs become those of the result.
    """
    model = recipe.model()
    if check_structure(model):
        return PassTrial(judged=False, unjudged=INVALID)
    if prepare is not None:
        try:
            model = prepare(model)
        except PassError:
            return PassTrial(judged=True, refused=True)
        except Exception:  # of another pass: a verdict on it is not given here
            return PassTrial(judged=False, unjudged=NOT_PREPARED)
    try:
        samples = generate(model, seed=recipe.seed % 1000, samples=SAMPLES)
        expected = _run(model, samples)
    except (EngineError, ReferenceDataError):
        return PassTrial(judged=False, unjudged=NOT_RUN)
    before, kept = _text(model), Snapshot(model)

    def faulty(reason: str, after: str = "", feeds: Feeds | None = None) -> PassTrial:
        made = None if feeds is None else result
        return PassTrial(True, True, reason, before, after, model, made, feeds or {})

    try:
        given = kept.restore()
        if disorder and recipe.seed % 8 == 0:
            _disordered(given, recipe.seed)
        ports = None if mapped is None else mapped(given)
        result = transform(given)
    except PassError:
        return PassTrial(judged=True, refused=True)
    except OnnxPassesError as error:
        return faulty(f"it raised {type(error).__name__}: {error.message}")
    except Exception as error:
        return faulty(f"it raised {type(error).__name__}: {error}")
    broken = _structure(model, result, allowed)
    if broken is not None:
        return faulty(broken, _unsure_text(result))
    text, changed = _text(result), kept.change(result) is not Change.NONE
    if changed:
        if ports is not None:
            samples = [_translated(feeds, ports.inputs) for feeds in samples]
            seen = _run(model, [_translated(feeds, ports.back) for feeds in samples])
            expected = [_translated(outputs, ports.outputs) for outputs in seen]
            model = kept.restore()
            ports.wrap(model)
        elif not all(_fits(feeds, result) for feeds in samples):
            samples = generate(result, seed=recipe.seed % 1000, samples=SAMPLES)
            expected = _run(model, samples)
        found = _values(
            model, result, samples, expected, contract or Equality(), negative_zero
        )
        if found is not None and found.disputed:
            return PassTrial(False, True, None, before, text, unjudged=DISPUTED)
        if found is not None:
            return faulty(found.reason, text, found.feeds)
    return PassTrial(True, changed, None, before, text)


def _disordered(model: ir.Model, seed: int) -> None:
    """Put the nodes of every graph in any order."""
    rng = np.random.default_rng(seed)
    for graph in list(all_graphs(model)):
        nodes = list(graph)
        graph.extend(nodes[int(index)] for index in rng.permutation(len(nodes)))


def _structure(before: ir.Model, after: ir.Model, allowed: frozenset[str]) -> str | None:
    faults = check_structure(after) or compare_interfaces(
        interface_of(before), interface_of(after), allowed
    )
    return faults[0] if faults else None


def _translated(values: Mapping[str, Data], port: Port) -> dict[str, Data]:
    return dict(port(name, value) for name, value in values.items())


def _fits(feeds: Feeds, model: ir.Model) -> bool:
    """Whether feeds have the sizes that the inputs of a model declare."""
    for value in model.graph.inputs:
        sizes = getattr(feeds.get(str(value.name)), "shape", ())
        for declared, size in zip(value.shape or (), sizes, strict=False):
            if isinstance(declared, int) and declared != size:
                return False
    return True


@dataclass(frozen=True)
class _Difference:
    """Something that the result computes differently."""

    reason: str
    feeds: Feeds
    disputed: bool = False


def _values(
    original: ir.Model,
    model: ir.Model,
    samples: Sequence[Feeds],
    expected: Sequence[Outputs],
    contract: Equality | Tolerance,
    negative_zero: bool,
) -> _Difference | None:
    """Return what differs: a fault before what is in dispute."""
    wanted = {str(value.name) for value in model.graph.inputs}
    names = [str(value.name) for value in model.graph.outputs]
    fed: list[Feeds] = [{k: v for k, v in feeds.items() if k in wanted} for feeds in samples]
    try:
        produced = _run(model, fed)
    except EngineError as error:
        return _Difference(f"the result does not run: {error.message}", samples[0])
    found = None
    # As in the gate: numbers that a contract gives hold, whatever the values come by way of.
    by_name = low_tolerances(original) if contract == Tolerance() else {}
    outputs = (str(value.name) for value in original.graph.outputs)
    low = {
        name: by_name[output]
        for name, output in zip(names, outputs, strict=False)
        if output in by_name
    }
    # Values below float32 are measured against their largest element: a sum that cancels keeps
    # the rounding of its terms.
    promise = Promise(contract, overrides=low, low=frozenset(low), negative_zero=negative_zero)
    for feeds, old, new in zip(samples, expected, produced, strict=True):
        # By position: where a pass may rename outputs, their order is what stays.
        known = dict(zip(names, old.values(), strict=False))
        wrong = promise.broken(known, new)
        if wrong and isinstance(contract, Tolerance):
            agreeing = agree_between_steps(original, feeds, known, new, contract, low)
            wrong = [check for check in wrong if check.output not in agreeing]
        opinion = other_opinion(original, feeds) if wrong else []
        third = dict(zip(names, opinion, strict=False))
        for check in wrong:
            disputed = is_disputed(check.output, known, new, third, contract)
            found = _Difference(f"{check.output}: {check.reason}", feeds, disputed)
            if not disputed:
                return found
    return found


def _run(model: ir.Model, samples: Sequence[Feeds]) -> list[Outputs]:
    """Run a model with each value below float32 rounded, whatever its neighbors are."""
    with OnnxRuntimeEngine(prepacking=False).prepare(model) as session:
        return [session.run(feeds) for feeds in samples]


def _text(model: ir.Model) -> str:
    return "\n".join(canonical_lines(model))


def _unsure_text(model: ir.Model) -> str:
    try:
        return _text(model)
    except Exception as error:  # of a model that is broken, anything
        return f"(it has no text: {error})"
