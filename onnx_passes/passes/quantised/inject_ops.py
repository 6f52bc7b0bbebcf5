"""Add the bodies of our own operators to the model."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.ops.bodies import CUSTOM, attach_to_model


@passes.verify.equality
@passes.register()
class InjectOps(passes.Annotation):
    """Add the bodies of our own operators to the model.

    Adds: for each node of the domain ``onnx_passes.ops`` a function that computes it by
    standard operators, and the overload that points to it. So engines other than this
    package's run the model. Files that the program writes have them in any case. QONNX's own
    operators get no functions: qonnx, which reads them, knows them.

    Leaves alone: nodes whose function the model has.
    """

    tested_on = ("qonnx",)
    tested_after = ("import-qonnx",)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Add the functions."""
        made = attach_to_model(model, (CUSTOM,))
        return ir.passes.PassResult(model, modified=bool(made.nodes or made.functions))
