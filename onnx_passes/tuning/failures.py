"""Why a model could not be built or run."""

from __future__ import annotations

from onnx_passes.errors import OnnxPassesError


def why_of(error: Exception) -> str:
    """Return why a model could not be built or run, in one clause.

    A fault in a pass is reported as well: a search ends with a valid model whatever happens.
    """
    if isinstance(error, OnnxPassesError):
        return error.message
    return f"it fails: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
