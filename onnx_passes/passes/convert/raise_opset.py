"""Raise the opset where it is older than the one wanted."""

from __future__ import annotations

from typing import Any, ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.errors import PassError
from onnx_passes.passes.base import Transformation
from onnx_passes.passes.convert.convert_opset import ConvertOpset


@passes.verify.tolerance
@passes.register()
class RaiseOpset(Transformation):
    """Raise the opset where it is older than the one wanted.

    Before: opset 16, where LayerNormalization is nine nodes
    After:  opset 21, where fusing can make it one

    Sound because convert-opset rewrites the nodes whose operators have changed. The contract
    is a tolerance since engines compute the versions of one operator with different kernels.

    Leaves alone: models of that opset or a newer one; models with a node that has no
    equivalent (a note says which): unlike convert-opset, that is no error.

    Attributes:
        version: The oldest opset that is good enough.
    """

    requires: ClassVar[Any] = ("topological-sort", "shape-inference")

    version: int = 21

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Convert all of the model, or nothing."""
        if model.graph.opset_imports.get("", self.version) >= self.version:
            return ir.passes.PassResult(model, modified=False)
        convert = ConvertOpset(version=self.version)
        convert.context = self.context
        try:
            return convert.call(model)
        except PassError as error:
            reason = " ".join([error.message, *str(error.where or "").split()])
            self.context.notes.append(f"the opset stays: {reason}")
            return ir.passes.PassResult(model, modified=False)
