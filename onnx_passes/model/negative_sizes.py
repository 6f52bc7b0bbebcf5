"""Negative sizes of dimensions: ONNX has none, and some exporters write -1 for any size."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx

from onnx_passes.errors import ModelError
from onnx_passes.model.protos import all_bodies

_HELP = (
    "give a dynamic dimension a name, such as 'batch', where the model is made; "
    "--allow-invalid of the run command reads it as a dynamic dimension"
)


def clear_negative_sizes(
    model: onnx.ModelProto, path: Path, *, allow_invalid: bool = False
) -> list[str]:
    """Make dimensions of a negative size dynamic, in place.

    What a node computes has the size that it has, so its annotation can be dropped. An input
    says what callers may give.

    Args:
        model: The model.
        path: The file it was read from.
        allow_invalid: Whether the inputs of the model may have such dimensions.

    Returns:
        What was changed, one sentence each.

    Raises:
        ModelError: An input has such a dimension.
    """
    for info in () if allow_invalid else model.graph.input:
        if negative := _negative(info):
            raise ModelError(
                f"the input '{info.name}' has a dimension of size {negative[0].dim_value}",
                where=f"{path}: graph '{model.graph.name}'",
                help=_HELP,
            )
    notes = []
    for _, body in all_bodies(model):
        infos = list(body.value_info)
        if isinstance(body, onnx.GraphProto):
            infos += [*body.input, *body.output]
        for info in infos:
            if negative := _negative(info):
                size = negative[0].dim_value
                notes.append(f"size {size} of '{info.name}' is read as a dynamic dimension")
            for dim in negative:
                dim.ClearField("dim_value")
    return notes


def _negative(info: onnx.ValueInfoProto) -> list[onnx.TensorShapeProto.Dimension]:
    return [dim for dim in _dims(info.type) if dim.dim_value < 0]


def _dims(type_: onnx.TypeProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    match type_.WhichOneof("value"):
        case "tensor_type" | "sparse_tensor_type" as kind:
            yield from getattr(type_, kind).shape.dim
        case "sequence_type":
            yield from _dims(type_.sequence_type.elem_type)
        case "optional_type":
            yield from _dims(type_.optional_type.elem_type)
