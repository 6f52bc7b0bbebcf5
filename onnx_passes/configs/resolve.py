"""From names to passes: the pipeline that runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pydantic import ValidationError

from onnx_passes.configs.imports import import_modules
from onnx_passes.configs.pipeline_text import parse_pipeline
from onnx_passes.configs.problems import located
from onnx_passes.configs.resolved import (
    CheckpointStep,
    GroupStep,
    PassStep,
    ResolvedPipeline,
    ResolvedStep,
)
from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.configs.shipped import shipped_configs, shipped_steps
from onnx_passes.configs.steps import Checkpoint, Group, PassUse, Places, Step
from onnx_passes.configs.translate import translate_names
from onnx_passes.contracts import metrics
from onnx_passes.errors import ConfigError, OptionError, UnknownMetricError, UnknownPassError
from onnx_passes.passes import registry
from onnx_passes.passes.base import Pass, is_shipped
from onnx_passes.passes.options import option_fields, validate_options
from onnx_passes.passes.pass_scope import LIBRARY, Scope
from onnx_passes.passes.seed_names import is_for_seed
from onnx_passes.plain import PlainDict, PlainMapping

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
    """Look up the passes of some steps.

    Args:
        steps: The steps. A registered group of passes becomes its passes.
        defaults: Options of the library's passes by name, for what a step does not give.
        scope: Whose passes win over those of the library.
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
    scope = import_modules(config)
    named = [
        step.name
        for step in config.passes
        if isinstance(step, PassUse)
        and not (step.places.name and step.places.name.source.name in shipped_configs())
    ]
    return [
        f"{name!r} among the steps is the group of {len(found)} passes; the shipped "
        f"pipeline of this name is meant by 'extends: {name}' and '-c {name}'"
        for name in dict.fromkeys(named)
        if name in shipped_configs()
        and registry.is_known(name)
        and (found := registry.lookup(name, scope=scope))
    ]


def read_pipeline(text: str) -> ResolvedPipeline:
    """Return the pipeline that a text describes; see :func:`format_pipeline`."""
    return ResolvedPipeline(resolve_steps(parse_pipeline(text)))


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
    except UnknownPassError:
        if step.name not in shipped_configs():
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
