"""Run models with integers below 8 bits where ONNX Runtime's own rewrites break them."""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir

from onnx_passes.model.fields import named_type
from onnx_passes.model.walk import all_nodes
from onnx_passes.runtime.engine_base import Engine
from onnx_passes.runtime.ort import OnnxRuntimeEngine

_NARROW = frozenset((ir.DataType.INT4, ir.DataType.UINT4, ir.DataType.INT2, ir.DataType.UINT2))


def gentler_engine(engine: Engine, model: ir.Model) -> Engine | None:
    """Return the engine that runs a model which another one refuses by its own fault.

    ONNX Runtime removes DequantizeLinear and QuantizeLinear around nodes such as MaxPool. It
    has no kernels of these for integers below 8 bits, so that a valid model does not load.

    Args:
        engine: The engine that does not run the model.
        model: The model.

    Returns:
        The same engine without these rewrites; None if they are not the reason.
    """
    if not isinstance(engine, OnnxRuntimeEngine) or engine.optimization == "none":
        return None
    if not engine.fuse_qdq or not any(map(_is_narrow, all_nodes(model))):
        return None
    return replace(engine, fuse_qdq=False)


def _is_narrow(node: ir.Node) -> bool:
    """Whether a node reads or makes integers below 8 bits."""
    if node.domain:
        return False
    given = (node.attributes.get(name) for name in ("to", "output_dtype"))
    types = set(map(named_type, given))
    for value in (*node.inputs, *node.outputs):
        if value is not None:
            tensor = ir.convenience.get_const_tensor(value)
            types |= {value.dtype, None if tensor is None else tensor.dtype}
    return not _NARROW.isdisjoint(types)
