"""The installed Python bindings."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType, new_class
from typing import Literal

from onnx_passes.errors import EngineUnavailableError

Package = Literal["tensorrt", "tensorrt-rtx"]

MODULES: dict[Package, str] = {"tensorrt": "tensorrt", "tensorrt-rtx": "tensorrt_rtx"}
"""The module of each package."""

_DISTRIBUTIONS: dict[Package, tuple[str, ...]] = {
    "tensorrt": ("tensorrt", "tensorrt-cu13-bindings", "tensorrt-cu12-bindings"),
    "tensorrt-rtx": ("tensorrt-rtx", "tensorrt-rtx-cu13-bindings"),
}


def install_help(package: Package) -> str:
    """Return what installs a package."""
    return f"in a checkout: pip install '.[{package}]'"


def installed_version(package: Package) -> str | None:
    """Return the version of a package, found without loading its libraries; None without."""
    if importlib.util.find_spec(MODULES[package]) is None:
        return None
    for distribution in _DISTRIBUTIONS[package]:
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return "unknown"


def make_listener(base: type, *methods: Callable[..., object]) -> object:
    """Return what TensorRT calls back: an object of a class of the bindings.

    Args:
        base: The class.
        methods: Functions of ``self``, and of what TensorRT gives by position; each overrides
            the method of its name.
    """
    named = {method.__name__: method for method in methods}
    made: object = new_class("Listener", (base,), exec_body=lambda own: own.update(named))()
    return made


def network_flags(trt: ModuleType) -> int:
    """Return the flags of a strongly typed network: 11 has no other kind, and 10 needs it."""
    flag = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
    return 0 if flag is None else 1 << int(flag)


def load_bindings(package: Package) -> ModuleType:
    """Import the bindings of a package, with the libraries behind them.

    Raises:
        EngineUnavailableError: The package or one of its libraries is not on this machine.
    """
    if installed_version(package) is None:
        raise EngineUnavailableError(f"{package} is not installed", help=install_help(package))
    try:
        return importlib.import_module(MODULES[package])
    except (ImportError, OSError) as error:
        raise EngineUnavailableError(
            f"{package} cannot be loaded: {error}",
            help=f"its libraries are missing; {install_help(package)}",
        ) from error
