"""Large new constants of a model whose weights are in files: written to a temporary file."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.model.tensor_file import TensorFile

SMALL = 1 << 16
"""Bytes below which a constant stays in memory."""


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
        self._file: TensorFile | None = None

    def keep(self, tensor: ir.TensorProtocol) -> ir.TensorProtocol:
        """Return a tensor that holds no memory, if constants go to a file.

        Args:
            tensor: In memory. A small one is returned as it is, and any if the temporary
                folder has no room.
        """
        if not self._active or tensor.nbytes < SMALL:
            return tensor
        try:
            self._file = self._file or TensorFile()
            return self._file.append(tensor)
        except OSError:
            self._active = False
            return tensor
