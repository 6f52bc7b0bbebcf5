"""Nodes that several passes make: constants, and Splits with their sizes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.passes._support.shapes import dims_of
from onnx_passes.passes.replace import Namer

_FIRST_WITH_SIZES_AS_INPUT = 13


def constant_node(tensor: ir.TensorProtocol, name: str) -> ir.Node:
    """Return a Constant whose result notes its tensor, type and shape.

    Args:
        tensor: What it holds.
        name: Name of its result.
    """
    node = ir.Node("", "Constant", [], [ir.AttrTensor("value", tensor)])
    (value,) = node.outputs
    value.name, value.const_value = name, tensor
    value.type, value.shape = ir.TensorType(tensor.dtype), ir.Shape(tensor.shape.numpy())
    return node


def split_nodes(
    x: ir.Value, sizes: Sequence[int], axis: int, namer: Namer, *, opset: int, name: str
) -> list[ir.Node]:
    """Return a Split and, where its sizes are an input, the Constant in front of it.

    Args:
        x: What is divided. Its parts get its type, and their shapes if it has one.
        sizes: Of the parts.
        axis: The axis to divide; it may count from the end.
        namer: Names the new nodes and values.
        opset: The model's version of the main domain.
        name: What the Split's name is made of.
    """
    nodes, operands = [], [x]
    attributes: dict[str, int | Sequence[int]] = {"axis": axis}
    if opset < _FIRST_WITH_SIZES_AS_INPUT:
        attributes["split"] = sizes
    else:
        tensor = ir.tensor(np.asarray(sizes, np.int64))
        nodes.append(constant_node(tensor, namer.value("sizes")))
        operands += nodes[0].outputs
    split = ir.node("Split", operands, attributes=attributes, num_outputs=len(sizes))
    split.name, dims = namer.node(name), dims_of(x)
    for value, size in zip(split.outputs, sizes, strict=True):
        value.name, value.type = namer.value("part"), x.type
        if dims is not None:
            dims[axis] = size
            value.shape = ir.Shape(dims)
    return [*nodes, split]
