"""Models from files and back, for who has them in hand in between."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir

from onnx_passes.model.load import load_model
from onnx_passes.model.save import save_model


def load(path: str | Path) -> ir.Model:
    """Read a model; weights in other files stay there until they are asked for.

    Raises:
        ModelError: It cannot be read.
    """
    return load_model(path).model


def save(model: ir.Model, path: str | Path) -> None:
    """Write a model; beyond 2 GiB its weights go to a file beside it.

    Args:
        model: The model.
        path: The file; its extension decides the form.

    Raises:
        ModelError: It cannot be written.
    """
    save_model(model, Path(path))
