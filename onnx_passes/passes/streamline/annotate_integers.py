"""Note at values which integers they hold."""

from __future__ import annotations

from typing import Any, ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import Annotation
from onnx_passes.passes.streamline._integers import integer_ranges

KEY = "finn_datatype"


@passes.verify.equality
@passes.register()
class AnnotateIntegers(Annotation):
    """Note at values which integers they hold.

    Adds: for each value of the main graph that holds integers whatever the inputs are, QONNX's
    annotation ``finn_datatype`` with the smallest datatype that holds them: ``UINT2``,
    ``INT9``, ``TERNARY``, ``BINARY``. For the result of a MatMul or Conv it is the width of an
    accumulator: bounds are the exact ones of each output channel's weights.

    Leaves alone: values with such an annotation; values that float32 may round.
    """

    requires: ClassVar[Any] = ("shape-inference",)
    tested_after: ClassVar[Any] = ("infer-thresholds", "extract-weight-scales", "sink-scales")

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Annotate the main graph."""
        changed = False
        for value, bounds in integer_ranges(model.graph).items():
            known = value.meta.get("quant_parameter_tensor_names")
            if known is not None and KEY in known:
                continue
            value.meta["quant_parameter_tensor_names"] = {**(known or {}), KEY: bounds.name}
            changed = True
        return ir.passes.PassResult(model, modified=changed)
