"""The engines that a pipeline names, made."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from onnx_passes.configs.engine_text import read_memory_limit
from onnx_passes.configs.problems import located
from onnx_passes.configs.schema import EngineUse, PipelineConfig
from onnx_passes.configs.sections import When
from onnx_passes.errors import ConfigError
from onnx_passes.plain import PlainDict, PlainMapping
from onnx_passes.runtime.engine_base import Engine
from onnx_passes.runtime.engines import engine_from_config, engine_names


@dataclass(frozen=True)
class EngineStep:
    """An engine that checks, and when; `where` is an excerpt of the place in the file."""

    engine: Engine
    when: When
    where: str | None = field(default=None, compare=False, repr=False)


def resolve_engines(config: PipelineConfig) -> tuple[EngineStep, ...]:
    """Make the engines of a pipeline; none is started.

    Call it after ``resolve``, since ``imports:`` may register engines.

    ConfigError if there is no such engine or option, or a value does not fit.
    """
    return tuple(_engine(config, use) for use in config.engines)


def _engine(config: PipelineConfig, use: EngineUse) -> EngineStep:
    options = options_of(config, use)
    try:
        engine = _make(use.name, options, config)
    except ConfigError as error:
        culprit = _culprit(use.name, options, config) if use.name in engine_names() else None
        error.where = (
            located(use.places.option(culprit or ""))
            if culprit is None or culprit in use.options
            else located(config.tree.key(("onnxruntime", culprit)))
        )
        raise
    return EngineStep(engine, use.when, located(use.places.name))


def options_of(config: PipelineConfig, use: EngineUse) -> PlainDict:
    """Return the options of an engine, those for all engines of its name included."""
    shared = config.onnxruntime.engine_options() if use.name == "onnxruntime" else {}
    return {**shared, **use.options}


def _make(name: str, options: PlainMapping, config: PipelineConfig) -> Engine:
    known = dict(options)
    read_memory_limit(name, known)
    folders = [str(config.folder.absolute()), os.getcwd()]
    return engine_from_config(name, known, modules=config.imports, folders=folders)


def _culprit(name: str, options: PlainMapping, config: PipelineConfig) -> str | None:
    """Return the option that an engine refuses by itself."""
    child = {key: value for key, value in options.items() if key == "isolate"}
    for key, value in options.items():
        try:
            _make(name, {**child, key: value}, config)
        except ConfigError:
            return key
    return None
