"""Libraries of plugins, loaded before a model is parsed or an engine brought back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from onnx_passes.errors import ConfigError
from onnx_passes.runtime.tensorrt.log import BuildLog

_loaded: set[str] = set()


def load_plugins(trt: ModuleType, log: BuildLog, paths: Sequence[str]) -> None:
    """Register NVIDIA's own plugins, and those of libraries; each library once a process.

    Args:
        trt: The bindings.
        log: What they log to.
        paths: Files of shared libraries.

    Raises:
        ConfigError: A library is not there, or registers nothing.
    """
    trt.init_libnvinfer_plugins(log.listener, "")
    registry = trt.get_plugin_registry()
    for path in paths:
        place = str(Path(path).absolute())
        if place in _loaded:
            continue
        if not Path(place).is_file():
            raise ConfigError(f"plugins: there is no file {path}")
        try:
            handle = registry.load_library(place)
        except RuntimeError as error:
            raise ConfigError(f"plugins: {path} cannot be loaded: {error}") from error
        if handle is None:
            said = "; ".join(log.errors) or "its plugins may be registered already"
            raise ConfigError(
                f"plugins: {path} registers nothing: {said}",
                help="install what it needs, or build it for this version of TensorRT",
            )
        _loaded.add(place)
