"""What operators there are: onnx's schemas, and what is known of an engine's own operators."""

from __future__ import annotations

from typing import Any

import onnx

MAIN = frozenset({"", "ai.onnx"})
"""Names of the main domain."""

_CONTRIB: dict[str, tuple[str, ...]] = {
    "FusedMatMul": ("alpha", "transA", "transB", "transBatchA", "transBatchB"),
    "MultiHeadAttention": ("num_heads", "scale", "mask_filter_value", "unidirectional"),
    "GroupNorm": ("activation", "channels_last", "epsilon", "groups"),
    "SkipLayerNormalization": ("epsilon",),
}
"""Attributes of operators of ``com.microsoft``, whose schemas no package publishes."""

_REQUIRED = {"num_heads", "groups", "activation"}


def schema_of(op_type: str, opset: int) -> Any:
    """Return onnx's schema of an operator of the main domain, or None where there is none."""
    try:
        schema = onnx.defs.get_schema(op_type, opset)
    except onnx.defs.SchemaError:
        return None
    return None if schema.deprecated else schema


def attribute_names(domain: str, op_type: str, opset: int) -> dict[str, bool]:
    """Return the attributes of an operator, and whether each is required."""
    if domain not in MAIN:
        return {name: name in _REQUIRED for name in _CONTRIB.get(op_type, ())}
    schema = schema_of(op_type, opset)
    attributes = {} if schema is None else dict(schema.attributes)
    return {name: attribute.required for name, attribute in attributes.items()}


def may_be_absent(schema: Any, index: int) -> bool:
    """Whether an operator takes an empty name at an input."""
    if schema is None or index >= len(schema.inputs):
        return False
    return bool(
        schema.inputs[index].option == onnx.defs.OpSchema.FormalParameterOption.Optional
    )
