"""The plugins that TensorRT has registered, asked in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from onnx_passes.errors import ConfigError, EngineCrashedError, EngineTimeoutError
from onnx_passes.runtime.tensorrt.bindings import Package, load_bindings
from onnx_passes.runtime.tensorrt.log import Log
from onnx_passes.runtime.tensorrt.plugins import load_plugins

_TOLD = 3


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
    code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import main; main()"
    command = [sys.executable, "-P", "-c", code, package, *libraries]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
        )
    except subprocess.TimeoutExpired as error:
        raise EngineTimeoutError(
            f"{package} did not tell its plugins within {seconds:g} s"
        ) from error
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        said = " / ".join(done.stderr.strip().splitlines()[-_TOLD:]) or "it says nothing"
        raise EngineCrashedError(f"{package} ended the process that lists plugins: {said}")
    told = json.loads(lines[-1])
    if isinstance(told, dict):
        raise ConfigError(told["error"], help=told["help"])
    found: list[dict[str, str]] = told
    return found


def main() -> None:
    """Print the plugins as JSON: the package and libraries are given."""
    package: Package = "tensorrt" if sys.argv[1] == "tensorrt" else "tensorrt-rtx"
    trt = load_bindings(package)
    try:
        load_plugins(trt, Log(trt, "error"), sys.argv[2:])
        told: Any = [_plain(one) for one in trt.get_plugin_registry().all_creators]
    except ConfigError as error:
        told = {"error": error.message, "help": error.help}
    print(json.dumps(told), flush=True)


def _plain(creator: Any) -> dict[str, str]:
    return {
        "name": str(creator.name),
        "version": str(creator.plugin_version),
        "namespace": str(creator.plugin_namespace),
    }
