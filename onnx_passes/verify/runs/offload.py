"""Weights moved from memory to a file, from which engines map them."""

from __future__ import annotations

import secrets
import tempfile
import weakref
from contextlib import ExitStack
from pathlib import Path

import onnx_ir as ir

from onnx_passes.errors import UsageError
from onnx_passes.model.load import load_model
from onnx_passes.model.tensor_file import TensorFile

SMALL = 1 << 16
"""Bytes below which a weight stays in memory."""


def load_offloaded(path: str | Path) -> ir.Model:
    """Read a model whose large weights go from its file to a temporary one, not to memory.

    Raises:
        ModelError: It cannot be read.
        UsageError: The temporary folder has no room.
    """
    folder = tempfile.TemporaryDirectory(prefix="onnx-passes-")
    # Its name is not one that a model may have guessed.
    weights = Path(folder.name) / f"weights-{secrets.token_hex(8)}"
    with ExitStack() as stack:
        stack.callback(folder.cleanup)
        try:
            model = load_model(path, weights=weights).model
        except OSError as error:
            raise _no_room(error) from error
        if weights.exists():
            stack.pop_all()
            weakref.finalize(model, folder.cleanup)
    return model


def offload(model: ir.Model) -> None:
    """Move the large weights of a model to a temporary file, which is gone with the model.

    A model with weights in files is left as it is. Only who owns a model may call this.

    Raises:
        UsageError: The temporary folder has no room.
    """
    values = [
        value
        for value in model.graph.initializers.values()
        if value.const_value is not None
        and value.const_value.dtype != ir.DataType.STRING
        and value.const_value.nbytes >= SMALL
    ]
    if not values or any(isinstance(v.const_value, ir.ExternalTensor) for v in values):
        return
    try:
        file = TensorFile()
        for value in values:
            assert value.const_value is not None
            value.const_value = file.append(value.const_value)
    except OSError as error:
        raise _no_room(error) from error


def _no_room(error: OSError) -> UsageError:
    return UsageError(
        f"there is no room for the weights in the temporary folder: {error.strerror}",
        where=tempfile.gettempdir(),
        help="let TMPDIR name a folder with more room, or keep the weights in a file beside "
        "the model",
    )
