"""Where passes come from: the library, and packages that announce some."""

from __future__ import annotations

import importlib
import pkgutil
from importlib.metadata import entry_points

from onnx_passes.errors import ConfigError
from onnx_passes.library_index import ENTRY_POINTS, FOLDER, PACKAGE


def import_library() -> None:
    """Import every module of the library that may hold passes."""
    for module in pkgutil.walk_packages([str(FOLDER)], f"{PACKAGE}."):
        if not module.name.rpartition(".")[2].startswith("_"):
            importlib.import_module(module.name)


def import_announced() -> None:
    """Import the passes that installed packages announce by an entry point.

    Raises:
        ConfigError: One of them fails to import.
    """
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            entry.load()
        except Exception as error:
            raise ConfigError(
                f"the package of entry point {entry.name!r} fails to import: {error}",
                help=f"repair or uninstall the package that provides {entry.value!r}",
            ) from error
