"""Sources of data on the command line, for a pipeline whose file is in another folder."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable


def as_yaml(sources: Iterable[str]) -> str:
    """Return sources as a list in YAML, with paths that hold in any folder.

    URLs and functions stay as they are.
    """
    return json.dumps([_absolute(source) for source in sources])


def _absolute(source: str) -> str:
    function = re.fullmatch(r"[\w.]+:\w+", source) and not os.path.exists(source)
    return source if "://" in source or function else os.path.abspath(source)
