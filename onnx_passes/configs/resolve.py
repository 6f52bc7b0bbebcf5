"""From names to passes: the pipeline that runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from onnx_passes.configs.format_text import format_steps, format_value
from onnx_passes.configs.imports import import_modules
from onnx_passes.configs.load import shipped_configs
from onnx_passes.configs.problems import located
from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.configs.sections import OutputTolerance, Policy
from onnx_passes.configs.steps import Checkpoint, Group, PassUse, Places, Repeat, Step
from onnx_passes.configs.text import parse_pipeline
from onnx_passes.configs.translate import translate_names
from onnx_passes.contracts import metrics
from onnx_passes.errors import (
    ConfigError,
    OnnxPassesError,
    OptionError,
    PassError,
    UnknownMetricError,
    UnknownPassError,
)
from onnx_passes.passes import registry
from onnx_passes.passes.base import Pass, is_shipped
from onnx_passes.passes.options import option_fields, plain_defaults, validate_options
from onnx_passes.passes.seed_names import is_for_seed

_SECTIONS = {
    "convert-layouts": "layouts",
    "infer-thresholds": "infer_thresholds",
    "model-checker": "model_checker",
    "shape-inference": "shape_inference",
}

EXHAUSTIVE_LIMIT = 100


@dataclass(frozen=True)
class PassStep:
    """A pass to run.

    Attributes:
        cls: Its class.
        options: All its options, checked and converted.
        on_failure: What to do if it fails, where that differs from the pipeline's.
        tolerance: Its tolerance, where that differs from the pipeline's.
        where: Excerpt of the place it was written at.
    """

    cls: type[Pass]
    options: Mapping[str, Any]
    on_failure: Policy | None = None
    tolerance: OutputTolerance | None = None
    where: str | None = field(default=None, compare=False, repr=False)

    @property
    def text(self) -> str:
        """The pass and its options, as they read in a pipeline text."""
        return format_steps([_unresolved(self)])

    def make(self, config: dict[str, Any], state: dict[str, Any]) -> Pass:
        """Create the pass.

        Args:
            config: The pipeline file as plain data.
            state: The data that passes of a run share.

        Raises:
            PassError: Its own constructor raises.
        """
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
    """Steps that belong together.

    Attributes:
        name: What a report calls them.
        steps: The steps.
        repeat: "once", or "fixpoint" to repeat them until the model stops changing.
        limit: Number of rounds after which a fixpoint has failed.
        where: Excerpt of the place it was written at.
    """

    name: str
    steps: tuple[ResolvedStep, ...]
    repeat: Repeat = "once"
    limit: int = 20
    where: str | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class CheckpointStep:
    """A point at which the whole model is held against the original.

    Attributes:
        name: What a report calls it.
        where: Excerpt of the place it was written at.
    """

    name: str
    where: str | None = field(default=None, compare=False, repr=False)


ResolvedStep: TypeAlias = PassStep | GroupStep | CheckpointStep


@dataclass(frozen=True)
class ResolvedPipeline:
    """What runs: the steps, in order."""

    steps: tuple[ResolvedStep, ...]

    @property
    def passes(self) -> tuple[PassStep, ...]:
        """Every pass once, in order, those in groups included."""
        return tuple(_passes(self.steps))


def resolve(config: PipelineConfig) -> ResolvedPipeline:
    """Import the modules of a pipeline, and look up every pass and metric that it names.

    ``exhaustive: true`` becomes a fixpoint around all steps.

    Raises:
        ConfigError: A module does not import, or a group of passes is given options.
        UnknownPassError: A pass is not registered.
        OptionError: A pass has no such option, or its value does not fit.
        UnknownMetricError: A metric is not registered.
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
    if config.exhaustive and steps:
        steps = (GroupStep("exhaustive", steps, "fixpoint", EXHAUSTIVE_LIMIT),)
    return ResolvedPipeline(steps)


def _check_waived(name: str, where: str | None, scope: registry.Scope) -> None:
    found = registry.lookup(name, where=where, scope=scope)
    if len(found) > 1:
        raise ConfigError(
            f"{name!r} is a group of passes, and a waiver is of one pass",
            where=where,
            help=f"name one of {', '.join(cls.name for cls in found)}",
        )


def resolve_steps(
    steps: Sequence[Step],
    defaults: Mapping[str, Mapping[str, Any]] | None = None,
    scope: registry.Scope = registry.LIBRARY,
) -> tuple[ResolvedStep, ...]:
    """Look up the passes of some steps.

    Args:
        steps: The steps. A registered group of passes becomes its passes.
        defaults: Options of the library's passes by name, for what a step does not give.
        scope: Whose passes win over those of the library.
    """
    return tuple(f for step in steps for f in _resolve(step, defaults or {}, scope))


def format_pipeline(pipeline: ResolvedPipeline) -> str:
    """Return a text that :func:`read_pipeline` reads back to the same pipeline.

    Options that have the default of their class are left out.

    Raises:
        ConfigError: An option has a value that no text can express.
    """
    return format_steps([_unresolved(step) for step in pipeline.steps])


def read_pipeline(text: str) -> ResolvedPipeline:
    """Return the pipeline that a text describes; see :func:`format_pipeline`."""
    return ResolvedPipeline(resolve_steps(parse_pipeline(text)))


def _section(config: PipelineConfig, name: str, key: str) -> Mapping[str, Any]:
    """Return the default options of a pass that has a section of its own."""
    options: dict[str, Any] = getattr(config, key)
    if options:
        (cls,) = registry.lookup(name, where=config.where(key))
        places = Places.of(config.span(key), config.tree, (key,))
        _validated(cls, options, places)
    return options


def _resolve(
    step: Step, defaults: Mapping[str, Mapping[str, Any]], scope: registry.Scope
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
        if step.name in shipped_configs():
            error.help = (
                f"{step.name!r} is a shipped pipeline: run it with '-c {step.name}', or copy "
                f"the steps that 'onnx-passes config check {step.name}' prints"
            )
        raise
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


def _defaults(cls: type[Pass], defaults: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    return defaults.get(cls.name, {}) if is_shipped(cls) else {}


def _validated(
    cls: type[Pass], options: Mapping[str, Any], places: Places
) -> Mapping[str, Any]:
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


def _unresolved(step: ResolvedStep) -> Step:
    if isinstance(step, CheckpointStep):
        return Checkpoint(step.name)
    if isinstance(step, GroupStep):
        inner = tuple(_unresolved(s) for s in step.steps)
        return Group(inner, step.name, step.repeat, step.limit)
    return PassUse(
        registry.unique_name(step.cls), _plain_options(step), step.on_failure, step.tolerance
    )


def _plain_options(step: PassStep) -> dict[str, Any]:
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
        values: dict[str, Any] = to_jsonable_python(
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
