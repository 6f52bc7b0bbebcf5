"""z3, imported on first use."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from onnx_passes.errors import UsageError


@functools.cache
def z3() -> Any:
    """Return the z3 module.

    Raises:
        UsageError: z3 is not installed.
    """
    try:
        return importlib.import_module("z3")
    except ImportError:
        raise UsageError(
            "proving a rewrite rule needs the z3 solver, which is not installed",
            help="pip install 'onnx-passes[prove]'",
        ) from None
