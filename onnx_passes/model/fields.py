"""Fields of onnx-ir's objects, read from their slots.

A slot is read in a tenth of the time of a property. Where onnx-ir has no slot of that name,
the property is read. Some properties also make an empty dictionary, which a slot does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import onnx_ir as ir


def reader(example: object, *names: str, **slots: str) -> Callable[[Any], Any]:
    """Return a function that reads some fields, as a tuple if they are several.

    Args:
        example: An object of the type that is read.
        names: Names of properties.
        slots: Names of slots that are not the property's with an underscore, by property.
    """
    found = {name: slots.get(name, f"_{name}") for name in names}
    return attrgetter(*(s if hasattr(example, s) else name for name, s in found.items()))


_NODE = ir.Node("", "Identity", [ir.Value(name="")])
_SLOTS_OF_SHAPE = ("_dims", "_denotations")


def _dims_and_denotations(shape: ir.Shape) -> tuple[Sequence[object], Sequence[object]]:
    return shape.dims, [*map(shape.get_denotation, range(len(shape.dims)))]


node_head = reader(_NODE, "domain", "op_type", "overload", "name", "doc_string")
node_operator = reader(_NODE, "domain", "op_type")
node_name = reader(_NODE, "name")
node_inputs = reader(_NODE, "inputs")
node_outputs = reader(_NODE, "outputs")
node_rest = reader(_NODE, "attributes", "metadata_props", "device_configurations")
node_attributes: Callable[[ir.Node], dict[str, ir.Attr]] = attrgetter(
    "_attributes.data" if hasattr(_NODE, "_attributes") else "attributes.data"
)
"""The attributes as a plain dictionary, which says at once whether it is empty."""
attribute_type = reader(ir.AttrInt64("axis", 0), "type")
value_name = reader(_NODE.outputs[0], "name")
value_type = reader(_NODE.outputs[0], "type")
value_shape = reader(_NODE.outputs[0], "shape")
value_fields = reader(
    _NODE.outputs[0],
    *("name", "type", "shape", "doc_string", "metadata_props", "meta"),
    meta="_metadata",
)
tensor_type = reader(ir.TensorType(ir.DataType.FLOAT), "dtype", "denotation")
metadata_props = reader(_NODE, "metadata_props")
"""Of a node, a value or a graph; may be None."""
meta = reader(_NODE, "meta", meta="_metadata")
"""Of a node, a value or a graph; may be None."""
shape_fields: Callable[[ir.Shape], tuple[Sequence[Any], Sequence[Any]]] = (
    attrgetter(*_SLOTS_OF_SHAPE)
    if all(hasattr(ir.Shape([1]), name) for name in _SLOTS_OF_SHAPE)
    else _dims_and_denotations
)
"""Dimensions and denotations, as many of each. They are not copies."""


def nodes_of(graph: ir.Graph) -> list[ir.Node]:
    """Return the nodes of a graph, in order: onnx-ir's iterator takes four times as long.

    Args:
        graph: The graph; nodes that are added or removed later do not change the list.
    """
    root = getattr(getattr(graph, "_nodes", None), "_root", None)
    if root is None:
        return list(graph)
    found: list[ir.Node] = []
    box = root.next
    while box is not root:
        found.append(box.value)
        box = box.next
    return found


def named_type(attribute: ir.Attr | None) -> ir.DataType | None:
    """Return the element type that an attribute names, such as that of Cast.

    Args:
        attribute: The attribute; before opset 6 it holds a word, since then a number.

    Returns:
        None if it is left out, refers to one of a function, or names no type.
    """
    if attribute is None or attribute.is_ref():
        return None
    known = {str(key): dtype for dtype in ir.DataType for key in (dtype.name, dtype.value)}
    return known.get(str(attribute.value))
