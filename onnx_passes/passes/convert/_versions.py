"""From one version of an operator to the next, by its schemas and its description."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.ops.operator_class import find
from onnx_passes.ops.versions import Edit, VersionChange, numbers_of

_Schema = onnx.defs.OpSchema
_FORGOTTEN = ("consumed_inputs", "output_sequence", "broadcast")
"""Attributes that said what memory to use again, or what is always so now."""
_FROM_FRONT = 11
"""The first opset that counts axes from either end."""


def changes(op_type: str, border: int) -> bool:
    """Whether a version changes what nodes of an operator look like.

    Args:
        op_type: The operator.
        border: The version.
    """
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
    """Make a node of a version of one of the version before.

    Args:
        edit: The node.
        border: The version.
    """
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
    """Make a node of the version before of one of a version.

    Args:
        edit: The node.
        border: The version that is left.
    """
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
