"""Where states are saved for ``--resume``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx_passes.configs.schema import PipelineConfig

VARIABLE = "ONNX_PASSES_CACHE"
_OFF = ("", "0", "false", "no", "off")


def cache_folder(config: PipelineConfig) -> Path | None:
    """Return the folder that the pipeline file, the environment or the platform names.

    Returns:
        The folder, which need not exist; None if states are not saved, or if there is no
        home folder.
    """
    if config.cache is not None:
        return config.folder.absolute() / config.cache if config.cache else None
    return default_folder()


def default_folder() -> Path | None:
    """Return the folder that the environment or the platform names; None for none."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return None if named.lower() in _OFF else Path(named).absolute()
    # The XDG specification has relative paths ignored.
    given = os.environ.get("XDG_CACHE_HOME", "")
    try:
        caches = Path(given) if os.path.isabs(given) else Path.home() / ".cache"
    except RuntimeError:
        return None
    return caches / "onnx-passes"
