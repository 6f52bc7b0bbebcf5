"""Barriers that make ONNX Runtime round each value below float32 as the model says."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.model.ort_sessions import add_barriers
from onnx_passes.runtime.value_types import infer_types


def with_barriers(model: ir.Model) -> ir.Model:
    """Return a model in which ONNX Runtime rounds each value below float32.

    Every reader of a node's result of such a type, in the same graph or a nested one, reads
    it behind two Identity nodes. The result keeps its name, so graph outputs and the
    interface stay as they are, and a value that becomes an output changes no other. Graph
    inputs, initializers and Constants need no barrier: to widen them loses nothing. Values of
    unknown type have one if the model has any value below float32.

    Holds for sessions without graph optimizations, which remove Identity nodes.

    Args:
        model: The model; not changed.

    Returns:
        The model itself if it needs no barrier, else a copy that shares its tensors.
    """
    return add_barriers(model, infer_types)
