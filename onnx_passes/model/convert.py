"""Say in terms that onnx-ir keeps what it would lose, with a note for each change."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from onnx_passes.arrays import Array
from onnx_passes.errors import ModelError
from onnx_passes.model.branches import hand_out
from onnx_passes.model.formats import LIMIT
from onnx_passes.model.protos import all_attributes, all_bodies
from onnx_passes.model.untyped import infer_output_types

_FIELDS = {
    "f": onnx.AttributeProto.FLOAT,
    "i": onnx.AttributeProto.INT,
    "s": onnx.AttributeProto.STRING,
    "t": onnx.AttributeProto.TENSOR,
    "g": onnx.AttributeProto.GRAPH,
    "tp": onnx.AttributeProto.TYPE_PROTO,
    "floats": onnx.AttributeProto.FLOATS,
    "ints": onnx.AttributeProto.INTS,
    "strings": onnx.AttributeProto.STRINGS,
    "tensors": onnx.AttributeProto.TENSORS,
    "graphs": onnx.AttributeProto.GRAPHS,
    "type_protos": onnx.AttributeProto.TYPE_PROTOS,
}


def convert(model: onnx.ModelProto, path: Path) -> list[str]:
    """Change a model in place so that onnx-ir can hold all of it.

    Args:
        model: The model; it is changed.
        path: Its file, for messages and external data.

    Returns:
        What was changed, one sentence each.

    Raises:
        ModelError: Something has no equal that onnx-ir can hold.
    """
    _trim_outputs(model)
    return [
        *_drop_training(model),
        *_name_default_domain(model),
        *_type_attributes(model),
        *_make_initializers_dense(model, path),
        *_make_constants_dense(model, path),
        *_drop_shapes_of_no_type(model),
        *_drop_idle_annotations(model),
        *hand_out(model),
        *_declare_alike(model),
        *infer_output_types(model),
    ]


def _trim_outputs(model: onnx.ModelProto) -> None:
    """Cut outputs left out at the end of a node's list: they mean the same as none."""
    for _, body in all_bodies(model):
        for node in body.node:
            while node.output and not node.output[-1]:
                del node.output[-1]


def _drop_training(model: onnx.ModelProto) -> list[str]:
    """Drop what says how to train a model, which no pass keeps right and no engine reads."""
    if not model.training_info:
        return []
    model.ClearField("training_info")
    return ["training_info is dropped: only what computes the outputs is kept"]


def _name_default_domain(model: onnx.ModelProto) -> list[str]:
    """Give ONNX's own domain one name: onnx-ir treats ``ai.onnx`` of imports as another."""
    holders = [entry for entry in model.opset_import if entry.domain == "ai.onnx"]
    for function in model.functions:
        holders += [entry for entry in function.opset_import if entry.domain == "ai.onnx"]
    nodes = [node for _, body in all_bodies(model) for node in body.node]
    for holder in [*holders, *(node for node in nodes if node.domain == "ai.onnx")]:
        holder.domain = ""
    for imports in (model.opset_import, *(f.opset_import for f in model.functions)):
        seen: set[str] = set()
        for index in range(len(imports) - 1, -1, -1):
            if imports[index].domain in seen:
                del imports[index]
            else:
                seen.add(imports[index].domain)
    return ["domain 'ai.onnx' is written as '', its other name"] if holders else []


def _declare_alike(model: onnx.ModelProto) -> list[str]:
    """Give an output that is an input the input's shape: onnx-ir holds one of them."""
    inputs = {value.name: value.type for value in model.graph.input}
    found = []
    for value in model.graph.output:
        declared = inputs.get(value.name)
        if declared is not None and not value.type.tensor_type.HasField("shape"):
            value.type.CopyFrom(declared)
            found.append(f"the output {value.name!r} is an input, whose type it is given")
    return found


def _type_attributes(model: onnx.ModelProto) -> list[str]:
    """Set the type that models of the first IR version leave to the value."""
    count = 0
    for _, _, attribute in all_attributes(model):
        if attribute.type == onnx.AttributeProto.UNDEFINED and not attribute.ref_attr_name:
            filled = [
                field.name for field, _ in attribute.ListFields() if field.name in _FIELDS
            ]
            if len(filled) == 1:
                attribute.type = _FIELDS[filled[0]]
                count += 1
    several = "s" if count > 1 else ""
    note = f"{count} attribute{several} had no type; it was inferred from the values"
    return [note] if count else []


def _make_initializers_dense(model: onnx.ModelProto, path: Path) -> list[str]:
    notes = []
    for place, body in all_bodies(model):
        if isinstance(body, onnx.GraphProto):
            for sparse in body.sparse_initializer:
                name = sparse.values.name
                body.initializer.append(_dense(sparse, f"{path}: {place}"))
                notes.append(f"the sparse initializer '{name}' was made dense")
            body.ClearField("sparse_initializer")
    return notes


def _make_constants_dense(model: onnx.ModelProto, path: Path) -> list[str]:
    notes = []
    for place, node, attribute in all_attributes(model):
        if not (attribute.HasField("sparse_tensor") or attribute.sparse_tensors):
            continue
        constant = node is not None and (node.domain, node.op_type) == ("", "Constant")
        if not constant or attribute.name != "sparse_value":
            raise ModelError(
                "the attribute is a sparse tensor, which onnx-ir cannot hold",
                where=f"{path}: {place}",
                help="make it dense where the model is made",
            )
        dense = _dense(attribute.sparse_tensor, f"{path}: {place}")
        attribute.ClearField("sparse_tensor")
        attribute.name, attribute.type = "value", onnx.AttributeProto.TENSOR
        attribute.t.CopyFrom(dense)
        notes.append(f"the sparse value of {place} was made dense")
    return notes


def _dense(sparse: onnx.SparseTensorProto, where: str) -> onnx.TensorProto:
    """Spell a sparse tensor out; its indices count elements or name rows of coordinates.

    Source: ONNX IR, SparseTensorProto.
    """
    where = f"{where}, sparse tensor '{sparse.values.name}'"
    external = onnx.TensorProto.EXTERNAL
    if external in (sparse.values.data_location, sparse.indices.data_location):
        raise ModelError(
            "a sparse tensor in external data cannot be read",
            where=where,
            help="make it dense where the model is made",
        )
    try:
        dense = _spell_out(sparse)
    except (ValueError, TypeError, IndexError, KeyError, OverflowError) as error:
        raise ModelError(
            f"a sparse tensor cannot be made dense: {error}",
            where=where,
            help="make it dense where the model is made",
        ) from error
    result = numpy_helper.from_array(dense, sparse.values.name)
    if sparse.values.doc_string:
        result.doc_string = sparse.values.doc_string
    return result


def _spell_out(sparse: onnx.SparseTensorProto) -> Array:
    shape = tuple(sparse.dims)
    values = numpy_helper.to_array(sparse.values).reshape(-1)
    indices = numpy_helper.to_array(sparse.indices).astype(np.int64)
    size = math.prod(shape)
    if values.dtype == object:
        raise ValueError("strings have no zero")
    if min(shape, default=1) < 0 or size * values.itemsize > LIMIT:
        raise ValueError(f"shape {list(shape)} cannot be spelled out")
    if indices.ndim == 2:
        indices = np.ravel_multi_index(tuple(indices.T), shape)
    if len(indices) != len(values):
        raise ValueError(f"{len(values)} values have {len(indices)} indices")
    if indices.size and not 0 <= indices.min() <= indices.max() < size:
        raise ValueError(f"indices go beyond shape {list(shape)}")
    dense = np.zeros(size, values.dtype)
    dense[indices] = values
    return dense.reshape(shape)


def _drop_shapes_of_no_type(model: onnx.ModelProto) -> list[str]:
    """Drop types that have a shape but no element type: onnx-ir cannot write them."""
    count = 0
    for _, body in all_bodies(model):
        infos = list(body.value_info)
        if isinstance(body, onnx.GraphProto):
            infos += [*body.input, *body.output]
        for info in infos:
            kind = info.type.WhichOneof("value")
            if kind in ("tensor_type", "sparse_tensor_type") and not getattr(
                info.type, kind
            ).HasField("elem_type"):
                info.ClearField("type")
                count += 1
    return [f"shapes without an element type were dropped: {count}"] if count else []


def _drop_idle_annotations(model: onnx.ModelProto) -> list[str]:
    """Drop types and quantization notes of values that are not there: they say nothing."""
    dropped: Counter[str] = Counter()
    functions = {f"{function.domain}::{function.name}" for function in model.functions}
    for _, body in all_bodies(model):
        made = {name for node in body.node for name in node.output}
        if isinstance(body, onnx.FunctionProto):
            made.update(body.input)
        else:
            made.update(value.name for value in (*body.input, *body.output))
            made.update(tensor.name for tensor in body.initializer)
        seen: set[str] = set()
        for index in range(len(body.value_info) - 1, -1, -1):
            name = body.value_info[index].name
            if len(body.value_info[index].ListFields()) < 2:
                del body.value_info[index]  # nothing but a name
                continue
            # Before IR version 10, this is where types inside functions are noted. Names that
            # are not UTF-8 are bytes here.
            inside = body is model.graph and str(name).rpartition("/")[0] in functions
            if name in seen or (name not in made and not inside):
                del body.value_info[index]
                dropped["types"] += 1
            seen.add(name)
        if isinstance(body, onnx.GraphProto):
            seen = set()
            for index in range(len(body.quantization_annotation) - 1, -1, -1):
                name = body.quantization_annotation[index].tensor_name
                if name not in made or name in seen:
                    del body.quantization_annotation[index]
                    dropped["quantization parameters"] += 1
                seen.add(name)
    return [
        f"{what} of values that do not exist were dropped: {count}"
        for what, count in dropped.items()
    ]
