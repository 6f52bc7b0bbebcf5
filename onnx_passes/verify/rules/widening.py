"""Models of half precision, rewritten to single, for engines that lack the former."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

_HALF = {ir.DataType.FLOAT16, ir.DataType.BFLOAT16}


def is_half(model: ir.Model) -> bool:
    """Whether an input or output of a model is of half precision."""
    values = (*model.graph.inputs, *model.graph.outputs)
    return any(v.dtype in _HALF for v in values)


def widened_array(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array in single precision if it was in half."""
    half = ir.DataType.from_numpy(array.dtype) in _HALF
    return array.astype(np.float32) if half else array


def widened(model: ir.Model) -> ir.Model:
    """Return a copy of a model with every half precision type made single."""
    copy = model.clone()
    graph = copy.graph
    for value in (*graph.inputs, *graph.initializers.values()):
        _widen_value(value)
    for node in graph:
        for output in node.outputs:
            _widen_value(output)
        for attribute in list(node.attributes.values()):
            if attribute.type == ir.AttributeType.TENSOR:
                tensor = attribute.as_tensor()
                if tensor.dtype in _HALF:
                    wide = ir.tensor(widened_array(tensor.numpy()))
                    node.attributes.add(ir.AttrTensor(attribute.name, wide))
            elif node.op_type == "Cast" and attribute.name == "to":
                target = ir.DataType(attribute.as_int())
                if target in _HALF:
                    node.attributes.add(ir.AttrInt64("to", int(ir.DataType.FLOAT)))
    return copy


def _widen_value(value: ir.Value) -> None:
    if value.dtype in _HALF:
        # A clone shares the type's object, so that it must be replaced, not changed.
        value.type = ir.TensorType(ir.DataType.FLOAT)
    if value.const_value is not None and value.const_value.dtype in _HALF:
        value.const_value = ir.tensor(widened_array(value.const_value.numpy()))
