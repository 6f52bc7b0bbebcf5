"""Engines by the name that a pipeline file gives them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, get_args, get_origin, get_type_hints

from onnx_passes.errors import ConfigError, did_you_mean
from onnx_passes.plain import PlainDict
from onnx_passes.runtime.engine_base import Engine
from onnx_passes.runtime.isolated import (
    ChildSpec,
    IsolatedEngine,
    options_to_json,
    split_options,
)
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.runtime.reference import ReferenceEngine

Factory = Callable[[Mapping[str, object]], Engine]

_FACTORIES: dict[str, Factory] = {}
_ISOLATED: set[str] = set()


def register_engine(name: str, *, isolate: bool = False) -> Callable[[Factory], Factory]:
    """Register a function that makes an engine from the options of a pipeline file.

    ``isolate`` is the default of the option with that name. Raises ConfigError for a name that
    is registered.
    """

    def register(factory: Factory) -> Factory:
        if name in _FACTORIES:
            raise ConfigError(f"an engine {name!r} is already registered")
        _FACTORIES[name] = factory
        if isolate:
            _ISOLATED.add(name)
        return factory

    return register


def engine_names() -> list[str]:
    """Return the names that ``engine_from_config`` knows, sorted."""
    return sorted(_FACTORIES)


def engine_from_config(
    name: str,
    options: Mapping[str, object] | None = None,
    *,
    modules: Sequence[str] = (),
    folders: Sequence[str] = (),
) -> Engine:
    """Make an engine.

    Options are as in pipeline files; all engines have ``isolate``, ``time_limit`` (seconds)
    and ``memory_limit`` (bytes), None for no limit. A child process imports ``modules`` first,
    by default the one that registered the engine, and looks for modules in ``folders`` first.
    Raises ConfigError for what does not fit.
    """
    own, limits = split_options(name, options or {}, isolate=name in _ISOLATED)
    engine = make_engine(name, own)
    if limits is None:
        return engine
    module = _FACTORIES[name].__module__
    builtin = module.partition(".")[0] == __name__.partition(".")[0]
    needed = tuple(modules) or (() if builtin else (module,))
    home = ChildSpec(name, needed, tuple(folders), limits.memory_limit)
    return IsolatedEngine(engine, home, options_to_json(name, own), limits.time_limit)


def make_engine(name: str, options: Mapping[str, object]) -> Engine:
    """Make an engine that runs in this process.

    Raises ConfigError as ``engine_from_config`` does.
    """
    factory = _FACTORIES.get(name)
    if factory is None:
        raise ConfigError(f"unknown engine {name!r}", help=did_you_mean(name, _FACTORIES))
    return factory(options)


def check_options(cls: type[object], options: Mapping[str, object], engine: str) -> PlainDict:
    """Check options against the fields of an engine's dataclass.

    Returns arguments for ``cls``. Its fields are bool, int, str, Literal, strings or pairs of
    strings; a pipeline file has a list or one string, and a mapping for pairs. A ConfigError
    says what does not fit.
    """
    hints = get_type_hints(cls)
    fields = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]  # a dataclass
    arguments: PlainDict = {}
    for option, value in options.items():
        if option not in fields:
            raise ConfigError(
                f"the engine {engine!r} has no option {option!r}",
                help=did_you_mean(option, fields),
            )
        arguments[option] = _check(hints[option], value, f"{engine}.{option}")
    return arguments


def _check(hint: object, value: object, where: str) -> object:
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            choices = [str(choice) for choice in get_args(hint)]
            raise ConfigError(
                f"{where} cannot be {value!r}", help=did_you_mean(str(value), choices)
            )
        return value
    if hint == tuple[str, ...]:
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            raise ConfigError(f"{where} must be a list of text, not {value!r}")
        return tuple(items)
    if get_origin(hint) is tuple:
        if not isinstance(value, Mapping) or None in value.values():
            raise ConfigError(
                f"{where} must be a mapping with values, not {value!r}",
                help=f"write {where.rpartition('.')[2]}={{NAME: VALUE}}",
            )
        return tuple((str(key), _plain(item)) for key, item in value.items())
    if type(value) is not hint:
        raise ConfigError(f"{where} must be {getattr(hint, '__name__', hint)}, not {value!r}")
    return value


def _plain(value: object) -> str:
    # Providers take their options as text, with booleans as 0 and 1.
    return str(int(value)) if isinstance(value, bool) else str(value)


@register_engine("onnxruntime")
def _onnxruntime(options: Mapping[str, object]) -> Engine:
    engine = OnnxRuntimeEngine(**check_options(OnnxRuntimeEngine, options, "onnxruntime"))
    if engine.threads < 0:
        raise ConfigError(f"onnxruntime.threads must be at least 0, not {engine.threads}")
    if engine.provider == "CPUExecutionProvider" and engine.provider_options:
        # ONNX Runtime takes them without a word.
        raise ConfigError("onnxruntime.provider_options: CPUExecutionProvider has none")
    return engine


@register_engine("reference")
def _reference(options: Mapping[str, object]) -> Engine:
    return ReferenceEngine(**check_options(ReferenceEngine, options, "reference"))


# Sizes that do not fit each other, and strings, end the process that runs it.
@register_engine("openvino", isolate=True)
def _openvino(options: Mapping[str, object]) -> Engine:
    from onnx_passes.runtime.openvino import OpenVinoEngine

    engine = OpenVinoEngine(**check_options(OpenVinoEngine, options, "openvino"))
    if engine.threads < 0:
        raise ConfigError(f"openvino.threads must be at least 0, not {engine.threads}")
    if (kind := engine.device.partition(":")[0]) in ("AUTO", "BATCH", "HETERO", "MULTI"):
        raise ConfigError(
            f"openvino.device cannot be {engine.device!r}: {kind} chooses devices unseen",
            help="name one device: CPU, GPU, GPU.1, NPU",
        )
    return engine


# Without a GPU the library can end the process that it is loaded into.
@register_engine("tensorrt", isolate=True)
def _tensorrt(options: Mapping[str, object]) -> Engine:
    # Its options are a pydantic model, which takes longer to load than ONNX Runtime.
    from onnx_passes.runtime.tensorrt.engine import make_tensorrt

    return make_tensorrt("tensorrt", options)


@register_engine("tensorrt-rtx", isolate=True)
def _tensorrt_rtx(options: Mapping[str, object]) -> Engine:
    from onnx_passes.runtime.tensorrt.engine import make_tensorrt

    return make_tensorrt("tensorrt-rtx", options)
