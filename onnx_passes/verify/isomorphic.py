"""Whether two models compute their outputs by the same nodes, whatever values are called.

The hash by which passes and reports tell models apart is not asked: what it overlooks must not
pass unseen. Constants are compared by content.
"""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.graph.digest import leaf_key
from onnx_passes.graph.walk import subgraphs_of
from onnx_passes.ops.randomness import may_draw
from onnx_passes.verify.node_equality import constant_tensor, same_tensor

_Pairs = dict[ir.Value, ir.Value]


def compute_alike(before: ir.Model, after: ir.Model) -> bool:
    """Whether walking both models from their outputs meets the same nodes and constants.

    Functions have to be the same by name; operands have to be in the same order.
    """
    if before.opset_imports != after.opset_imports or before.functions.keys() != (
        after.functions.keys()
    ):
        return False
    for name, function in before.functions.items():
        other = after.functions[name]
        if function.opset_imports != other.opset_imports:
            return False
        attributes = [
            {a.name: leaf_key(a) for a in f.attributes.values()} for f in (function, other)
        ]
        if attributes[0] != attributes[1] or not _graphs(function.graph, other.graph, {}):
            return False
    return _graphs(before.graph, after.graph, {})


def _graphs(old: ir.Graph, new: ir.Graph, known: _Pairs) -> bool:
    if len(old.inputs) != len(new.inputs) or len(old.outputs) != len(new.outputs):
        return False
    for one, other in zip(old.inputs, new.inputs, strict=True):
        defaults = one.const_value, other.const_value
        if not _same_defaults(*defaults):
            return False
        known[one] = other
    pending = list(zip(old.outputs, new.outputs, strict=True))
    while pending:
        one, other = pending.pop()
        if one in known:
            if known[one] is not other:
                return False
            continue
        known[one] = other
        a, b = constant_tensor(one), constant_tensor(other)
        if a is not None or b is not None:
            if a is None or b is None or not same_tensor(a, b):
                return False
            del known[one]  # equal constants may be one or several
            continue
        left, right = one.producer(), other.producer()
        if left is None or right is None or not _nodes(left, right):
            return False
        if list(left.outputs).index(one) != list(right.outputs).index(other):
            return False
        if may_draw(left) and list(known.values()).count(other) > 1:
            return False  # two draws are not one
        for x, y in zip(left.inputs, right.inputs, strict=True):
            if (x is None) != (y is None):
                return False
            if x is not None and y is not None:
                pending.append((x, y))
        bodies = zip(subgraphs_of(left), subgraphs_of(right), strict=True)
        if not all(_body(x, y, known, pending) for x, y in bodies):
            return False
    return True


def _same_defaults(old: ir.TensorProtocol | None, new: ir.TensorProtocol | None) -> bool:
    if old is None or new is None:
        return old is new
    return same_tensor(old, new)


def _body(
    old: ir.Graph, new: ir.Graph, known: _Pairs, pending: list[tuple[ir.Value, ir.Value]]
) -> bool:
    if len(old.inputs) != len(new.inputs) or len(old.outputs) != len(new.outputs):
        return False
    known.update(zip(old.inputs, new.inputs, strict=True))
    pending += zip(old.outputs, new.outputs, strict=True)
    return True


def _nodes(old: ir.Node, new: ir.Node) -> bool:
    if old.op_identifier() != new.op_identifier():
        return False
    if len(old.inputs) != len(new.inputs) or len(old.outputs) != len(new.outputs):
        return False
    a, b = old.attributes, new.attributes
    return a.keys() == b.keys() and all(_attributes(a[key], b[key]) for key in a)


def _attributes(old: ir.Attr, new: ir.Attr) -> bool:
    if old is new or (old.type is new.type and old.value is new.value and not old.is_ref()):
        return True
    holders = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
    if old.type in holders and new.type is old.type:
        return len(list(_bodies(old))) == len(list(_bodies(new)))
    if old.type is ir.AttributeType.TENSOR and new.type is old.type:
        return same_tensor(old.as_tensor(), new.as_tensor())
    return leaf_key(old) == leaf_key(new)


def _bodies(attribute: ir.Attr) -> list[ir.Graph]:
    if attribute.type is ir.AttributeType.GRAPH:
        return [attribute.as_graph()]
    return list(attribute.as_graphs())
