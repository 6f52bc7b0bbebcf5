"""Types and shapes as onnx infers them: the verifier's own way, beside that of the passes."""

from __future__ import annotations

import onnx
import onnx_ir as ir
from onnx_ir.passes.common import ShapeInferencePass

from onnx_passes.ops.bodies import bodies_attached


def infer_types(model: ir.Model) -> str | None:
    """Note types and shapes at the values of a model, as far as onnx can infer them.

    Args:
        model: Changed in place; as it was where inference fails.

    Returns:
        Why it failed; None where it did not.
    """
    try:
        with bodies_attached(model):
            ShapeInferencePass(check_type=False, strict_mode=False, data_prop=True)(model)
    except (onnx.shape_inference.InferenceError, ir.passes.PassError, ValueError) as error:
        cause = error.__cause__ or error
        return " ".join(str(cause).split())[:200]
    return None
