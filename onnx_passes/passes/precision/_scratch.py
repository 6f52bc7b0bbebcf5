"""Large new constants of a model whose weights are in files: written to a temporary file."""

from __future__ import annotations

import secrets
import tempfile
import weakref
from pathlib import Path

import onnx_ir as ir

from onnx_passes.model.tensors import tensor_buffer

SMALL = 1 << 16
"""Bytes below which a constant stays in memory."""
_KEEPER = "onnx_passes.scratch"


class Scratch:
    """Constants that a pass makes, in memory or in a file from which engines map them.

    They go to a file if a large weight of the model is in one: then all of them may not fit
    into memory. The file is gone with the last of its tensors.

    Args:
        model: The model, before its weights are replaced.
    """

    def __init__(self, model: ir.Model) -> None:
        self._active = any(
            isinstance(value.const_value, ir.ExternalTensor)
            and value.const_value.nbytes >= SMALL
            for value in model.graph.initializers.values()
        )
        self._file: _File | None = None

    def keep(self, tensor: ir.TensorProtocol) -> ir.TensorProtocol:
        """Return a tensor that holds no memory, if constants go to a file.

        Args:
            tensor: In memory. A small one is returned as it is, and any if the temporary
                folder has no room.
        """
        if not self._active or tensor.nbytes < SMALL:
            return tensor
        try:
            self._file = self._file or _File()
            return self._file.append(tensor)
        except OSError:
            self._active = False
            return tensor


class _File:
    """A temporary file of tensors. It lives as long as any of them."""

    def __init__(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="onnx-passes-")
        weakref.finalize(self, folder.cleanup)
        self._folder, self._end = folder.name, 0
        # Its name is not one that a model may have guessed.
        self._name = f"weights-{secrets.token_hex(8)}"

    def append(self, tensor: ir.TensorProtocol) -> ir.ExternalTensor:
        """Write a tensor, and return it as one in the file.

        Raises:
            OSError: The folder has no room.
        """
        with open(Path(self._folder) / self._name, "ab") as file:
            file.truncate(self._end)  # what a failed write has left
            file.write(b"\0" * (-self._end % 4096))
            start = self._end + -self._end % 4096
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
