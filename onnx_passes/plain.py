"""Data without types of its own: plain data, and objects of libraries without types."""

from __future__ import annotations

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
