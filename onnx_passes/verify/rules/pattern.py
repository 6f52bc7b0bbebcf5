"""The pattern of a rule: onnxscript has no public accessor for it, nor for what is in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from onnxscript.rewriter import RewriteRule

PatternPart: TypeAlias = Any
"""A pattern, or a node, value or attribute of one: the classes of onnxscript are private."""


def pattern_of(rule: RewriteRule) -> PatternPart:
    """Return the pattern of a rule; to iterate over it yields its nodes."""
    return rule._target_pattern


def replacement_of(rule: RewriteRule) -> PatternPart:
    """Return what a rule replaces its pattern by."""
    return rule._replacement_pattern


def alternatives_of(value: PatternPart) -> Sequence[PatternPart] | None:
    """Return the alternatives of an Or pattern, or None for any other value."""
    found: Sequence[PatternPart] | None = getattr(value, "_values", None)
    if found is None and hasattr(value, "_op_to_pattern"):
        return [choice for _, choice in value._op_to_pattern.values()]
    return found
