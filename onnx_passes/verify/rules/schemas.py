"""What operators there are: onnx's schemas, and what is known of an engine's own operators."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import onnx_ir as ir

from onnx_passes.verify.rules.pattern import PatternPart

MAIN = frozenset({"", "ai.onnx"})
"""Names of the main domain."""

OPSETS = (18, 18, 18, 21, 13, 11, 9, 23, 20, 14, 24, 26)
"""Opsets of models; repeated ones are tried more often.

The old ones have attributes that became inputs, the new ones operators.
"""

_CONTRIB: dict[str, tuple[str, ...]] = {
    "FusedMatMul": ("alpha", "transA", "transB", "transBatchA", "transBatchB"),
    "MultiHeadAttention": ("num_heads", "scale", "mask_filter_value", "unidirectional"),
    "GroupNorm": ("activation", "channels_last", "epsilon", "groups"),
    "SkipLayerNormalization": ("epsilon",),
    "IntQuant": ("signed", "narrow", "rounding_mode"),
    "Quant": ("signed", "narrow", "rounding_mode"),
    "MultiThreshold": ("out_dtype", "out_scale", "out_bias", "data_layout"),
    "LayoutConverter": ("assumes", "perm"),
}
"""Attributes of operators whose schemas no package publishes: ``com.microsoft`` and QONNX."""

_REQUIRED = {"num_heads", "groups", "activation", "assumes", "perm"}


def schema_of(op_type: str, opset: int) -> onnx.defs.OpSchema | None:
    """Return onnx's schema of an operator of the main domain, or None where there is none.

    Args:
        op_type: The operator.
        opset: Version of the main domain.
    """
    try:
        schema = onnx.defs.get_schema(op_type, opset)
    except onnx.defs.SchemaError:
        return None
    return None if schema.deprecated else schema


def attribute_names(domain: str, op_type: str, opset: int) -> dict[str, bool]:
    """Return the attributes of an operator, and whether each is required.

    Args:
        domain: Domain of the operator.
        op_type: The operator.
        opset: Version of the main domain.
    """
    if domain not in MAIN:
        return {name: name in _REQUIRED for name in _CONTRIB.get(op_type, ())}
    schema = schema_of(op_type, opset)
    attributes = {} if schema is None else dict(schema.attributes)
    return {name: attribute.required for name, attribute in attributes.items()}


def may_be_absent(schema: onnx.defs.OpSchema | None, index: int) -> bool:
    """Whether an operator takes an empty name at an input.

    Args:
        schema: The schema of the operator; None if it is not known.
        index: Number of the input.
    """
    if schema is None or index >= len(schema.inputs):
        return False
    return bool(
        schema.inputs[index].option == onnx.defs.OpSchema.FormalParameterOption.Optional
    )


def admits(op_type: str, opset: int, dtypes: Sequence[ir.DataType | None]) -> bool:
    """Whether an operator of the main domain takes inputs of these element types.

    Args:
        op_type: The operator; one that has no schema takes any.
        opset: Its version.
        dtypes: Of its inputs; None where an input is left out or its type is not known.
    """
    schema = schema_of(op_type, opset)
    if schema is None or not schema.inputs:
        return True
    bound: dict[str, ir.DataType] = {}
    for index, dtype in enumerate(dtypes):
        formal = schema.inputs[min(index, len(schema.inputs) - 1)]
        if dtype is None or not any(t.startswith("tensor(") for t in formal.types):
            continue
        if f"tensor({dtype.name.lower()})" not in formal.types:
            return False
        if formal.is_homogeneous and bound.setdefault(formal.type_str, dtype) != dtype:
            return False
    return True


def operator_in(node: PatternPart) -> tuple[str, str] | None:
    """Return domain and operator of a node of a pattern, or None where it takes several.

    The copies that ``commute`` makes do not know their identifier, but still its parts.
    """
    identifier = node.op_identifier()
    if identifier is not None:
        return identifier[0], identifier[1]
    parts = [getattr(part, "value", None) for part in (node.domain, node.op)]
    if not all(callable(part) for part in parts):
        return None
    domain, op_type = (str(part()) for part in parts if part is not None)
    return domain, op_type


def fits(pattern: PatternPart, opset: int) -> bool:
    """Whether an opset has the operators, inputs and attributes that a pattern names.

    Args:
        pattern: The pattern.
        opset: Version of the main domain.
    """
    return not lacking(pattern, opset)


def lacking(pattern: PatternPart, opset: int) -> list[str]:
    """Return the operators of a pattern that an opset lacks, in the form that it wants.

    Args:
        pattern: The pattern.
        opset: Version of the main domain.
    """
    missing = []
    for node in pattern:
        identifier = operator_in(node)
        if identifier is None or identifier[0] not in MAIN:
            continue
        schema = schema_of(identifier[1], opset)
        wanted = {k for k, a in node.attributes.items() if not a.can_match_none}
        if schema is None or len(node.inputs) > schema.max_input:
            missing.append(identifier[1])
        elif not wanted <= set(schema.attributes):
            names = ", ".join(sorted(wanted - set(schema.attributes)))
            missing.append(f"{identifier[1]} with {names}")
    return missing


def impossible(pattern: PatternPart) -> str:
    """Return why no opset has all that a pattern names; empty where one has."""
    found = {opset: lacking(pattern, opset) for opset in OPSETS}
    if not all(found.values()):
        return ""
    least = min(found.values(), key=len)
    return f"no opset has all of its operators and attributes: {', '.join(least)}"
