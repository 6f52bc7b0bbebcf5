"""The options of an engine, set on the config of a builder."""

from __future__ import annotations

from types import ModuleType

from onnx_passes.errors import ConfigError
from onnx_passes.runtime.interface import did_you_mean
from onnx_passes.runtime.tensorrt.binding_types import TrtCache, TrtConfig, TrtMember
from onnx_passes.runtime.tensorrt.cuda_driver import device
from onnx_passes.runtime.tensorrt.engine_options import TensorRtOptions
from onnx_passes.runtime.tensorrt.engine_store import load_bytes


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
