"""Paths that a user names."""

from __future__ import annotations

import difflib
from pathlib import Path


def near_by(missing: Path) -> str | None:
    """Return the name beside a path that is not there that may be meant."""
    folder = missing.parent
    try:
        beside = [path.name for path in folder.iterdir()]
    except (OSError, ValueError):
        return None
    return next(iter(difflib.get_close_matches(missing.name, beside, n=1)), None)
