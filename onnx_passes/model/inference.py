"""Shape inference of onnx, kept from memory that grows with the elements of a vector."""

from __future__ import annotations

import onnx
import onnx.checker
import onnx.shape_inference

from onnx_passes.model.protos import all_bodies

_LONGEST = 1 << 20
"""Elements of a vector whose values onnx may follow, at 144 bytes each."""


def infer(
    model: onnx.ModelProto,
    *,
    check_type: bool = False,
    strict_mode: bool = False,
    data_prop: bool = True,
) -> onnx.ModelProto:
    """Infer types and shapes; a model with longer vectors than ``_LONGEST`` by types alone.

    Args:
        model: A model, which is left as it is.
        check_type: Whether onnx checks the types of inputs.
        strict_mode: Whether onnx raises if it cannot infer a node.
        data_prop: Whether onnx follows the values of shapes.

    Raises:
        onnx.shape_inference.InferenceError: Inference fails as a whole.
    """
    try:
        # To follow values, onnx makes a dimension of each element of any vector.
        inferred = onnx.shape_inference.infer_shapes(model, check_type, strict_mode)
        if not data_prop or any(map(_is_long, _infos(inferred))):
            return inferred
        return onnx.shape_inference.infer_shapes(model, check_type, strict_mode, data_prop)
    except onnx.checker.ValidationError as error:  # of functions that call each other
        raise onnx.shape_inference.InferenceError(str(error)) from error


def _infos(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    bodies = [b for _, b in all_bodies(model) if isinstance(b, onnx.GraphProto)]
    return [info for b in bodies for info in (*b.input, *b.output, *b.value_info)]


def _is_long(info: onnx.ValueInfoProto) -> bool:
    dims = info.type.tensor_type.shape.dim
    return len(dims) == 1 and dims[0].dim_value > _LONGEST
