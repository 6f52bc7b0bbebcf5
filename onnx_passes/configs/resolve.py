"""From names to passes: the pipeline that runs, with checked options and the default budget.

Steps under names of the seed system become those that do the same here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import onnx_ir as ir
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from onnx_passes.compat.names import is_for_seed, uses_of
from onnx_passes.configs.imports import import_modules
from onnx_passes.configs.pipeline_files import shipped_configs, shipped_steps
from onnx_passes.configs.problems import located
from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.configs.sections import OutputTolerance, Policy
from onnx_passes.configs.steps import (
    Checkpoint,
    Group,
    PassUse,
    Places,
    Repeat,
    Step,
    format_steps,
    format_value,
)
from onnx_passes.contracts import Metric, metrics
from onnx_passes.errors import (
    ConfigError,
    OnnxPassesError,
    OptionError,
    PassError,
    UnknownMetricError,
    UnknownPassError,
    nearest,
)
from onnx_passes.model.inference import makes_map
from onnx_passes.model.walk import all_nodes
from onnx_passes.passes import registry
from onnx_passes.passes.base import Pass, is_shipped
from onnx_passes.passes.options import option_fields, plain_defaults, validate_options
from onnx_passes.passes.registry import LIBRARY, Scope
from onnx_passes.plain import PlainDict, PlainMapping

_VERIFY = "verify"
"""What the seed system calls a checkpoint."""


def translate_names(
    steps: Sequence[Step], *, for_seed: bool, scope: Scope = LIBRARY
) -> tuple[Step, ...]:
    """Replace names of the seed system by passes of this package.

    Passes of `scope` keep their names. If the pipeline was written `for_seed`, names of that
    system win over those of passes here.
    """
    found: list[Step] = []
    for step in steps:
        if isinstance(step, Group):
            inner = translate_names(step.steps, for_seed=for_seed, scope=scope)
            found.append(replace(step, steps=inner))
            continue
        uses = None
        foreign = (
            isinstance(step, PassUse)
            and step.name != _VERIFY
            and not registry.is_shadowed(step.name, scope)
        )
        if foreign and (for_seed or not registry.is_known(step.name)):
            uses = uses_of(step.name, for_seed=for_seed)
        if uses is None or not isinstance(step, PassUse):
            found.append(step)
            continue
        for use in uses:
            options = {**use.options, **step.options}
            found.append(replace(step, name=use.name, options=options))
    return tuple(found)


@dataclass(frozen=True)
class PassStep:
    """A pass to run, with all options checked. None means the pipeline's setting."""

    cls: type[Pass]
    options: PlainMapping
    on_failure: Policy | None = None
    tolerance: OutputTolerance | None = None
    where: str | None = field(default=None, compare=False, repr=False)

    @cached_property
    def text(self) -> str:
        """The pass and its options, as they read in a pipeline text."""
        return format_steps([PassUse(registry.unique_name(self.cls), _plain_options(self))])

    def make(self, config: PlainDict, state: PlainDict) -> Pass:
        """Create the pass with the `state` of a run, or raise PassError."""
        try:
            return self.cls(config, state, **self.options)
        except (OnnxPassesError, MemoryError):
            raise
        except Exception as error:
            raise PassError(
                f"pass {self.cls.name!r} cannot be made: {type(error).__name__}: {error}",
                where=self.where,
                help="passes are made with the config of the pipeline, its state and their "
                "options; leave __init__ to the base class, and prepare in call()",
            ) from error


@dataclass(frozen=True)
class GroupStep:
    """Steps that belong together; a fixpoint has failed after `limit` rounds."""

    name: str
    steps: tuple[ResolvedStep, ...]
    repeat: Repeat = "once"
    limit: int = 20
    where: str | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class CheckpointStep:
    """A point at which the whole model is held against the original."""

    name: str
    where: str | None = field(default=None, compare=False, repr=False)


ResolvedStep: TypeAlias = PassStep | GroupStep | CheckpointStep


@dataclass(frozen=True)
class ResolvedPipeline:
    """What runs: the steps, in order; ``first`` is the number of the first of them."""

    steps: tuple[ResolvedStep, ...]
    first: int = 1

    @property
    def passes(self) -> tuple[PassStep, ...]:
        """Every pass once, in order, those in groups included."""
        return tuple(_passes(self.steps))

    def starting_at(self, step: str) -> ResolvedPipeline:
        """Return what is left from a step on, named or numbered from 1.

        ConfigError if there is no such step, or several.
        """
        names = [_step_name(one) for one in self.steps]
        found = [k for k, name in enumerate(names, 1) if step in (name, str(k))]
        if len(found) != 1:
            listed = ", ".join(f"{k} {name}" for k, name in enumerate(names, 1))
            what = f"steps {found[0]} and {found[1]} are" if found else "no step is"
            raise ConfigError(
                f"{what} {step!r}",
                where="--start-at",
                help=f"give a number: {listed}" if names else "the pipeline has no steps",
            )
        return ResolvedPipeline(self.steps[found[0] - 1 :], found[0])


def _step_name(step: ResolvedStep) -> str:
    if isinstance(step, PassStep):
        return registry.unique_name(step.cls)
    return step.name or ("checkpoint" if isinstance(step, CheckpointStep) else "group")


def format_pipeline(pipeline: ResolvedPipeline) -> str:
    """Return a text that ``parse_pipeline`` reads back to the same steps.

    Options that have the default of their class are left out. ConfigError if no text can
    express a value.
    """
    return format_steps([_unresolved(step) for step in pipeline.steps])


def _unresolved(step: ResolvedStep) -> Step:
    if isinstance(step, CheckpointStep):
        return Checkpoint(step.name)
    if isinstance(step, GroupStep):
        inner = tuple(_unresolved(s) for s in step.steps)
        return Group(inner, step.name, step.repeat, step.limit)
    return PassUse(
        registry.unique_name(step.cls), _plain_options(step), step.on_failure, step.tolerance
    )


def _plain_options(step: PassStep) -> PlainDict:
    """Return the options that differ from their defaults, as YAML would hold them."""
    if step.options == plain_defaults(step.cls):
        return {}
    changed = {
        key
        for key, info in option_fields(step.cls).items()
        if info.is_required()
        or step.options[key] != info.get_default(call_default_factory=True)
    }
    try:
        values: PlainDict = to_jsonable_python(
            {key: step.options[key] for key in step.options if key in changed},
            inf_nan_mode="constants",
        )
        format_value(values)
    except (PydanticSerializationError, TypeError) as error:
        raise ConfigError(
            f"an option of {step.cls.name} has a value that no text stands for: {error}",
            where=step.where,
        ) from error
    return values


def _passes(steps: Sequence[ResolvedStep]) -> Iterator[PassStep]:
    for step in steps:
        if isinstance(step, PassStep):
            yield step
        elif isinstance(step, GroupStep):
            yield from _passes(step.steps)


_SECTIONS = {
    "convert-layouts": "layouts",
    "infer-thresholds": "infer_thresholds",
    "model-checker": "model_checker",
    "shape-inference": "shape_inference",
}

EXHAUSTIVE_LIMIT = 100


def resolve(config: PipelineConfig) -> ResolvedPipeline:
    """Import the modules of a pipeline, and look up every pass and metric that it names.

    ``exhaustive: true`` becomes a fixpoint around all steps.

    ConfigError if a module does not import, or a group of passes is given options.
    UnknownPassError, UnknownMetricError or OptionError for what does not exist or fit.
    """
    scope = import_modules(config)
    for name in config.verify.metrics:
        try:
            metrics.lookup(name)
        except UnknownMetricError as error:
            error.where = config.where("verify", "metrics", name)
            raise
    for index, waiver in enumerate(config.waivers):
        if waiver.pass_name is not None:
            _check_waived(waiver.pass_name, config.where("waivers", index, "pass"), scope)
    defaults = {name: _section(config, name, key) for name, key in _SECTIONS.items()}
    if isinstance(config.dump_after, tuple):
        for index, name in enumerate(config.dump_after):
            registry.lookup(name, where=config.where("dump_after", index), scope=scope)
    for_seed = is_for_seed(config.tree.data or {})
    known = translate_names(config.passes, for_seed=for_seed, scope=scope)
    steps = resolve_steps(known, defaults, scope)
    for index, name in enumerate(config.skip):
        where = located(config.tree.values.get(("skip", index)))
        left = _without(steps, registry.lookup(name, where=where, scope=scope))
        if left == steps:
            raise ConfigError(
                f"{name!r} is to be skipped, and the pipeline has no such pass", where=where
            )
        steps = left
    if config.exhaustive and steps:
        steps = (GroupStep("exhaustive", steps, "fixpoint", EXHAUSTIVE_LIMIT),)
    return ResolvedPipeline(steps)


def _check_waived(name: str, where: str | None, scope: Scope) -> None:
    found = registry.lookup(name, where=where, scope=scope)
    if len(found) > 1:
        raise ConfigError(
            f"{name!r} is a group of passes, and a waiver is of one pass",
            where=where,
            help=f"name one of {', '.join(cls.name for cls in found)}",
        )


def resolve_steps(
    steps: Sequence[Step],
    defaults: Mapping[str, PlainMapping] | None = None,
    scope: Scope = LIBRARY,
) -> tuple[ResolvedStep, ...]:
    """Look up passes; a registered group becomes its passes, and those of `scope` win.

    `defaults` are options of the library's passes by name, for what a step does not give.
    """
    return tuple(f for step in steps for f in _resolve(step, defaults or {}, scope))


def _without(
    steps: Sequence[ResolvedStep], skipped: Sequence[type[Pass]]
) -> tuple[ResolvedStep, ...]:
    """Leave out passes; one that applies them among others leaves them out."""
    left: list[ResolvedStep] = []
    for step in steps:
        if isinstance(step, GroupStep):
            if inner := _without(step.steps, skipped):
                left.append(replace(step, steps=inner))
        elif not isinstance(step, PassStep):
            left.append(step)
        elif step.cls not in skipped:
            made = step.make({}, {}) if "exclude" in step.options else None
            members: Iterable[type[Pass]] = getattr(made, "members", tuple)()
            names = [cls.name for cls in members if cls in skipped]
            if names:
                names = [*step.options["exclude"], *names]
                step = replace(step, options={**step.options, "exclude": tuple(names)})
            left.append(step)
    return tuple(left)


def note_of_presets(config: PipelineConfig) -> list[str]:
    """Return which steps have a name that a group of passes and a shipped pipeline have."""
    scope, shipped = import_modules(config), shipped_configs()
    named = [
        step.name
        for step in config.passes
        if isinstance(step, PassUse)
        and not (step.places.name and step.places.name.source.name in shipped)
    ]
    return [
        f"{name!r} among the steps is the group of {len(found)} passes; the shipped "
        f"pipeline of this name is meant by 'extends: {name}' and '-c {name}'"
        for name in dict.fromkeys(named)
        if name in shipped
        and registry.is_known(name)
        and (found := registry.lookup(name, scope=scope))
    ]


def _section(config: PipelineConfig, name: str, key: str) -> PlainMapping:
    """Return the default options of a pass that has a section of its own."""
    options: PlainDict = getattr(config, key)
    if options:
        (cls,) = registry.lookup(name, where=config.where(key))
        places = Places.of(config.span(key), config.tree, (key,))
        _validated(cls, options, places)
    return options


def _resolve(
    step: Step, defaults: Mapping[str, PlainMapping], scope: Scope
) -> list[ResolvedStep]:
    where = located(step.places.name)
    if isinstance(step, Checkpoint):
        return [CheckpointStep(step.name, where)]
    if isinstance(step, Group):
        inner = resolve_steps(step.steps, defaults, scope)
        return [GroupStep(step.name, inner, step.repeat, step.limit, where)]
    try:
        classes = registry.lookup(step.name, where=where, scope=scope)
    except UnknownPassError as error:
        if step.name not in (shipped := shipped_configs()):
            if near := nearest(step.name, shipped, cutoff=0.8):
                error.help = f"did you mean the shipped pipeline {near[0]!r}?"
            raise
        if step.options or step.on_failure or step.tolerance:
            raise ConfigError(
                f"{step.name!r} is a shipped pipeline, which has no options",
                where=where,
                help="give them to its passes: copy what "
                f"'onnx-passes config show {step.name}' prints",
            ) from None
        return list(resolve_steps(shipped_steps(step.name), defaults, scope))
    if not classes and not step.options:  # as the seed system calls a checkpoint
        return [CheckpointStep(step.name, where)]
    if not classes:
        raise ConfigError(f"{step.name!r} is a checkpoint, which has no options", where=where)
    if len(classes) > 1 and step.options:
        raise ConfigError(
            f"{step.name!r} is a group of passes, which has no options",
            where=located(step.places.option(next(iter(step.options)))),
            help=f"give them to one of {', '.join(cls.name for cls in classes)}",
        )
    return [
        PassStep(
            cls,
            _validated(cls, {**_defaults(cls, defaults), **step.options}, step.places),
            step.on_failure,
            step.tolerance,
            where,
        )
        for cls in classes
    ]


def _defaults(cls: type[Pass], defaults: Mapping[str, PlainMapping]) -> PlainMapping:
    return defaults.get(cls.name, {}) if is_shipped(cls) else {}


def _validated(cls: type[Pass], options: PlainMapping, places: Places) -> PlainMapping:
    try:
        return validate_options(cls, options)
    except OptionError as error:
        unknown = next((key for key in options if key not in option_fields(cls)), None)
        if unknown is not None:
            error.where = located(places.option(unknown))
        elif isinstance(cause := error.__cause__, ValidationError):
            location = cause.errors(include_url=False)[0]["loc"]
            option = str(location[0]) if location else ""
            error.where = located(places.option(option, value=True))
        raise


PRECISIONS = {
    "float16": "convert-float16",
    "int8": "quantize-dynamic",
    "int8-static": "quantize-static",
    "int4": "quantize-weights{weights=int4,block=32}",
}
"""The pass of a precision."""

_ON_DATA = {
    *("correct-biases", "quantize-static", "smooth-activations", "tune"),
    "quantize-weights-gptq",
}
"""Passes that need data wherever there is a layer."""
_LAYERS = {"Conv", "Gemm", "MatMul"}
_LEAST_COSINE, _LEAST_COSINE_4_BITS, _LEAST_AGREEMENT = 0.99, 0.95, 0.99
_LEAST_SNR, _LEAST_SNR_4_BITS = 17.0, 10.0
"""Decibels: the error of vectors of one length between which the cosine is the least."""
_FEW_BITS = {"int4", "uint4", "int2", "uint2"}


def with_budget(
    config: PipelineConfig, model: ir.Model, *, given: bool = False
) -> tuple[PipelineConfig, list[str]]:
    """Return a pipeline with a budget for its passes that promise metrics, and a note of it.

    Nothing changes if the pipeline has a budget, or no such pass, or checks nothing. `given`
    says that there are other samples than the pipeline's. ConfigError if a pass needs data,
    and there is none.
    """
    given = given or config.reference.inputs is not None
    data = given or config.reference.data is not None
    steps = resolve(config).passes
    lacking = [s for s in steps if s.cls.name in _ON_DATA and not s.options.get("data")]
    if lacking and not data and any(n.op_type in _LAYERS for n in all_nodes(model)):
        raise ConfigError(
            f"{lacking[0].cls.name} needs data, and there is none",
            where=lacking[0].where,
            help="give --calib FOLDER, or reference.inputs in the pipeline file",
        )
    if not config.verify.enabled or config.verify.metrics or config.verify.accuracy:
        return config, []
    found = [step for step in steps if Metric() in step.cls.contracts()]
    if not found:
        return config, []
    floats = [v for v in model.graph.outputs if v.dtype is None or v.dtype.is_floating_point()]
    if not floats or not any(map(_is_measured, model.graph.outputs)):
        return config, ["no output is of floats, which a budget could hold: give --metric"]
    few = any(map(_has_few_bits, found))
    least = _LEAST_COSINE_4_BITS if few else _LEAST_COSINE
    ranges = {"cosine": (least, 1.0)}
    told = f"the cosine of each output and sample is at least {least:g}"
    if any(map(_is_one_number, floats)):
        # Any two numbers of one sign have a cosine of 1.
        decibels = _LEAST_SNR_4_BITS if few else _LEAST_SNR
        ranges["snr"] = (decibels, math.inf)
        told += f", and the snr at least {decibels:g} dB, as an output has one number a row"
    shape = model.graph.outputs[0].shape
    if given and shape is not None and len(shape) == 2 and shape[1] != 1:
        ranges["top_1_agreement"] = (_LEAST_AGREEMENT, 1.0)
        told += f", and the largest class is the same in {_LEAST_AGREEMENT:.0%} of the rows"
    verify = config.verify.model_copy(update={"metrics": ranges})
    names = ", ".join(dict.fromkeys(step.cls.name for step in found))
    note = f"budget of {names}, as none is given: {told}; --metric NAME=LOW:HIGH sets another"
    return config.model_copy(update={"verify": verify}), [note]


def _is_measured(output: ir.Value) -> bool:
    """Whether a metric measures an output: no sequence, no map, and no text."""
    joined = isinstance(output.type, ir.SequenceType | ir.OptionalType)
    texts = output.dtype == ir.DataType.STRING
    return not joined and not texts and not makes_map(output.producer())


def _is_one_number(output: ir.Value) -> bool:
    return output.shape is not None and (len(output.shape) == 0 or output.shape[-1] == 1)


def _has_few_bits(step: PassStep) -> bool:
    return bool(_FEW_BITS & {value for value in step.options.values() if type(value) is str})
