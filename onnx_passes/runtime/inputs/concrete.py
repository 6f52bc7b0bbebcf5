"""A model whose shapes are those of one sample."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import onnx
import onnx.inliner
import onnx.shape_inference
import onnx_ir as ir

from onnx_passes.runtime.inputs.dims import size_of
from onnx_passes.runtime.inputs.use import Shape, static_shape
from onnx_passes.runtime.weightless import split_weights


def skeleton(model: ir.Model) -> onnx.ModelProto:
    """Return the model without its weights, and with its functions inlined where possible."""
    proto = split_weights(model).proto
    if not proto.functions:
        return proto
    try:
        inlined: onnx.ModelProto = onnx.inliner.inline_local_functions(proto)
    except Exception:  # the inliner raises what C++ throws; without it less is known, no more
        return proto
    return inlined


def concretize(
    proto: onnx.ModelProto, shapes: Mapping[str, Shape], sizes: Mapping[str, int]
) -> tuple[ir.Model, bool]:
    """Fix every shape and infer those in between.

    Args:
        proto: A model without weights; left as it is.
        shapes: Shapes of the inputs, by name.
        sizes: Sizes of the dynamic dimensions, by name.

    Returns:
        The model, and whether shape inference finds no contradiction in it.
    """
    fixed = onnx.ModelProto()
    fixed.CopyFrom(proto)
    for info in (*fixed.graph.input, *fixed.graph.value_info, *fixed.graph.output):
        _fix(info.type, shapes.get(info.name), sizes)
    for strict in (True, False):
        try:
            inferred = onnx.shape_inference.infer_shapes(
                fixed, strict_mode=strict, data_prop=True
            )
        except Exception:  # raised for contradictions, and for models it cannot take at all
            continue
        concrete = ir.from_proto(inferred)
        return concrete, strict and all(_fits(node) for node in concrete.graph)
    return ir.from_proto(fixed), False


def _fits(node: ir.Node) -> bool:
    """Whether a Reshape keeps the number of elements, which shape inference does not check."""
    if node.op_type != "Reshape" or node.domain:
        return True
    before, after = static_shape(node.inputs[0]), static_shape(node.outputs[0])
    return before is None or after is None or math.prod(before) == math.prod(after)


def _fix(type_proto: onnx.TypeProto, shape: Shape | None, sizes: Mapping[str, int]) -> None:
    for tensor in _tensor_types(type_proto):
        if shape is not None:
            tensor.shape.ClearField("dim")
            tensor.shape.dim.extend(
                onnx.TensorShapeProto.Dimension(dim_value=size) for size in shape
            )
        for dim in tensor.shape.dim:
            if dim.dim_param and (size := size_of(dim.dim_param, sizes)) is not None:
                dim.dim_value = size


def _tensor_types(type_proto: onnx.TypeProto) -> Iterator[onnx.TypeProto.Tensor]:
    match type_proto.WhichOneof("value"):
        case "tensor_type":
            if type_proto.tensor_type.HasField("shape"):
                yield type_proto.tensor_type
        case "sequence_type":
            yield from _tensor_types(type_proto.sequence_type.elem_type)
        case "optional_type":
            yield from _tensor_types(type_proto.optional_type.elem_type)
