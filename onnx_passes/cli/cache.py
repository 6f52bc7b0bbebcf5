"""Where verified states are kept."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx_passes.config.schema import PipelineConfig

VARIABLE = "ONNX_PASSES_CACHE"
_OFF = ("", "0", "false", "no", "off")


def cache_folder(config: PipelineConfig) -> Path | None:
    """Return the folder that the pipeline file, the environment or the platform names.

    The first of these that says anything counts.

    Returns:
        The folder, which need not exist; None where states are not to be kept, or where no
        folder is the user's.
    """
    if config.cache is not None:
        return config.folder.absolute() / config.cache if config.cache else None
    named = os.environ.get(VARIABLE)
    if named is not None:
        return None if named.lower() in _OFF else Path(named).absolute()
    try:
        return _user_caches() / "onnx-passes"
    except RuntimeError:  # no home folder
        return None


def _user_caches() -> Path:
    """Return the folder of the platform's conventions."""
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return Path(local) if local else Path.home() / "AppData" / "Local"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    # The XDG specification has relative paths ignored.
    given = os.environ.get("XDG_CACHE_HOME", "")
    return Path(given) if os.path.isabs(given) else Path.home() / ".cache"
