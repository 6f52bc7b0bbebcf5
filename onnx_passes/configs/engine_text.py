"""An engine as a command names it: ``onnxruntime:CUDA{optimization=all}``."""

from __future__ import annotations

import os

from onnx_passes.configs.steps import PassUse, parse_pipeline
from onnx_passes.configs.yaml_tree import Source
from onnx_passes.errors import ConfigError, did_you_mean
from onnx_passes.passes.options import parse_size
from onnx_passes.plain import PlainDict
from onnx_passes.runtime.engine_base import Engine
from onnx_passes.runtime.engines import engine_from_config

_END = "ExecutionProvider"


def parse_engine(text: str, *, isolate: bool | None = None, lean: bool = False) -> Engine:
    """Make an engine; it is not started.

    An execution provider of ONNX Runtime may stand after a colon, short or in full. Where the
    text does not say, `isolate` decides on a child process, and `lean` that ONNX Runtime keeps
    no copies of weights. ConfigError if it is not an engine, or an option does not fit.
    """
    name, options = read_engine(text, isolate=isolate)
    if lean and name == "onnxruntime":
        options.setdefault("prepacking", False)
    try:
        return engine_from_config(name, options, folders=[os.getcwd()])
    except ConfigError as error:
        error.where = error.where or f"--engine {text}"
        raise


def read_engine(text: str, *, isolate: bool | None = None) -> tuple[str, PlainDict]:
    """Return the name and the options of an engine, as :func:`parse_engine` reads them.

    `isolate` counts if the text does not say; None is the default. ConfigError if it is not an
    engine.
    """
    steps = parse_pipeline(text, Source("--engine", text, is_file=False))
    match steps:
        case [PassUse(name=name, options=given, on_failure=None, tolerance=None)]:
            options: PlainDict = dict(given)
        case _:
            raise ConfigError(
                f"--engine {text!r} is not one engine",
                help="repeat --engine for several; options go in braces: "
                "onnxruntime{optimization=all}",
            )
    if isolate is not None:
        options.setdefault("isolate", isolate)
    name, colon, provider = name.partition(":")
    if colon:
        if name != "onnxruntime" or "provider" in options:
            raise ConfigError(
                f"--engine {text!r}: only onnxruntime has providers, and one of them",
                help="write onnxruntime:CUDA, or onnxruntime{provider=CUDAExecutionProvider}",
            )
        options["provider"] = _provider(provider, text)
    read_memory_limit(name, options)
    return name, options


def read_memory_limit(name: str, options: PlainDict) -> None:
    """Read the limit of memory among the options of an engine, if there is one."""
    if "memory_limit" in options:
        try:
            options["memory_limit"] = parse_size(options["memory_limit"])
        except ValueError as error:
            raise ConfigError(f"{name}.memory_limit: {error}") from error


def _provider(given: str, text: str) -> str:
    """Return the name that ONNX Runtime has for a provider, in whatever case it is written."""
    import onnxruntime as ort

    names = [*ort.get_available_providers(), *ort.get_all_providers()]
    known: dict[str, str] = {}
    for full in names:
        known.setdefault(full.removesuffix(_END).lower(), full)
    found = known.get(given.lower().removesuffix(_END.lower()))
    if found is None:
        raise ConfigError(
            f"ONNX Runtime has no execution provider {given!r}",
            where=f"--engine {text}",
            help=did_you_mean(given.lower(), known),
        )
    return found
