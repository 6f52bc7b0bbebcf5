"""Verified passes over ONNX models.

The names in ``__all__`` are stable. All else may change between releases.
"""

from __future__ import annotations

from typing import Any

from onnx_passes import compat

__version__ = "1.0.0.dev0"
"""The version, from which the build takes that of the package."""

__all__ = [
    "OnnxPassesError",
    "RunResult",
    "TuneResult",
    "__version__",
    "certify",
    "compare",
    "inspect",
    "reduce",
    "run",
    "tune",
]

_HOMES = {
    **dict.fromkeys(("run", "RunResult"), "api.pipeline_runs"),
    **dict.fromkeys(("certify", "compare", "inspect", "reduce"), "api.model_jobs"),
    **dict.fromkeys(("tune", "TuneResult"), "api.model_jobs"),
    "OnnxPassesError": "errors",
}

compat.install()


def __getattr__(name: str) -> Any:
    # The program imports this package first, and starts in a fraction of a second.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
