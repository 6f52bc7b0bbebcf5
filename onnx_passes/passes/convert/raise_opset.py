"""Raise the opset where it is older than the one wanted."""

from __future__ import annotations

from typing import Any, ClassVar

import onnx
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.errors import PassError
from onnx_passes.graph.walk import all_nodes
from onnx_passes.passes.base import Transformation
from onnx_passes.passes.convert.convert_opset import ConvertOpset

UNUSUAL = (ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
"""Types that engines lack kernels for: ONNX Runtime runs Softsign of double in opset 18."""


@passes.verify.tolerance
@passes.register()
class RaiseOpset(Transformation):
    """Raise the opset where it is older than the one wanted.

    Before: opset 16, where LayerNormalization is nine nodes
    After:  opset 21, where fusing can make it one

    Sound because convert-opset rewrites the nodes whose operators have changed. The contract
    is a tolerance since engines compute the versions of one operator with different kernels.

    Leaves alone: models of that opset or a newer one; models with a node that has no
    equivalent (a note says which): unlike convert-opset, that is no error. Models with an
    operator of double or half precision that the standard defines by a function: an engine
    without a kernel may know that function in one opset only.

    Attributes:
        version: The oldest opset that is good enough.
    """

    requires: ClassVar[Any] = ("topological-sort", "shape-inference")

    version: int = 21

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Convert all of the model, or nothing."""
        if model.graph.opset_imports.get("", self.version) >= self.version:
            return ir.passes.PassResult(model, modified=False)
        held = next((n for n in all_nodes(model) if _hangs_on_function(n, model)), None)
        if held is not None:
            what = f"{held.op_type} {held.name or held.outputs[0].name!r}"
            self.context.notes.append(f"the opset stays: engines may lack a kernel for {what}")
            return ir.passes.PassResult(model, modified=False)
        convert = ConvertOpset(version=self.version)
        convert.context = self.context
        try:
            return convert.call(model)
        except PassError as error:
            reason = " ".join([error.message, *str(error.where or "").split()])
            self.context.notes.append(f"the opset stays: {reason}")
            return ir.passes.PassResult(model, modified=False)


def _hangs_on_function(node: ir.Node, model: ir.Model) -> bool:
    """Whether an engine may run it only by the function that defines it."""
    if node.domain or all(
        v.dtype not in UNUSUAL for v in (*node.inputs, *node.outputs) if v is not None
    ):
        return False
    opset = model.graph.opset_imports.get("", 1)
    try:
        # onnx's stubs do not know of the bodies.
        schema: Any = onnx.defs.get_schema(node.op_type, opset, "")
    except onnx.defs.SchemaError:
        return False
    return bool(schema.all_function_opset_versions)
