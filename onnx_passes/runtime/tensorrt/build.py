"""A model through the parser and the builder, to the bytes of an engine."""

from __future__ import annotations

import importlib
from types import ModuleType

import onnx_ir as ir

from onnx_passes.errors import (
    ConfigError,
    EngineBuildError,
    EngineError,
    EngineUnavailableError,
)
from onnx_passes.runtime.interface import did_you_mean
from onnx_passes.runtime.tensorrt.binding_types import TrtCache, TrtConfig, TrtMember
from onnx_passes.runtime.tensorrt.bindings import Package, load_bindings, network_flags
from onnx_passes.runtime.tensorrt.cuda_driver import device, gpu_count
from onnx_passes.runtime.tensorrt.engine_options import TensorRtOptions
from onnx_passes.runtime.tensorrt.engine_store import load_bytes, save_engine
from onnx_passes.runtime.tensorrt.log import BuildLog
from onnx_passes.runtime.tensorrt.parse import parse
from onnx_passes.runtime.tensorrt.plugin_libraries import load_plugins
from onnx_passes.runtime.tensorrt.profiles import add_profiles
from onnx_passes.runtime.user_output import forward_output

_MOST_ERRORS = 3


def build(
    package: Package, options: TensorRtOptions, model: ir.Model, log: BuildLog | None = None
) -> bytes:
    """Compile a model.

    Args:
        package: Whose compiler.
        options: How.
        model: The model; it is not changed.
        log: What it logs to; by default one that ends with the build.

    Returns:
        The engine, serialised. Two builds of one model differ.

    Raises:
        EngineUnavailableError: The package is not on this machine, or needs a GPU for this.
        UnsupportedModelError: The parser refuses the model.
        EngineBuildError: The parser takes the model, and the builder does not compile it.
        ConfigError: An option does not fit the package or the model.
    """
    trt = load_bindings(package)
    log = log or BuildLog(trt, options.verbosity)
    _needs_gpu(package, options)
    try:
        # The bindings free each in any order, and need the ones before it alive: all stay
        # local names until the end.
        builder = trt.Builder(log.listener)
        network = builder.create_network(network_flags(trt))
        parser = trt.OnnxParser(network, log.listener)
    except (TypeError, RuntimeError) as error:  # pybind11 has no object to give
        raise EngineUnavailableError(
            f"{package} cannot start: {'; '.join(log.errors) or error}",
            help="check the driver of the GPU: nvidia-smi",
        ) from error
    load_plugins(trt, log, options.plugins)
    try:
        parse(parser, model)
        _call(options.network_hook, "network_hook", trt, network)
        if options.watch and not network.mark_unfused_tensors_as_debug_tensors():
            raise EngineBuildError(f"{package} marks no debug tensors: {_quote_log(log)}")
        config = builder.create_builder_config()
        cache = configure(trt, config, options)
        _call(options.config_hook, "config_hook", trt, config)
        add_profiles(builder, network, config, options.profiles)
        plan = builder.build_serialized_network(network, config)
        if plan is None:
            raise EngineBuildError(f"the builder does not compile it: {_quote_log(log)}")
    except EngineError as error:
        error.where = error.where or log.text
        raise
    if cache is not None:
        save_engine(options.timing_cache, bytes(cache.serialize()), "timing_cache")
    data = bytes(plan)
    if options.save:
        save_engine(options.save, data, "save")
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
    if not options.compute_capabilities:  # TensorRT for RTX builds for its own GPU then
        raise EngineUnavailableError(
            "there is no GPU to build for on this machine",
            help="name compute_capabilities, such as [8.9]",
        )


def _call(hook: str, option: str, trt: ModuleType, subject: object) -> None:
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
        with forward_output():
            found(trt, subject)
    except Exception as error:
        raise EngineError(
            f"{option} {hook} failed: {type(error).__name__}: {error}"
        ) from error


def _quote_log(log: BuildLog) -> str:
    return "; ".join(log.errors[-_MOST_ERRORS:]) or "it gives no reason"


def configure(trt: ModuleType, config: TrtConfig, options: TensorRtOptions) -> TrtCache | None:
    """Set the options on a builder's config.

    Args:
        trt: The bindings.
        config: The builder's config; it is changed.
        options: The options of the engine.

    Returns:
        The timing cache; None without one.

    Raises:
        ConfigError: An option does not fit the package, or its file.
    """
    if not options.tf32:
        config.clear_flag(trt.BuilderFlag.TF32)
    if options.profile:
        config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    if options.optimization_level is not None:
        config.builder_optimization_level = options.optimization_level
    if options.workspace is not None:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, options.workspace)
    for name, size in options.memory_pools:
        pool = _member(trt, "MemoryPoolType", name, "memory_pools")
        config.set_memory_pool_limit(pool, size)
    if options.hardware_compatibility != "none":
        _no_rtx(trt, "hardware_compatibility", "name compute_capabilities")
        name = options.hardware_compatibility
        config.hardware_compatibility_level = _member(
            trt, "HardwareCompatibilityLevel", name, "hardware_compatibility"
        )
    if options.version_compatible:
        _no_rtx(trt, "version_compatible", "build again with each version")
        config.set_flag(trt.BuilderFlag.VERSION_COMPATIBLE)
        # A later version has none of the libraries that the engine was built with.
        config.plugins_to_serialize = list(options.plugins)
    if options.compute_capabilities:
        _target(trt, config, options.compute_capabilities)
    elif hasattr(trt, "ComputeCapability"):
        _target_here(trt, config)
    if not options.timing_cache:
        return None
    known = load_bytes(options.timing_cache, "timing_cache", missing=b"")
    cache = config.create_timing_cache(known)
    if cache is None or not config.set_timing_cache(cache, False):
        raise ConfigError(
            f"timing_cache: {options.timing_cache} is of another version or GPU",
            help="remove the file, or name another",
        )
    return cache


def _target(trt: ModuleType, config: TrtConfig, wanted: tuple[str, ...]) -> None:
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


def _target_here(trt: ModuleType, config: TrtConfig) -> None:
    """Build for the GPU of this machine; the package's default is a set that may lack it."""
    here = device()
    assert here is not None, "without a GPU, capabilities are named"
    members = trt.ComputeCapability.__members__
    name = f"SM{here.capability.replace('.', '')}"
    config.num_compute_capabilities = 1
    config.set_compute_capability(members.get(name, trt.ComputeCapability.CURRENT), 0)


def _member(trt: ModuleType, enumeration: str, name: str, option: str) -> TrtMember:
    # An enumeration of the bindings lists its members by name.
    members = getattr(trt, enumeration).__members__
    if name.upper() not in members:
        known = [one.lower() for one in members]
        raise ConfigError(
            f"{option}: {trt.__name__} has no {name!r}", help=did_you_mean(name, known)
        )
    found: TrtMember = members[name.upper()]
    return found


def _no_rtx(trt: ModuleType, option: str, instead: str) -> None:
    if hasattr(trt, "ComputeCapability"):
        raise ConfigError(
            f"{option}: TensorRT for RTX does not support it",
            help=f"leave the option out, and {instead}; or use tensorrt",
        )
