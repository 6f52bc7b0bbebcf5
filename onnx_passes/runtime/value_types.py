"""Element types of all values of a model, those that no one declared among them."""

from __future__ import annotations

import onnx
import onnx.shape_inference
import onnx_ir as ir

from onnx_passes.model.inference import infer
from onnx_passes.model.ort_sessions import Types
from onnx_passes.model.protos import all_bodies
from onnx_passes.model.walk import graphs_within
from onnx_passes.runtime.weightless import split_weights


def infer_types(model: ir.Model) -> Types:
    """Return the types that onnx infers, weights left out; functions have none.

    Args:
        model: The model; not changed.

    Returns:
        Nothing if each value has a type, or if onnx cannot infer.
    """
    values = (
        v for graph in graphs_within(model.graph) for node in graph for v in node.outputs
    )
    if all(value.type is not None for value in values if value.name):
        return {}
    try:
        proto = infer(split_weights(model).proto, data_prop=False)
    except (onnx.shape_inference.InferenceError, ir.serde.SerdeError, OSError, ValueError):
        return {}
    found: Types = {}
    graphs = (body for _, body in all_bodies(proto) if isinstance(body, onnx.GraphProto))
    for info in (info for graph in graphs for info in graph.value_info):
        if number := info.type.tensor_type.elem_type:
            found.setdefault(info.name, set()).add(ir.DataType(number))
    return found
