"""Operators as ONNX defines them: schemas by version, and functions of other operators.

A node is raised or lowered from one version to the next, or checked against a schema.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.ops.operator_class import find
from onnx_passes.ops.versions import CannotConvertError, Edit, VersionChange, numbers_of
from onnx_passes.passes.common.shapes import Dim, dims_of

_KINDS = onnx.defs.OpSchema.FormalParameterOption


def schema_of(node: ir.Node, opset: int) -> onnx.defs.OpSchema | None:
    """Return the schema that an opset gives a node's operator, None if it has none.

    Deprecated operators have none.
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

    Attributes that say a default of the schema ``before``, and inputs and outputs that are
    left out, go. Raises CannotConvertError for what the schema ``after`` does not know.
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


_Schema = onnx.defs.OpSchema
_FORGOTTEN = ("consumed_inputs", "output_sequence", "broadcast")
"""Attributes that said what memory to use again, or what is always so now."""
_FROM_FRONT = 11
"""The first opset that counts axes from either end."""


def changes(op_type: str, border: int) -> bool:
    """Whether a version changes what nodes of an operator look like."""
    change = _change(op_type, border)
    old, new = _schema(op_type, border - 1), _schema(op_type, border)
    moved = old and new and _moved(old, new)
    return bool((change and change.up) or moved)


def _change(op_type: str, border: int) -> VersionChange | None:
    operator = find("", op_type)
    return None if operator is None else operator.changes.get(border)


def _schema(op_type: str, version: int) -> _Schema | None:
    try:
        return onnx.defs.get_schema(op_type, version)
    except onnx.defs.SchemaError:
        return None


def _moved(old: _Schema, new: _Schema) -> dict[int, str]:
    """Return the attributes that became inputs of the same name, by the input's number."""
    gone = {name.lower(): name for name in old.attributes if name not in new.attributes}
    before = {formal.name for formal in old.inputs}
    return {
        index: gone[formal.name.lower()]
        for index, formal in enumerate(new.inputs)
        if formal.name not in before and formal.name.lower() in gone
    }


def raise_node(edit: Edit, border: int) -> None:
    """Convert a node from the version before ``border`` to that version."""
    name = edit.node.op_type
    change = _change(name, border)
    if change is not None and change.up is not None:
        change.up(edit)
    old, new = _schema(name, border - 1), _schema(name, border)
    if old is None or new is None or edit.node.op_type != name:
        return
    gone = set(old.attributes) - set(new.attributes)
    if {"axis", "broadcast"} <= gone:
        _broadcast(edit)
    for attribute in gone.intersection(_FORGOTTEN):
        edit.take(attribute)
    made = {
        index: _constant(edit, attribute, old.attributes[attribute].type)
        for index, attribute in _moved(old, new).items()
        if attribute in edit.node.attributes
    }
    if made:
        last = max(max(made) + 1, len(edit.node.inputs))
        edit.set_inputs(*(made.get(i, edit.input(i)) for i in range(last)))


def _constant(edit: Edit, attribute: str, kind: _Schema.AttrType) -> ir.Value:
    value, types = edit.take(attribute), _Schema.AttrType
    if kind == types.FLOATS:
        return edit.constant(attribute, value, np.float32)
    if kind == types.FLOAT:
        dtype = edit.data().dtype
        if dtype is None:
            raise edit.fail(f"the type of its {attribute} is not known")
        return edit.constant(attribute, value, dtype.numpy())
    return edit.constant(attribute, [value] if kind == types.INT else value)


def _broadcast(edit: Edit) -> None:
    """Broadcast as numpy does, and before along a given axis."""
    axis, on = edit.take("axis"), edit.take("broadcast", 0)
    second = edit.input(1)
    if not on or axis is None or second is None:
        return
    rank, other = edit.rank(), edit.rank(second)
    if rank is None or other is None:
        raise edit.fail("the ranks of its inputs are not known")
    missing = rank - (axis + rank if axis < 0 else axis) - other
    if missing > 0:
        axes = list(range(other, other + missing))
        edit.set_inputs(edit.input(0), edit.add("Unsqueeze", [second], "wide", axes=axes))


def lower_node(edit: Edit, border: int) -> None:
    """Convert a node from version ``border`` to the version before."""
    name = edit.node.op_type
    change = _change(name, border)
    old, new = _schema(name, border - 1), _schema(name, border)
    if change is not None and change.down is not None:
        change.down(edit)
    if new is None or new.since_version != border:
        return
    if old is not None and edit.node.op_type == name:
        _to_attributes(edit, old, new)
    if border <= _FROM_FRONT:
        _axes_from_the_front(edit, name)


def _to_attributes(edit: Edit, old: _Schema, new: _Schema) -> None:
    moved, types = _moved(old, new), _Schema.AttrType
    if not moved:
        return
    found = {name: edit.constant_input(i, name) for i, name in moved.items()}
    edit.set_inputs(*(edit.input(i) for i in range(min(moved))))
    for name, array in found.items():
        kind = old.attributes[name].type
        if array is None or (kind in (types.FLOAT, types.FLOATS) and not array.size):
            continue
        numbers: list[int] | list[float] = numbers_of(array) or []
        if kind in (types.FLOAT, types.FLOATS):
            numbers = [float(number) for number in array.reshape(-1)]
        edit.set(**{name: numbers if kind in (types.INTS, types.FLOATS) else numbers[0]})


def _axes_from_the_front(edit: Edit, name: str) -> None:
    single, several = edit.attribute("axis"), edit.attribute("axes", ())
    axes = [*several, *([] if single is None else [single])]
    if all(axis >= 0 for axis in axes):
        return
    rank = edit.rank()
    if rank is None:
        raise edit.fail("the rank of its input is not known")
    operator = find("", name)
    rank += operator.adds_axes(len(axes)) if operator is not None else 0
    if single is not None:
        edit.set(axis=single % rank)
    if several:
        edit.set(axes=[axis % rank for axis in several])


BRANCHES = {4: "then_branch", 5: "else_branch"}
"""The branch to take, by the number of elements of ``size``."""


def settle_rank(function: ir.Function, node: ir.Node) -> None:
    """Take the branches of the rank that a node has, and make scalars for Range.

    The function, the definition of an AffineGrid, is unchanged if the rank is not known.
    """
    size = node.inputs[1] if len(node.inputs) > 1 else None
    count = size.shape[0] if size is not None and size.shape is not None else None
    branch = BRANCHES.get(count) if isinstance(count, int) else None
    if branch is None:
        return
    for inner in list(function):
        if inner.op_type == "If" and _asks_for_rank(inner):
            _take(function, inner, branch)
    for inner in list(function):
        if inner.op_type == "Range":
            _give_scalars(function, inner)


def _asks_for_rank(node: ir.Node) -> bool:
    """Whether the condition of an If compares the number of elements of something."""
    condition = node.inputs[0]
    compared = condition.producer() if condition is not None else None
    first = compared.inputs[0] if compared is not None and compared.inputs else None
    producer = first.producer() if first is not None else None
    return producer is not None and producer.op_type == "Size"


def _take(function: ir.Function, node: ir.Node, branch: str) -> None:
    body = node.attributes[branch].as_graph()
    nodes, results = list(body), list(body.outputs)
    body.outputs.clear()
    body.remove(nodes)
    function.graph.insert_before(node, nodes)
    for old, new in zip(node.outputs, results, strict=True):
        ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
    function.graph.remove(node, safe=True)


def _give_scalars(function: ir.Function, node: ir.Node) -> None:
    for index, value in enumerate(node.inputs):
        assert value is not None, "a Range has three inputs"
        name = f"{node.outputs[0].name}_{index}"
        none = ir.tensor(np.zeros([0], np.int64))
        shape = ir.node("Constant", [], {"value": none}, name=f"{name}_shape")
        scalar = ir.node("Reshape", [value, shape.outputs[0]], name=f"{name}_scalar")
        for made in (shape, scalar):
            made.outputs[0].name = made.name
        function.graph.insert_before(node, [shape, scalar])
        node.replace_input_with(index, scalar.outputs[0])


def _settle_head_size(function: ir.Function) -> None:
    """Compute the size of heads, which a Reshape cannot infer where a batch is empty.

    The function is the definition of a RotaryEmbedding.
    """
    data = function.inputs[0]
    for inner in list(function):
        if inner.op_type != "Reshape" or inner.inputs[0] is not data:
            continue
        shape = inner.inputs[1]
        target = None if shape is None else shape.producer()
        assert target is not None, "the definition joins the sizes of a head"
        width = ir.node("Shape", [data], {"start": 2, "end": 3})
        size = ir.node("Div", [width.outputs[0], target.inputs[-2]])
        for made, what in ((width, "width"), (size, "size")):
            made.name = made.outputs[0].name = f"{target.outputs[0].name}_{what}"
        function.graph.insert_before(target, [width, size])
        target.replace_input_with(len(target.inputs) - 1, size.outputs[0])


def body_of(node: ir.Node, opset: int) -> tuple[ir.Function, int] | None:
    """Return the function by which ONNX defines a node's operator.

    The body may depend on attributes, which get their defaults, and on types of inputs.
    Returns also the opset of its nodes; None where ONNX defines none, or one that does not fit
    the node, or types are not known.
    """
    scales = node.inputs[1:] if node.op_type == "LayerNormalization" else ()
    if not all(_is_whole(node, value) for value in scales if value is not None):
        return None
    try:
        # The type stubs of onnx leave out what a schema says of functions.
        schema: Any = onnx.defs.get_schema(node.op_type, opset, node.domain)
    except onnx.defs.SchemaError:
        return None
    for name, declared in schema.attributes.items():
        if name not in node.attributes and declared.default_value.type:
            # A body refers to attributes, and knows nothing of their defaults.
            node.attributes[name] = ir.serde.deserialize_attribute(declared.default_value)
    versions = [v for v in schema.all_function_opset_versions if v <= opset]
    if not versions:
        return None
    version = max(versions)
    if version in schema.function_opset_versions:
        text = schema.get_function_with_opset_version(version)
    else:
        types = [_type_of(value) for value in node.inputs]
        if any(type_ is None for type_ in types):
            return None
        text = schema.get_context_dependent_function_with_opset_version(
            version, ir.serde.serialize_node(node).SerializeToString(), types
        )
    if not text:
        return None
    proto = onnx.FunctionProto.FromString(text)
    _leave_out_outputs(proto, node)
    function = ir.serde.deserialize_function(proto)
    if node.op_type == "AffineGrid":
        settle_rank(function, node)
    if node.op_type == "RotaryEmbedding":
        _settle_head_size(function)
    return function, version


def _is_whole(node: ir.Node, scale: ir.Value) -> bool:
    """Whether a scale of a LayerNormalization is of all that is normalised, or one number.

    The definition takes both for rows of matrices. A scale that is broadcast over some of the
    axes does not fit; over the last axis alone, which is usual, none is expected.
    """
    axis, dims = node.attributes.get_int("axis", -1), dims_of(node.inputs[0])
    whole: list[Dim] = [None] * max(-axis, 0) if dims is None else dims[axis:]
    given = dims_of(scale)
    if given is None or len(given) == 1:
        return len(whole) == 1 or given == [1]
    if all(size == 1 for size in given):
        return True
    one: list[Dim] = [1]
    rank = max(len(given), len(whole))
    pairs = zip(*(one * (rank - len(sizes)) + sizes for sizes in (given, whole)), strict=True)
    return all(
        a == b if isinstance(b, int) else a == b is not None or (isinstance(a, int) and a > 1)
        for a, b in pairs
    )


def _leave_out_outputs(proto: onnx.FunctionProto, node: ir.Node) -> None:
    """Drop the outputs that the node does not have: a body need not compute them."""
    del proto.output[len(node.outputs) :]
    produced = {name for inner in proto.node for name in inner.output}
    first = next(name for name in proto.output if name in produced)
    for index, name in enumerate(proto.output):
        if name not in produced:
            proto.output[index] = first


def _type_of(value: ir.Value | None) -> bytes | None:
    if value is None:
        return onnx.TypeProto().SerializeToString()
    if value.type is None:
        return None
    return ir.serde.serialize_value(value).type.SerializeToString()
