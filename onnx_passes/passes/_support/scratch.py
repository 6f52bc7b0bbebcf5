"""Large new constants of a model whose weights are in files: written to a temporary file."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import onnx_ir as ir

from onnx_passes.model.save import TensorFile

SMALL = 1 << 16
"""Bytes below which a constant stays in memory."""


class Scratch:
    """Constants that a pass makes, in memory or in a file from which engines map them.

    They go to a file if a large weight of the model is in one: then all of them may not fit
    into memory. The file is gone with the last of its tensors.

    Args:
        model: The model. It is looked at when the first large constant is made.
        always: Whether they go to a file in any case.
    """

    def __init__(self, model: ir.Model, *, always: bool = False) -> None:
        self._model, self._always = model, always
        self._file: TensorFile | None = None

    @cached_property
    def _active(self) -> bool:
        return self._always or any(
            isinstance(value.const_value, ir.ExternalTensor)
            and value.const_value.nbytes >= SMALL
            for value in self._model.graph.initializers.values()
        )

    def keep(self, tensor: ir.TensorProtocol) -> ir.TensorProtocol:
        """Return a tensor that holds no memory, if constants go to a file.

        Args:
            tensor: In memory. A small one is returned as it is, and any if the temporary
                folder has no room.
        """
        if tensor.nbytes < SMALL or not self._active:
            return tensor
        try:
            self._file = self._file or TensorFile()
            return self._file.append(tensor)
        except OSError:
            self._active = False
            return tensor

    def keep_constants(self, nodes: Iterable[ir.Node]) -> None:
        """Let Constant nodes hold no memory, if constants go to a file.

        Args:
            nodes: New nodes. A tensor that is in a file stays there.
        """
        for node in nodes:
            held = node.attributes.get("value") if node.op_type == "Constant" else None
            if held is None or held.is_ref() or held.type is not ir.AttributeType.TENSOR:
                continue
            tensor = held.as_tensor()
            if tensor.dtype is ir.DataType.STRING or isinstance(tensor, ir.ExternalTensor):
                continue
            if (kept := self.keep(tensor)) is not tensor:
                node.attributes["value"] = ir.AttrTensor("value", kept)
