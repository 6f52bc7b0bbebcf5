"""A model, however the caller holds it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

import onnx
import onnx_ir as ir

from onnx_passes.errors import UsageError
from onnx_passes.model.copy import copy_model
from onnx_passes.model.load import load_model

AnyModel: TypeAlias = "str | os.PathLike[str] | onnx.ModelProto | ir.Model"
"""A path, ONNX's own model, or onnx-ir's."""


def take_model(model: AnyModel) -> tuple[ir.Model, str, list[str]]:
    """Return a model that may be changed, its name, and what was changed to read it.

    Args:
        model: It stays as it is; weights are shared with it.

    Raises:
        ModelError: The file cannot be read.
        UsageError: It is not a model.
    """
    if isinstance(model, str | os.PathLike):
        loaded = load_model(Path(model))
        return loaded.model, os.fspath(model), list(loaded.notes)
    if isinstance(model, onnx.ModelProto):
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        return ir.from_proto(copy), model.graph.name or "model", []
    if isinstance(model, ir.Model):
        return copy_model(model), model.graph.name or "model", []
    raise UsageError(
        f"{type(model).__name__} is not a model",
        help="give a path, an onnx.ModelProto or an onnx_ir.Model",
    )
