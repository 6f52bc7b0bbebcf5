"""A model through the parser and the builder, to the bytes of an engine."""

from __future__ import annotations

import importlib
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import onnx_ir as ir

from onnx_passes.errors import (
    ConfigError,
    EngineBuildError,
    EngineError,
    EngineUnavailableError,
)
from onnx_passes.io.atomic import pending
from onnx_passes.runtime.tensorrt.bindings import Package, gpu_count, load_bindings
from onnx_passes.runtime.tensorrt.log import Log
from onnx_passes.runtime.tensorrt.options import TensorRtOptions
from onnx_passes.runtime.tensorrt.parse import parse
from onnx_passes.runtime.tensorrt.profiles import add_profile

_MOST_ERRORS = 3


def build(package: Package, options: TensorRtOptions, model: ir.Model) -> bytes:
    """Compile a model.

    Args:
        package: Whose compiler.
        options: How.
        model: The model; it is not changed.

    Returns:
        The engine, serialised. Two builds of one model differ.

    Raises:
        EngineUnavailableError: The package is not on this machine, or needs a GPU for this.
        UnsupportedModelError: The parser refuses the model.
        EngineBuildError: The parser takes the model, and the builder does not compile it.
        ConfigError: An option does not fit the package or the model.
    """
    trt = load_bindings(package)
    log = Log(trt, options.verbosity)
    _needs_gpu(package, options)
    try:
        # The bindings free each in any order, and need the ones before it alive: all stay
        # local names until the end.
        builder = trt.Builder(log.listener)
        network = builder.create_network(_strongly_typed(trt))
        parser = trt.OnnxParser(network, log.listener)
    except (TypeError, RuntimeError) as error:  # pybind11 has no object to give
        raise EngineUnavailableError(
            f"{package} cannot start: {'; '.join(log.errors) or error}",
            help="check the driver of the GPU: nvidia-smi",
        ) from error
    parse(parser, model)
    _call(options.network_hook, "network_hook", trt, network)
    config = builder.create_builder_config()
    cache = _configure(trt, config, options)
    _call(options.config_hook, "config_hook", trt, config)
    add_profile(builder, network, config, options.profiles)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise _not_built(log)
    if cache is not None:
        _save(Path(options.timing_cache), bytes(cache.serialize()), "timing_cache")
    data = bytes(plan)
    if options.save:
        _save(Path(options.save), data, "save")
    return data


def _needs_gpu(package: Package, options: TensorRtOptions) -> None:
    if gpu_count():
        return
    if package == "tensorrt":
        raise EngineUnavailableError(
            "tensorrt builds only for the GPU of this machine, and there is none",
            help="run it on a machine with an NVIDIA GPU, or use tensorrt-rtx, which builds "
            "for named compute capabilities",
        )
    if not options.compute_capabilities:
        raise EngineUnavailableError(
            "there is no GPU to build for on this machine",
            help="name compute_capabilities, such as [8.9]",
        )


def _strongly_typed(trt: ModuleType) -> int:
    # The only kind in 11, where the flag is accepted and does nothing; 10 needs it.
    flag = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
    return 0 if flag is None else 1 << int(flag)


def _configure(trt: ModuleType, config: Any, options: TensorRtOptions) -> Any:
    if not options.tf32:
        config.clear_flag(trt.BuilderFlag.TF32)
    if options.optimization_level is not None:
        config.builder_optimization_level = options.optimization_level
    if options.workspace is not None:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, options.workspace)
    if options.compute_capabilities:
        _target(trt, config, options.compute_capabilities)
    if not options.timing_cache:
        return None
    known = b""
    with suppress(FileNotFoundError):
        known = Path(options.timing_cache).read_bytes()
    cache = config.create_timing_cache(known)
    if cache is None or not config.set_timing_cache(cache, False):
        raise ConfigError(
            f"timing_cache: {options.timing_cache} is of another version or GPU",
            help="remove the file, or name another",
        )
    return cache


def _target(trt: ModuleType, config: Any, wanted: tuple[str, ...]) -> None:
    if not hasattr(trt, "ComputeCapability"):
        raise ConfigError(
            "compute_capabilities: tensorrt builds for the GPU of this machine only",
            help="leave the option out, or use tensorrt-rtx",
        )
    names = [f"SM{one.replace('.', '')}" for one in wanted]
    # An enumeration of the bindings lists its members by name.
    members = trt.ComputeCapability.__members__
    for one, name in zip(wanted, names, strict=True):
        if name not in members:
            known = [f"{n[2:-1]}.{n[-1]}" for n in members if n.startswith("SM")]
            raise ConfigError(
                f"compute_capabilities: {trt.__name__} {trt.__version__} does not build for "
                f"{one}",
                help=f"it knows {', '.join(known)}",
            )
    config.num_compute_capabilities = len(names)
    for index, name in enumerate(names):
        config.set_compute_capability(members[name], index)


def _call(hook: str, option: str, trt: ModuleType, subject: Any) -> None:
    if not hook:
        return
    module, _, function = hook.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"{option}: {hook} cannot be found: {error}",
            help="list the module under 'imports', or put it beside the pipeline file",
        ) from error
    try:
        found(trt, subject)
    except Exception as error:
        raise EngineError(
            f"{option} {hook} failed: {type(error).__name__}: {error}"
        ) from error


def _not_built(log: Log) -> EngineBuildError:
    told = log.errors[-_MOST_ERRORS:]
    return EngineBuildError(
        f"the builder does not compile it: {'; '.join(told) or 'it gives no reason'}"
    )


def _save(path: Path, data: bytes, option: str) -> None:
    try:
        with pending(path) as file:
            file.write(data)
            file.publish(path)
    except OSError as error:
        raise ConfigError(f"{option}: {path}: {error.strerror or error}") from error
