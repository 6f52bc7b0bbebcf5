"""z3, imported on first use."""

from __future__ import annotations

import functools
import importlib
from typing import Any, TypeAlias

from onnx_passes.errors import UsageError

Term: TypeAlias = Any
"""A term, sort, solver or model of z3, which has no types."""


@functools.cache
def z3() -> Term:
    """Return the z3 module.

    Raises:
        UsageError: z3 is not installed.
    """
    try:
        return importlib.import_module("z3")
    except ImportError:
        raise UsageError(
            "proving a rewrite rule needs the z3 solver, which is not installed",
            help="in a checkout: pip install '.[prove]'",
        ) from None
