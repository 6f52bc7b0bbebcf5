"""Weights moved from memory to a file, from which engines map them."""

from __future__ import annotations

import tempfile
import weakref
from pathlib import Path

import onnx_ir as ir

from onnx_passes.errors import UsageError
from onnx_passes.io.tensors import tensor_buffer

SMALL = 1 << 16
"""Bytes below which a weight stays in memory."""
_PAGE = 4096


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
    folder = tempfile.TemporaryDirectory(prefix="onnx-passes-")
    weakref.finalize(model, folder.cleanup)
    end = 0
    try:
        with open(Path(folder.name) / "weights", "wb") as file:
            for value in values:
                tensor = value.const_value
                assert tensor is not None
                file.write(b"\0" * (-end % _PAGE))
                end += -end % _PAGE
                size = file.write(tensor_buffer(tensor))
                value.const_value = ir.ExternalTensor(
                    "weights",
                    end,
                    size,
                    tensor.dtype,
                    shape=ir.Shape(tensor.shape.numpy()),
                    name=tensor.name or "",
                    base_dir=folder.name,
                )
                end += size
    except OSError as error:
        raise UsageError(
            f"there is no room for the weights in the temporary folder: {error.strerror}",
            where=tempfile.gettempdir(),
            help="let TMPDIR name a folder with more room, or keep the weights in a file "
            "beside the model",
        ) from error
