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
from onnx_passes.runtime.tensorrt.bindings import Package, load_bindings, network_flags
from onnx_passes.runtime.tensorrt.configure import configure
from onnx_passes.runtime.tensorrt.cuda_driver import gpu_count
from onnx_passes.runtime.tensorrt.engine_options import TensorRtOptions
from onnx_passes.runtime.tensorrt.engine_store import save_engine
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
