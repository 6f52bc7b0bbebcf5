"""A node with numbers of 64 bits where it had 16 or 32."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto

from onnx_passes.arrays import Array
from onnx_passes.runtime.engine_base import Data

NARROW = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)

_TYPE_ATTRIBUTES = ("to", "dtype", "output_datatype")
"""Attributes that name an element type."""

_SEQUENCE = "SequenceEmpty"
"""An operator of float32 by default, which its schema does not say."""


def widened(data: Data) -> Data:
    """Return data whose floats of 16 and 32 bits have 64."""
    if isinstance(data, list):
        return [widened(item) for item in data]
    if isinstance(data, np.ndarray) and (
        data.dtype in (np.float32, np.float16) or data.dtype.name == "bfloat16"
    ):
        return data.astype(np.float64)
    return data


def upcast_node(node: onnx.NodeProto) -> onnx.NodeProto:
    """Return a copy of a node whose constants, types and bodies are in double precision."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    _upcast(copy)
    return copy


def _upcast(node: onnx.NodeProto) -> None:
    main = node.domain in ("", "ai.onnx")
    named = {attribute.name: attribute for attribute in node.attribute}
    for attribute in node.attribute:
        if attribute.type == AttributeProto.TENSOR:
            attribute.t.CopyFrom(_tensor(attribute.t))
        elif attribute.type == AttributeProto.GRAPH:
            _graph(attribute.g)
        elif attribute.type == AttributeProto.GRAPHS:
            for graph in attribute.graphs:
                _graph(graph)
    if not main:
        return
    typed, default = _element_type(node.op_type)
    if typed in named and named[typed].i in NARROW:
        named[typed].i = TensorProto.DOUBLE
    elif typed not in named and default == TensorProto.FLOAT:
        node.attribute.append(onnx.helper.make_attribute(typed, int(TensorProto.DOUBLE)))
    if node.op_type == "Constant":
        for name in ("value_float", "value_floats"):
            if name in named:
                given: Any = onnx.helper.get_attribute_value(named[name])
                _replace(node, named[name], np.asarray(given, np.float64))
    if node.op_type == "ConstantOfShape" and "value" not in named:
        tensor = onnx.numpy_helper.from_array(np.zeros(1))
        node.attribute.append(onnx.helper.make_attribute("value", tensor))


@cache
def _element_type(op_type: str) -> tuple[str, int]:
    """Return the attribute that names a type of an operator, and its default; 0 for none."""
    if op_type == "BitCast" or not onnx.defs.has(op_type):  # a BitCast keeps its bits
        return "", 0
    attributes = onnx.defs.get_schema(op_type).attributes
    name = next((name for name in _TYPE_ATTRIBUTES if name in attributes), "")
    default = attributes[name].default_value.i if name else 0
    return name, TensorProto.FLOAT if op_type == _SEQUENCE else default


def _replace(node: onnx.NodeProto, old: AttributeProto, array: Array) -> None:
    node.attribute.remove(old)
    tensor = onnx.numpy_helper.from_array(array)
    node.attribute.append(onnx.helper.make_attribute("value", tensor))


def _graph(graph: onnx.GraphProto) -> None:
    for node in graph.node:
        _upcast(node)
    for tensor in graph.initializer:
        tensor.CopyFrom(_tensor(tensor))
    del graph.value_info[:]
    for value in (*graph.input, *graph.output):
        _type(value.type)


def _type(proto: onnx.TypeProto) -> None:
    kind = proto.WhichOneof("value")
    if kind == "tensor_type" and proto.tensor_type.elem_type in NARROW:
        proto.tensor_type.elem_type = TensorProto.DOUBLE
    elif kind == "sequence_type":
        _type(proto.sequence_type.elem_type)
    elif kind == "optional_type":
        _type(proto.optional_type.elem_type)


def _tensor(tensor: TensorProto) -> TensorProto:
    if tensor.data_type not in NARROW:
        return tensor
    array = onnx.numpy_helper.to_array(tensor).astype(np.float64)
    return onnx.numpy_helper.from_array(array, tensor.name)
