"""The property test of a pass that is not a rewrite rule: random models, both sides run.

A trial applies the pass to one model and looks for a difference that the pass caused.
Differences that engines or quantizers cause on their own are excused. The verdict is plain
data.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import indent

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.certifying.models.recipe import Recipe, recipes_on
from onnx_passes.certifying.rewrite_rule import declared_by
from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.contracts.scores import widen
from onnx_passes.errors import (
    EngineError,
    OnnxPassesError,
    OptionError,
    PassError,
    ReferenceDataError,
)
from onnx_passes.model.copy import copy_model
from onnx_passes.model.diff import canonical_lines
from onnx_passes.model.ort_sessions import LOW, types_of
from onnx_passes.model.walk import all_graphs, all_nodes
from onnx_passes.ops.bodies.operator_bodies import is_quantiser
from onnx_passes.passes.base import Analysis, Pass
from onnx_passes.passes.context import InterfaceMap, PassContext, Port
from onnx_passes.passes.registry import collect
from onnx_passes.plain import PlainDict
from onnx_passes.runtime.engine_base import Data, Feeds, Outputs
from onnx_passes.runtime.engine_models import infer_types, insert_barriers
from onnx_passes.runtime.inputs import generate
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.judge import Promise, default_tolerance
from onnx_passes.verify.rounding import (
    agree_in_double,
    coarsest_types,
    low_tolerance,
    low_tolerances,
)
from onnx_passes.verify.snapshot import Change, Snapshot, compare_interfaces, interface_of
from onnx_passes.verify.well_formed import check_structure

_QUANTIZERS = ("QuantizeLinear", "DynamicQuantizeLinear")
_SIGNS = ("Add", "Sub")


def agree_between_steps(
    original: ir.Model,
    feeds: Feeds,
    known: Outputs,
    new: Outputs,
    contract: Tolerance,
    low: Mapping[str, Tolerance],
) -> set[str]:
    """Return the outputs that differ only because quantizers read slightly other values.

    The original runs twice more, with all that its quantizers read moved up and down by what
    the tolerance allows. An element that does not move must agree as ever. One that moves was
    next to a breakpoint, and may lie between what the runs give. `low` has the tolerances of
    outputs that depend on values below float32.
    """
    if not any(map(_quantizes, all_nodes(original))):
        return set()
    runs = [_run(_moved(original, operator), feeds) for operator in _SIGNS]
    promise = Promise(contract, overrides=low, low=frozenset(low))
    agreeing: set[str] = set()
    for position, (name, old) in enumerate(known.items()):
        sides = [old, *(run[position] for run in runs if len(run) > position)]
        actual = new.get(name)
        arrays = [side for side in (*sides, actual) if isinstance(side, np.ndarray)]
        if len(arrays) < len(_SIGNS) + 2 or len({(a.shape, a.dtype) for a in arrays}) > 1:
            continue
        *between, actual = arrays
        nearest = _nearest(between, actual)
        if not promise.broken({name: nearest}, {name: actual}):
            agreeing.add(name)
    return agreeing


def _quantizes(node: ir.Node) -> bool:
    return node.op_type in _QUANTIZERS or is_quantiser(node.domain, node.op_type)


def _nearest(between: Sequence[Array], actual: Array) -> Array:
    """Return what is nearest to an array between the least and greatest of others."""
    wide = [widen(array) for array in between]
    least, most = np.minimum.reduce(wide), np.maximum.reduce(wide)
    return np.asarray(np.clip(widen(actual), least, most).astype(actual.dtype))


def _moved(model: ir.Model, operator: str) -> ir.Model:
    """Return a copy in which quantizers read values that are a little greater, or less."""
    copy = copy_model(model)
    types, coarsest = infer_types(copy), coarsest_types(copy)
    for number, node in enumerate(list(all_nodes(copy))):
        value = node.inputs[0] if node.inputs else None
        if not _quantizes(node) or value is None or node.graph is None:
            continue
        if value.const_value is not None:
            continue  # weights are what they are
        dtype = next(iter(types_of(value, types)))
        if dtype is not None and dtype.is_floating_point():
            share = _share(coarsest.get(value, dtype))
            chain = _by_share(value, share, dtype, operator)
            for place, made in enumerate(chain):
                # Names of nested graphs may not coincide with those around them.
                made.outputs[0].name = f"quantizer_{number}_{place}"
            node.graph.insert_before(node, chain)
            node.replace_input_with(0, chain[-1].outputs[0])
    return copy


def _share(dtype: ir.DataType) -> float:
    if dtype in LOW:
        return low_tolerance(dtype).rtol or 0.0
    return default_tolerance(dtype.numpy())[0]


def _by_share(
    value: ir.Value, share: float, dtype: ir.DataType, operator: str
) -> list[ir.Node]:
    """Return nodes that move a value by a share of its largest element."""
    number = ir.tensor(np.asarray(share, np.float32).astype(dtype.numpy()))
    constant = ir.Node("", "Constant", [], [ir.AttrTensor("value", number)])
    size = ir.Node("", "Abs", [value])
    most = ir.Node("", "ReduceMax", [size.outputs[0]], [ir.AttrInt64("keepdims", 0)])
    step = ir.Node("", "Mul", [most.outputs[0], constant.outputs[0]])
    moved = ir.Node("", operator, [value, step.outputs[0]])
    return [constant, size, most, step, moved]


def _run(model: ir.Model, feeds: Feeds) -> list[object]:
    try:
        with OnnxRuntimeEngine(prepacking=False).prepare(insert_barriers(model)) as session:
            return list(session.run(feeds).values())
    except EngineError:
        return []


Transform = Callable[[ir.Model], ir.Model]
SAMPLES = 2
INVALID = "the model is not valid"
NOT_PREPARED = "what has to run first fails on the model"
NOT_RUN = "ONNX Runtime does not run the model"


@dataclass(frozen=True)
class PassTrial:
    """The result of one model.

    It is `judged` if it is valid and the engine runs it; else `unjudged` says why. `refused`
    means that the transformation raised a PassError. `fault` is one sentence, or None. `model`
    is kept with a fault; `result` and `feeds` only if outputs differ.
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

    `transform` gets a copy that it may change in place. `prepare` runs before it, and counts
    neither as its change nor as its fault. With `disorder`, one model in eight has its nodes
    out of order. With `negative_zero`, -0 and 0 differ under equality. `mapped` returns how
    inputs and outputs become those of the result.
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
        expected = _run_trial(model, samples)
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
            seen = _run_trial(model, [_translated(feeds, ports.back) for feeds in samples])
            expected = [_translated(outputs, ports.outputs) for outputs in seen]
            model = kept.restore()
            ports.wrap(model)
        elif not all(_fits(feeds, result) for feeds in samples):
            samples = generate(result, seed=recipe.seed % 1000, samples=SAMPLES)
            expected = _run_trial(model, samples)
        found = _values(
            model, result, samples, expected, contract or Equality(), negative_zero
        )
        if found is not None:
            return faulty(found[0], text, found[1])
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


def _values(
    original: ir.Model,
    model: ir.Model,
    samples: Sequence[Feeds],
    expected: Sequence[Outputs],
    contract: Equality | Tolerance,
    negative_zero: bool,
) -> tuple[str, Feeds] | None:
    """Return what the result computes differently, and on which sample."""
    wanted = {str(value.name) for value in model.graph.inputs}
    names = [str(value.name) for value in model.graph.outputs]
    fed: list[Feeds] = [{k: v for k, v in feeds.items() if k in wanted} for feeds in samples]
    try:
        produced = _run_trial(model, fed)
    except EngineError as error:
        return f"the result does not run: {error.message}", samples[0]
    # As in the gate: numbers that a contract gives hold, whatever the values come by way of.
    by_name = low_tolerances(original) if contract == Tolerance() else {}
    ends = dict(zip(names, (str(v.name) for v in original.graph.outputs), strict=False))
    low = {name: by_name[end] for name, end in ends.items() if end in by_name}
    # Values below float32 are measured against their largest element: a sum that cancels keeps
    # the rounding of its terms.
    promise = Promise(contract, overrides=low, low=frozenset(low), negative_zero=negative_zero)
    for feeds, old, new in zip(samples, expected, produced, strict=True):
        # By position: where a pass may rename outputs, their order is what stays.
        known = dict(zip(names, old.values(), strict=False))
        wrong = promise.broken(known, new)
        if wrong and isinstance(contract, Tolerance):
            agreeing = agree_between_steps(original, feeds, known, new, contract, low)
            arrays = {k: v for k, v in feeds.items() if isinstance(v, np.ndarray)}
            # Of windows of minus infinities the engine gives another number than the standard.
            wrong = [
                check
                for check in wrong
                if check.output not in agreeing
                if not agree_in_double(original, model, arrays, ends[check.output])
            ]
        if wrong:
            return f"{wrong[0].output}: {wrong[0].reason}", feeds
    return None


def _run_trial(model: ir.Model, samples: Sequence[Feeds]) -> list[Outputs]:
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


MODELS = 100
CHANGED = 200
"""Models that a pass has to change if it says on which kinds of them it is tested."""


@dataclass
class TestedPass:
    """What the property test of one pass found.

    `models` counts those that could be judged, `changed` those of them that the pass changed.
    `recipe` and `trial` show a fault, shrunk. If the run is `out_of_time` and has no fault,
    nothing is decided. A pass that `reads` keeps its promise by changing nothing.
    """

    reads: bool
    models: int = 0
    changed: int = 0
    refused: int = 0
    recipe: Recipe | None = None
    trial: PassTrial | None = None
    out_of_time: bool = False

    @property
    def verdict(self) -> str:
        """Return "tested", "refuted", "undecided" or "never fired"."""
        if self.trial is not None:
            return "refuted"
        if self.out_of_time:
            return "undecided"
        return "tested" if self.changed or (self.reads and self.models) else "never fired"

    @property
    def reason(self) -> str:
        """Return why it is not tested; empty if it is."""
        if self.trial is not None:
            return str(self.trial.fault)
        if self.verdict == "undecided":
            return f"out of time: {self.models} models; give it more with --time"
        if self.verdict == "never fired":
            return f"it changed none of {self.models} random models"
        return ""


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
    does not. A pass may crash the engine: run it in a child process where that matters.

    Shrinking comes on top of `seconds`. At most `most` models are drawn, or `models` if that
    is more. OptionError if an option has neither a default nor an example.
    """
    cls(**cls.example)
    found = TestedPass(reads=issubclass(cls, Analysis))
    end = time.monotonic() + seconds
    wanted = models if cls.tested_on else 1
    bound = models if found.reads else max(models, most)
    for count, recipe in enumerate(recipes_on(cls.tested_on, bound, seed=seed)):
        if count >= models and found.changed >= wanted:
            break
        if time.monotonic() > end:
            found.out_of_time = count < models or found.changed < wanted
            break
        trial = examine(cls, recipe)
        found.models += trial.judged
        found.changed += trial.judged and trial.changed
        found.refused += trial.refused
        if trial.fault is not None:
            found.recipe = recipe.shrunk(lambda r: examine(cls, r).fault is not None)
            found.trial = examine(cls, found.recipe)
            break
    return found


def examine(cls: type[Pass], recipe: Recipe) -> PassTrial:
    """Run a pass, after what it requires, on the model of a recipe, and compare."""
    trial = attempt(
        recipe,
        lambda model: _applied(_made(cls, model), model, _samples(cls, model)),
        contract=declared_by(cls),
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
    """Return how many models a certificate of a pass needs, most of them changed or not."""
    return CHANGED if cls.tested_on else MODELS


DRAW_FACTOR = 10
"""Models drawn at most, as a multiple of those that a pass is judged on."""


def verdict_of_pass(
    cls: type[Pass], *, seconds: float, seed: int, models: int, folder: str | None
) -> PlainDict:
    """Test a pass on random models; return a verdict, and write a refutation to `folder`."""
    declared = declared_by(cls)
    result: PlainDict = {"rule": cls.name, "contract": None}
    result["declared"] = None if declared is None else str(declared)
    try:
        most = DRAW_FACTOR * models
        tested = fuzz_pass(cls, seconds=seconds, seed=seed, models=models, most=most)
    except OptionError as error:
        reason = f"it needs options, and its class has no example: {error.message}"
        return {**result, "verdict": "undecided", "reason": reason}
    result |= {
        "verdict": tested.verdict,
        "reason": tested.reason,
        "contract": str(declared) if declared and tested.verdict == "tested" else None,
        "tested": {
            "models": tested.models,
            "changed": tested.changed,
            "refused": tested.refused,
            "out_of_time": tested.out_of_time,
        },
    }
    if tested.trial is not None:
        result["counterexample"] = f"{_text_verdict(tested.trial)}\nmodel: {tested.recipe}"
        if folder is not None and tested.trial.result is not None:
            result["folder"] = str(_write_trial(cls.name, tested.trial, Path(folder)))
    return result


def _text_verdict(trial: PassTrial) -> str:
    sides = {"before:": trial.before, **({"after:": trial.after} if trial.after else {})}
    lines = (line for word, text in sides.items() for line in (word, indent(text, "  ")))
    return "\n".join([str(trial.fault), *lines])


def _write_trial(name: str, trial: PassTrial, folder: Path) -> Path:
    """Write a reproducer that needs no pass, and return its folder."""
    from onnx_passes.verify.bundle import Bundle, write_bundle

    assert trial.model is not None
    assert trial.result is not None
    readme = f"# A pass that is wrong: {name}\n\n{_text_verdict(trial)}\n"
    engine = OnnxRuntimeEngine(prepacking=False)
    bundle = Bundle(trial.model, trial.result, trial.feeds, engine=engine, readme=readme)
    return write_bundle(bundle, folder)
