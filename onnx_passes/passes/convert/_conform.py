"""Whether a node is what the schema of a version says, and what to leave out so that it is."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import onnx_ir as ir

from onnx_passes.ops.versions import CannotConvertError

_KINDS = onnx.defs.OpSchema.FormalParameterOption


def schema_of(node: ir.Node, opset: int) -> onnx.defs.OpSchema | None:
    """Return the schema that an opset gives a node's operator, None if it has none.

    Deprecated operators have none.

    Args:
        node: The node.
        opset: Version of its domain.
    """
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    except onnx.defs.SchemaError:
        return None
    return None if schema.deprecated else schema


def conform(
    node: ir.Node, before: onnx.defs.OpSchema | None, after: onnx.defs.OpSchema
) -> None:
    """Make a node conform to a schema, without changing what it means.

    Args:
        node: Attributes that say their default and inputs and outputs that are left out go.
        before: The schema that it came from, which says what the defaults are.
        after: The schema that it must conform to.

    Raises:
        CannotConvertError: The node has what the schema does not know.
    """
    for name in list(node.attributes):
        if name not in after.attributes:
            if before is None or not _is_default(node.attributes[name], before):
                raise CannotConvertError(f"its {name} has no equivalent")
            del node.attributes[name]
    for name, declared in after.attributes.items():
        if declared.required and name not in node.attributes:
            raise CannotConvertError(f"it needs {name}, which it has not")
    while node.inputs and node.inputs[-1] is None:
        node.resize_inputs(len(node.inputs) - 1)
    if len(node.inputs) > after.max_input:
        raise CannotConvertError(f"it has {len(node.inputs)} inputs")
    if len(node.inputs) < after.min_input:
        raise CannotConvertError(f"it has only {len(node.inputs)} inputs")
    _check_types(node.inputs, after.inputs, "input")
    while len(node.outputs) > after.max_output:
        last = node.outputs[-1]
        if last.uses() or last.is_graph_output():
            raise CannotConvertError(f"it has {len(node.outputs)} outputs")
        node.resize_outputs(len(node.outputs) - 1)
    _check_types(node.outputs, after.outputs, "output")


def _is_default(attribute: ir.Attr, schema: onnx.defs.OpSchema) -> bool:
    """Whether an attribute says what is meant without it."""
    declared = schema.attributes.get(attribute.name)
    if declared is None or attribute.is_ref():
        return False
    if attribute.name == "dilations":
        return all(step == 1 for step in attribute.as_ints())
    proto = declared.default_value
    return bool(proto.type) and ir.serde.deserialize_attribute(proto).value == attribute.value


def _check_types(
    values: Sequence[ir.Value | None],
    formals: Sequence[onnx.defs.OpSchema.FormalParameter],
    what: str,
) -> None:
    for index, value in enumerate(values):
        if value is None or value.type is None or not formals:
            continue
        formal = formals[min(index, len(formals) - 1)]
        name = _type_name(value.type)
        if name is not None and name not in formal.types:
            raise CannotConvertError(f"its {what} {formal.name!r} is a {name}")


def _type_name(type_: ir.TypeProtocol) -> str | None:
    if isinstance(type_, ir.TensorType):
        return f"tensor({type_.dtype.name.lower()})"
    if isinstance(type_, ir.SequenceType):
        return f"seq({_type_name(type_.elem_type)})"
    if isinstance(type_, ir.OptionalType):
        return f"optional({_type_name(type_.elem_type)})"
    return None
