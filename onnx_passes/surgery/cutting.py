"""A part of a model as a model that is complete: types are inferred, and have to fit."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnx_passes.errors import UsageError
from onnx_passes.model.extract import Cut
from onnx_passes.model.extract import extract as cut_out
from onnx_passes.passes.annotation.shape_inference import try_infer_shapes
from onnx_passes.verify.checker import complaints

_NO_SHAPE = "Field 'shape' of 'type' is required"


def extract(
    model: ir.Model, inputs: Sequence[Cut] = (), outputs: Sequence[Cut] = ()
) -> ir.Model:
    """Return the nodes between some values as a model; weights are shared.

    Args:
        model: The model; only missing types and shapes are added, by inference.
        inputs: Where to begin; by default at the inputs that the outputs depend on.
        outputs: Where to end; by default at the outputs of the model. Values of a subgraph
            are cut out of it, and what it reads from around it has to be among the inputs.

    Raises:
        UsageError: There is no such value, its type is not known or differs, or the nodes do
            not take a shape. Or the outputs depend on other inputs than those named, or not on
            all of these.
    """
    try_infer_shapes(model)
    part = cut_out(model, inputs, outputs)
    for value in part.graph.outputs:
        if value.type is None:
            raise UsageError(
                f"the type of {value.name!r} is not known",
                help=f"say it: {value.name}:float32, or {value.name}:[batch,4]:float32",
            )
    if any(cut.dtype is not None or cut.shape is not None for cut in (*inputs, *outputs)):
        # The checker wants shapes of all outputs, and runtimes do not.
        found = [c for c in complaints(part, full=True) if not c.startswith(_NO_SHAPE)]
        if found:
            raise UsageError(
                f"the part cannot have these types and shapes: {found[0]}",
                help="leave them out, or write auto: then they are those of the model",
            )
    return part


def find_unranked(part: ir.Model) -> list[str]:
    """List the inputs and outputs of a model whose rank nothing says."""
    ports = (*part.graph.inputs, *part.graph.outputs)
    return [
        str(value.name)
        for value in ports
        if value.shape is None and isinstance(value.type, ir.TensorType)
    ]
