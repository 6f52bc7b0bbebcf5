"""From class names to pipeline names, and from a wrong name to the likely right one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z0-9]+")


def pipeline_name(class_name: str) -> str:
    """Return ``merge-clips`` for ``MergeClips``."""
    return "-".join(word.lower() for word in _WORD.findall(class_name))


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return a sentence that suggests the known name closest to ``name``.

    Args:
        name: What was asked for.
        known: What there is.
        otherwise: The sentence if none is close.
    """
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.55)
    return f"did you mean {close[0]!r}?" if close else otherwise
