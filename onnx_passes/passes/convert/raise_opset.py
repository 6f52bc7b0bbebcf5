"""Raise the opset where it is older than the one wanted."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.errors import PassError
from onnx_passes.passes.convert.convert_opset import convert, rehearse


@passes.verify.tolerance
@passes.register()
class RaiseOpset(passes.Transformation):
    """Raise the opset where it is older than the one wanted.

    Before: opset 16, where LayerNormalization is nine nodes
    After:  opset 21, where fusing can make it one

    Sound because convert-opset rewrites the nodes whose operators have changed. The contract
    is a tolerance since engines compute the versions of one operator with different kernels.

    Leaves alone: models of that opset or a newer one; models with a node that has no
    equivalent (a note says which): unlike in convert-opset, that is not an error. Models that
    ONNX Runtime loads as they are and would not load then. It has kernels for some versions of
    an operator and some types; what it has none for, it computes by the function that the
    standard defines the operator by, which ends with the opset that changes an operator within
    it.

    Attributes:
        version: The oldest opset that is good enough.
    """

    needs = ("topological-sort", "shape-inference")

    version: int = 21

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Convert all of the model, or nothing."""
        if model.graph.opset_imports.get("", self.version) >= self.version:
            return ir.passes.PassResult(model, modified=False)
        obstacle = self._obstacle(model)
        if obstacle is not None:
            self.context.notes.append(f"the opset stays: {obstacle}")
            return ir.passes.PassResult(model, modified=False)
        convert(model, self.version)
        return ir.passes.PassResult(model, modified=True)

    def _obstacle(self, model: ir.Model) -> str | None:
        """Return why a model stays as it is, None if nothing speaks against it."""
        try:
            reason = rehearse(model, self.version)
        except PassError as error:
            return " ".join([error.message, *str(error.where or "").split()])
        return reason and f"ONNX Runtime would no longer load the model: {reason}"
