"""A function for the attributes of one of its calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx
from onnx import helper

from onnx_passes.ops.bodies.writer import BodyCall, digest_of


def specialised(function: onnx.FunctionProto, call: BodyCall) -> onnx.FunctionProto:
    """Put the attributes of a call into a function.

    The bodies of operators that it calls depend on attributes, which must be known then.

    Args:
        function: The function; not changed.
        call: The call. What it does not give has the default of the function.

    Returns:
        The function itself if it has no attributes, else a copy with an overload.
    """
    if not (function.attribute or function.attribute_proto):
        return function
    copy = onnx.FunctionProto()
    copy.CopyFrom(function)
    values = {attribute.name: attribute for attribute in copy.attribute_proto}
    for name in (*copy.attribute, *values):
        given = call.attributes.get(name)
        if given is not None:
            values[name] = helper.make_attribute(name, given)
    del copy.attribute[:], copy.attribute_proto[:]
    _resolve(copy.node, values)
    copy.overload = digest_of(copy)
    return copy


def _resolve(
    nodes: Iterable[onnx.NodeProto], values: Mapping[str, onnx.AttributeProto]
) -> None:
    for node in nodes:
        for attribute in [a for a in node.attribute if a.ref_attr_name]:
            value = values.get(attribute.ref_attr_name)
            if value is None:
                node.attribute.remove(attribute)  # an optional one that the call leaves out
                continue
            name = attribute.name
            attribute.CopyFrom(value)
            attribute.name = name
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                _resolve(graph.node, values)
