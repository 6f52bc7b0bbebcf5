"""Complaints about names that a session is asked for, the same for every engine."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence

from onnx_passes.errors import EngineError


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Return a help line: the nearest known name if one is near, and all of them."""
    near = difflib.get_close_matches(name, known, n=1)
    listing = ", ".join(sorted(known)) or "none"
    return f"did you mean {near[0]!r}? known: {listing}" if near else f"known: {listing}"


def check_names(
    fed: Collection[str],
    required: Sequence[str],
    wanted: Sequence[str],
    declared: Sequence[str],
    accepted: Collection[str] = (),
) -> None:
    """Check what ``Session.run`` is given against what the model declares.

    Args:
        fed: Names of the feeds.
        required: Graph inputs without initializer.
        wanted: Outputs asked for.
        declared: Graph outputs.
        accepted: Further inputs that may be fed: those that override an initializer.

    Raises:
        EngineError: A required feed is missing, or a name is not the model's.
    """
    for name in required:
        if name not in fed:
            raise EngineError(f"the input {name!r} is not fed", help=f"fed: {', '.join(fed)}")
    for name in fed:
        if name not in required and name not in accepted:
            raise EngineError(
                f"the model has no input {name!r}",
                help=did_you_mean(name, [*required, *accepted]),
            )
    for name in wanted:
        if name not in declared:
            raise EngineError(
                f"the model has no output {name!r}", help=did_you_mean(name, declared)
            )
