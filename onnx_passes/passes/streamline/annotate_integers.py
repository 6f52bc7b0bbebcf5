"""Annotate values with the integers that they hold."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.streamline._integer_ranges import KEY, NOTED, integer_ranges


@passes.verify.equality
@passes.register()
class AnnotateIntegers(passes.Annotation):
    """Annotate values with the integers that they hold.

    Adds: for each value of the main graph that holds integers whatever the inputs are, QONNX's
    annotation ``finn_datatype`` with the smallest datatype that holds them: ``UINT2``,
    ``INT9``, ``TERNARY``, ``BINARY``. For the result of a MatMul or Conv it is the width of an
    accumulator: bounds are the exact ones of each output channel's weights. Datatypes that
    are noted at inputs are trusted.

    Leaves alone: values with such an annotation; values that float32 may round.
    """

    needs = ("shape-inference",)
    tested_on = ("qonnx",)
    tested_after = (
        *("raise-opset", "extract-weight-scales", "infer-thresholds", "sink-scales"),
    )

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Annotate the main graph."""
        changed = False
        for value, bounds in integer_ranges(model.graph, declared=True).items():
            known = value.meta.get(NOTED)
            if known is not None and KEY in known:
                continue
            value.meta[NOTED] = {**(known or {}), KEY: bounds.name}
            changed = True
        return ir.passes.PassResult(model, modified=changed)
