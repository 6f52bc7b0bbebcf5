"""Plain data: what JSON, YAML and the options of a command consist of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Plain: TypeAlias = Any
"""A text, number, truth value or None, or a list or dictionary of these."""

PlainDict: TypeAlias = dict[str, Any]
"""Values by name: texts, numbers, truth values, None, and lists and dictionaries of these."""

PlainMapping: TypeAlias = Mapping[str, Any]
"""The same, to read only."""
