"""A model whose shapes are those of one sample."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import onnx
import onnx.inliner
import onnx.shape_inference
import onnx_ir as ir

from onnx_passes.ops.use import Shape, constant_of, static_shape
from onnx_passes.runtime.base import Array
from onnx_passes.runtime.inputs.dims import size_of
from onnx_passes.runtime.weightless import split_weights

_WINDOWED = frozenset({"Conv", "MaxPool", "AveragePool", "LpPool", "ConvTranspose"})


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
    """Whether sizes add up where shape inference does not check that they do."""
    before = [static_shape(value) for value in node.inputs]
    after = [static_shape(value) for value in node.outputs]
    if node.op_type == "Reshape" and not node.domain and before[0]:
        return _reshapes(before[0], after[0], constant_of(node.inputs[1]))
    if node.op_type in _WINDOWED and not node.domain and all(before[0] or ()):
        return all(size > 0 for shape in after for size in shape or ())
    return True


def _reshapes(before: Shape, after: Shape | None, wanted: Array | None) -> bool:
    if after is not None:
        return math.prod(before) == math.prod(after)
    if wanted is None:
        return True
    sizes = [
        before[axis] if size == 0 and axis < len(before) else int(size)
        for axis, size in enumerate(wanted)
    ]
    known = math.prod(size for size in sizes if size >= 0)
    return known > 0 and math.prod(before) % known == 0


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
