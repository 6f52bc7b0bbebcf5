"""Dimensions that are dynamic though they have a negative size, or an endless name.

Exporters write -1 for any size; several of them need not be equal. ONNX Runtime reads all
negative sizes so. The inputs and outputs of a model keep them in files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx
import onnx_ir as ir

from onnx_passes.model.contents import all_graphs

LONGEST = 4096
"""Characters of the name of a dimension that means anything: it may be a formula."""
_NOTED = "onnx_passes.negative_sizes"
_SHOWN = 3


def read_dynamic_dims(model: ir.Model) -> list[str]:
    """Make dimensions of a negative size dynamic, in place, and note names without a meaning.

    Args:
        model: The model.

    Returns:
        What was read so, one sentence each.
    """
    sizes: dict[str, dict[int, int]] = {}
    endless = list[str]()
    for value in _values(model):
        shape = value.shape
        if shape is None:
            continue
        negative = {a: d for a, d in enumerate(shape) if isinstance(d, int) and d < 0}
        if negative:
            sizes[str(value.name)] = negative
            dims = [None if axis in negative else dim for axis, dim in enumerate(shape)]
            value.shape = ir.Shape(dims, map(shape.get_denotation, range(len(dims))))
        for axis, dim in enumerate(shape):
            if not isinstance(dim, int) and len(dim.value or "") > LONGEST:
                endless.append(f"{value.name}[{axis}]")
    ports = {str(value.name) for value in (*model.graph.inputs, *model.graph.outputs)}
    if noted := {name: found for name, found in sizes.items() if name in ports}:
        model.meta[_NOTED] = noted
    places = [f"{name}[{axis}]" for name, found in sizes.items() for axis in found]
    notes = []
    if places:
        notes.append(f"negative sizes are read as dynamic dimensions: {_listed(places)}")
    if endless:
        what = f"names of more than {LONGEST} characters are read as unknown dimensions"
        notes.append(f"{what}: {_listed(endless)}")
    return notes


def write_negative_sizes(model: ir.Model, proto: onnx.ModelProto) -> None:
    """Write the negative sizes of inputs and outputs where nothing was inferred.

    Args:
        model: The model.
        proto: Its protobuf, changed in place.
    """
    noted = model.meta.get(_NOTED, {})
    for info in (*proto.graph.input, *proto.graph.output) if noted else ():
        dims = _dims(info.type)
        for axis, size in noted.get(info.name, {}).items():
            if axis < len(dims) and dims[axis].WhichOneof("value") is None:
                dims[axis].dim_value = size


def _dims(type_: onnx.TypeProto) -> Sequence[onnx.TensorShapeProto.Dimension]:
    match type_.WhichOneof("value"):
        case "tensor_type" | "sparse_tensor_type" as kind:
            return list(getattr(type_, kind).shape.dim)
        case "sequence_type":
            return _dims(type_.sequence_type.elem_type)
        case "optional_type":
            return _dims(type_.optional_type.elem_type)
    return ()


def _values(model: ir.Model) -> Iterator[ir.Value]:
    """Yield the values that may declare a shape, which initializers do not."""
    for graph in all_graphs(model):
        yield from graph.inputs
        for node in graph:
            yield from node.outputs


def _listed(places: Sequence[str]) -> str:
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    return ", ".join(places[:_SHOWN]) + more
