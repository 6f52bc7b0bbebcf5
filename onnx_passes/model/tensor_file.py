"""A temporary file of tensors, from which engines map them."""

from __future__ import annotations

import secrets
import tempfile
import weakref
from pathlib import Path

import onnx_ir as ir

from onnx_passes.model.tensor_bytes import tensor_buffer

_PAGE = 4096
_KEEPER = "onnx_passes.scratch"


class TensorFile:
    """A temporary file of tensors. It lives as long as any of them."""

    def __init__(self) -> None:
        """Make the folder of the file.

        Raises:
            OSError: The temporary folder has no room.
        """
        folder = tempfile.TemporaryDirectory(prefix="onnx-passes-")
        weakref.finalize(self, folder.cleanup)
        self._folder, self._end = folder.name, 0
        # Its name is not one that a model may have guessed.
        self._name = f"weights-{secrets.token_hex(8)}"

    def append(self, tensor: ir.TensorProtocol) -> ir.ExternalTensor:
        """Write a tensor, and return it as one in the file.

        Args:
            tensor: In memory, of any shape and type but strings.

        Raises:
            OSError: The folder has no room.
        """
        with open(Path(self._folder) / self._name, "ab") as file:
            file.truncate(self._end)  # what a failed write has left
            file.write(b"\0" * (-self._end % _PAGE))
            start = self._end + -self._end % _PAGE
            size = file.write(tensor_buffer(tensor))
        self._end = start + size
        found = ir.ExternalTensor(
            self._name,
            start,
            size,
            tensor.dtype,
            shape=ir.Shape(tensor.shape.numpy()),
            name=tensor.name or "",
            base_dir=self._folder,
        )
        found.meta[_KEEPER] = self
        return found


def is_temporary(tensor: ir.ExternalTensor) -> bool:
    """Whether a tensor lies in a temporary file, and not in one that came with a model."""
    return _KEEPER in tensor.meta
