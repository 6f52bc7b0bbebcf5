"""Element types of all values of a model, those that no one declared among them."""

from __future__ import annotations

from collections.abc import Iterable

import onnx
import onnx_ir as ir

from onnx_passes.model.barriers import Types
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
        proto = onnx.shape_inference.infer_shapes(split_weights(model).proto)
    except (onnx.shape_inference.InferenceError, ir.serde.SerdeError, OSError, ValueError):
        return {}
    found: Types = {}
    pending = [proto.graph]
    while pending:
        graph = pending.pop()
        _collect(graph.value_info, found)
        for node in graph.node:
            for attribute in node.attribute:
                pending += [attribute.g, *attribute.graphs]
    return found


def _collect(infos: Iterable[onnx.ValueInfoProto], found: Types) -> None:
    for info in infos:
        number = info.type.tensor_type.elem_type
        if number:
            found.setdefault(info.name, set()).add(ir.DataType(number))
