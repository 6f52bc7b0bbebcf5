"""What is asked of the certification of one rule, and the object that its name means."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any

from onnx_passes.errors import UsageError

GRACE = 120.0
"""Seconds on top of the time asked for: imports, shrinking, the last model."""


GIB = 1 << 30


@dataclass(frozen=True)
class Job:
    """What one child does.

    Attributes:
        subject: ``module:object``, where the rule or set of rules is found.
        index: Which rule of the subject; None for a pass that is not a rewrite rule.
        level: "test", "prove" or "all".
        seconds: For the property test.
        seed: Of all choices.
        folder: Where a refutation is written to; None for nowhere.
        memory: Address space in bytes.
        models: Models on which the rule fires, at most.
        faults: Faults of different sorts after which the test ends.
        grace: Seconds beyond ``seconds`` after which the child is ended.
    """

    subject: str
    index: int | None = 0
    level: str = "all"
    seconds: float = 10.0
    seed: int = 0
    folder: str | None = None
    memory: int = 8 * GIB
    models: int = 200
    grace: float = GRACE
    faults: int = 1


def resolve(subject: str) -> Any:
    """Return the object that ``module:object`` names; the current folder is searched as well.

    Raises:
        UsageError: It is not of that form, or the module or object is not there.
    """
    import importlib

    module_name, _, path = subject.partition(":")
    if not module_name or not path:
        raise UsageError(f"{subject!r} is not of the form module:object")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        raise UsageError(
            f"the module {module_name!r} does not import: {type(error).__name__}: {error}",
            help="run from the folder that holds it, or install it",
        ) from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise UsageError(f"the module {module_name!r} has no object {path!r}")
        found = getattr(found, part)
    return found
