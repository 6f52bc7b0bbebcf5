"""Shapes that onnx's inference does not find while dimensions are dynamic."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx_ir as ir

from onnx_passes.graph.walk import graphs_within, topological_order
from onnx_passes.passes._support.knowledge import Knowledge
from onnx_passes.passes._support.known import Element

Dims = list[int | str | None]


def refine(model: ir.Model) -> set[str]:
    """Annotate what can be said of Range and Slice in the main graph and its subgraphs.

    Returns:
        Names of the values that were annotated.
    """
    facts = Knowledge(model.graph.opset_imports)
    found: set[str] = set()
    for graph in graphs_within(model.graph):
        for node in topological_order(graph):
            facts.visit(node)
            rule = _RULES.get(node.op_type) if node.domain == "" else None
            if rule is None or node.outputs[0].is_graph_output():
                continue
            dims = rule(node, facts)
            if dims is not None and _annotate(node.outputs[0], dims):
                found.add(str(node.outputs[0].name))
    return found


def _annotate(value: ir.Value, dims: Dims) -> bool:
    """Add what is known to what is annotated; numbers stay."""
    old = value.shape if value.shape is not None else ir.Shape([None] * len(dims))
    if len(old) != len(dims) or all(dim is None for dim in dims):
        return False
    pairs = list(zip(old, dims, strict=True))
    value.shape = ir.Shape([o if isinstance(o, int) or n is None else n for o, n in pairs])
    return any(n is not None and not isinstance(o, int) for o, n in pairs)


def _name(element: Element) -> str | None:
    """Return the name of a dimension; what has none cannot be annotated elsewhere."""
    if isinstance(element, tuple) and element[0] == "name":
        return str(element[1])
    return None


def _range(node: ir.Node, facts: Knowledge) -> Dims | None:
    start, limit, delta = (facts.of(value) for value in node.inputs)
    if start is None or limit is None or delta is None:
        return None
    if start.numbers != [0] or delta.numbers != [1] or len(limit.elements) != 1:
        return None
    return [_name(limit.elements[0])]


def _slice(node: ir.Node, facts: Knowledge) -> Dims | None:
    data = node.inputs[0]
    if data is None or data.shape is None or node.attributes:
        return None
    rank = len(data.shape)
    given = [facts.of(value) for value in node.inputs[1:]]
    starts, ends, axes, steps = (given + [None] * 4)[:4]
    missing = [v is None for v in (*node.inputs, None, None)][3:5]
    if missing[0]:
        count = len(starts.elements) if starts is not None else rank
        sliced = list(range(count))
    elif axes is None or axes.numbers is None:
        return None
    else:
        sliced = [axis % rank for axis in axes.numbers]
    dims: Dims = [d if isinstance(d, int) else d.value for d in data.shape]
    plain = missing[1] or (steps is not None and set(steps.numbers or [0]) == {1})
    for index, axis in enumerate(sliced):
        start = starts.elements[index] if starts is not None else None
        end = ends.elements[index] if ends is not None else None
        whole = isinstance(end, int) and end >= (1 << 31) - 1
        same = dims[axis] is not None and _name(end) == dims[axis]
        if not (plain and start == 0 and (whole or same)):
            dims[axis] = None
    return dims


_RULES: Mapping[str, Callable[[ir.Node, Knowledge], Dims | None]] = {
    "Range": _range,
    "Slice": _slice,
}
