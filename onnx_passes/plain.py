"""Data without types of its own: plain data as JSON has it, and objects of libraries."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

Plain: TypeAlias = Any
"""A text, number, truth value or None, or a list or dictionary of these."""

PlainDict: TypeAlias = dict[str, Any]
"""Values by name: texts, numbers, truth values, None, and lists and dictionaries of these."""

PlainMapping: TypeAlias = Mapping[str, Any]
"""The same, to read only."""

Foreign: TypeAlias = Any
"""A module or an object of a library without types, or of an optional one."""


def spelled(value: Plain) -> Plain:
    """Return plain data as JSON has it: NaN and the infinities are text."""
    if isinstance(value, dict):
        return {key: spelled(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [spelled(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
