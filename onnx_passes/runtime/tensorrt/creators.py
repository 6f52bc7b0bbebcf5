"""The plugins that TensorRT has registered, listed in a child process."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_passes.runtime.isolated_calls import call_alone
from onnx_passes.runtime.tensorrt.binding_types import TrtCreator
from onnx_passes.runtime.tensorrt.bindings import Package, load_bindings
from onnx_passes.runtime.tensorrt.log import BuildLog
from onnx_passes.runtime.tensorrt.plugin_libraries import load_plugins


def list_creators(
    package: Package, libraries: Sequence[str] = (), *, seconds: float = 120.0
) -> list[dict[str, str]]:
    """Return name, version and namespace of each plugin that is registered.

    Args:
        package: Whose registry.
        libraries: Files of shared libraries to load first.
        seconds: How long it may take.

    Raises:
        EngineUnavailableError: The package is not on this machine.
        ConfigError: A library is not there, or registers nothing.
        EngineTimeoutError: The time is up.
        EngineCrashedError: TensorRT or a library ended the process.
    """
    load_bindings(package)
    while_ = "listing its plugins"
    found: list[dict[str, str]] = call_alone(
        package, list_registered, package, list(libraries), while_=while_, seconds=seconds
    )
    return found


def list_registered(package: Package, libraries: Sequence[str]) -> list[dict[str, str]]:
    """Return the plugins that are registered in this process; see :func:`list_creators`.

    Args:
        package: Whose plugins they are.
        libraries: Files of libraries with further plugins.
    """
    trt = load_bindings(package)
    load_plugins(trt, BuildLog(trt, "error"), libraries)
    return [_plain(one) for one in trt.get_plugin_registry().all_creators]


def _plain(creator: TrtCreator) -> dict[str, str]:
    return {
        "name": str(creator.name),
        "version": str(creator.plugin_version),
        "namespace": str(creator.plugin_namespace),
    }
