"""Shapes that onnx's inference does not find while dimensions are dynamic."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet

import onnx_ir as ir

from onnx_passes.model.walk import graphs_within, topological_order
from onnx_passes.ops.domains.sizes import Element, dimension, divide, multiply
from onnx_passes.passes._support.knowledge import Knowledge
from onnx_passes.passes.annotated import INVENTED
from onnx_passes.passes.annotation._capped import (
    Caps,
    Dims,
    caps_of,
    widened,
)
from onnx_passes.passes.annotation._joined import Joined, spelt

MOST_RESHAPES = 4096
"""Results of Reshape that are remembered: their dimensions may belong to values."""


def node_orders(model: ir.Model) -> list[list[ir.Node]]:
    """Return the nodes of the main graph and of each of its subgraphs, producers first."""
    return [topological_order(graph) for graph in graphs_within(model.graph)]


def refine(
    orders: Sequence[Sequence[ir.Node]],
    facts: Knowledge,
    ambiguous: AbstractSet[str],
    reshapes: dict[Hashable, Dims],
) -> dict[str, Dims]:
    """Annotate what can be said of nodes with a rule, in the main graph and its subgraphs.

    Args:
        orders: The nodes, from :func:`node_orders`.
        facts: Knows nothing yet of what depends on shapes.
        ambiguous: Names that could be names of sums.
        reshapes: What is known of results of Reshape, by what it depends on.

    Returns:
        What was annotated of values by name; None for what is left to inference.
    """
    caps, joined = Caps(), Joined()
    found: dict[str, Dims] = {}
    for order in orders:
        same: dict[str, int | str] = {}
        for node in order:
            if same:
                _rename(node, same)
            if node.domain or not node.outputs:
                continue
            facts.visit(node)
            dims = joined.visit(node)
            if node.outputs[0].is_graph_output():
                continue
            if node.op_type == "Slice":
                caps |= caps_of(node, facts)
            rule = _RULES.get(node.op_type)
            if dims is None and node.op_type == "Expand":
                dims = _expand(node, facts, caps)
            elif dims is None and node.op_type == "Reshape":
                dims = _reshape(node, facts, reshapes)
            elif dims is None:
                dims = rule(node, facts) if rule is not None else widened(node, caps)
            if dims is not None and ambiguous:
                dims = [None if dim in ambiguous else dim for dim in dims]
            if dims is not None:
                same |= _identified(node.outputs[0], dims)
            if dims is not None and _annotate(node.outputs[0], dims):
                found[str(node.outputs[0].name)] = dims
    return found


def _identified(value: ir.Value, dims: Dims) -> dict[str, int | str]:
    """Return what the names that inference has invented for a value turn out to be."""
    shape = value.shape
    if shape is None or len(shape.dims) != len(dims):
        return {}
    return {
        old.value: new
        for old, new in zip(shape.dims, dims, strict=True)
        if not isinstance(old, int) and old.value is not None and new is not None
        if old.value.startswith(INVENTED) and old.value != new
    }


def _rename(node: ir.Node, same: Mapping[str, int | str]) -> None:
    """Pass on what invented names turned out to be: another run of inference would."""
    for value in node.outputs:
        if value.shape is None or value.is_graph_output():
            continue
        old = value.shape.dims
        names = [None if isinstance(d, int) else d.value for d in old]
        if any(name in same for name in names if name is not None):
            pairs = zip(names, old, strict=True)
            value.shape = ir.Shape([d if n is None else same.get(n, d) for n, d in pairs])


def _annotate(value: ir.Value, dims: Dims) -> bool:
    """Add what is known to what is annotated; numbers stay."""
    shape = value.shape if value.shape is not None else ir.Shape([None] * len(dims))
    old = shape.dims
    if len(old) != len(dims) or dims.count(None) == len(dims):
        return False
    found, new = False, list[int | str | ir.SymbolicDim | None](old)
    for axis, (dim, known) in enumerate(zip(old, dims, strict=True)):
        if known is not None and not isinstance(dim, int):
            found, new[axis] = True, known
    if found or value.shape is None:
        value.shape = ir.Shape(new)
    return found


def _name(element: Element) -> str | None:
    """Return the name of a dimension or a sum; what has none cannot be annotated elsewhere."""
    if isinstance(element, tuple) and element[0] == "name":
        return str(element[1])
    return spelt(element)


def _range(node: ir.Node, facts: Knowledge) -> Dims | None:
    start, limit, delta = (facts.of(value) for value in node.inputs)
    if start is None or limit is None or delta is None:
        return None
    if start.numbers != [0] or delta.numbers != [1] or len(limit.elements) != 1:
        return None
    return [_name(limit.elements[0])]


def _slice(node: ir.Node, facts: Knowledge) -> Dims | None:
    data = node.inputs[0]
    rank = 0 if data is None or data.shape is None else len(data.shape)
    if data is None or not rank or node.attributes:
        return None
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
    dims = _dims(data)
    plain = missing[1] or (steps is not None and set(steps.numbers or [0]) == {1})
    for index, axis in enumerate(sliced):
        start = starts.elements[index] if starts is not None else None
        end = ends.elements[index] if ends is not None else None
        whole = isinstance(end, int) and end >= (1 << 31) - 1
        same = dims[axis] is not None and _name(end) == dims[axis]
        if not (plain and start == 0 and (whole or same)):
            dims[axis] = None
    return dims


def _expand(node: ir.Node, facts: Knowledge, caps: Caps) -> Dims | None:
    data, target = node.inputs[0], facts.of(node.inputs[1])
    if data is None or data.shape is None or target is None:
        return None
    rank = max(len(data.shape), len(target.elements))
    mine = [1] * (rank - len(data.shape)) + _dims(data)
    wanted = [1] * (rank - len(target.elements)) + [_dim(e) for e in target.elements]
    return [_broadcast(a, b, caps) for a, b in zip(mine, wanted, strict=True)]


def _broadcast(a: int | str | None, b: int | str | None, caps: Caps) -> int | str | None:
    """Return what two dimensions that fit together become.

    One that is another, cut at the end of a table, fits it only where nothing is cut.
    """
    if a == 1 or a == b or (isinstance(a, str) and b is not None and caps.get(a) == b):
        return b
    # Two that differ fit only if one is 1: a size of another number decides.
    return a if b == 1 or isinstance(a, int) else b if isinstance(b, int) else None


def _constant_of_shape(node: ir.Node, facts: Knowledge) -> Dims | None:
    target = facts.of(node.inputs[0])
    return None if target is None else [_dim(e) for e in target.elements]


def _tile(node: ir.Node, facts: Knowledge) -> Dims | None:
    data, repeats = node.inputs[0], facts.of(node.inputs[1])
    if data is None or data.shape is None or repeats is None:
        return None
    if len(repeats.elements) != len(data.shape):
        return None
    sizes = (dimension(data, axis) for axis in range(len(data.shape)))
    return [_dim(multiply(a, b)) for a, b in zip(sizes, repeats.elements, strict=True)]


def _reshape(node: ir.Node, facts: Knowledge, known: dict[Hashable, Dims]) -> Dims | None:
    data, target = node.inputs[0], facts.of(node.inputs[1]) if len(node.inputs) > 1 else None
    if data is None or target is None:
        return None
    copies = not node.attributes.get_int("allowzero", 0)
    rank = None if data.shape is None else len(data.shape)
    sizes = None if rank is None else tuple([dimension(data, axis) for axis in range(rank)])
    key = (sizes, target.elements, copies)
    if key not in known:
        if len(known) > MOST_RESHAPES:
            known.clear()
        known[key] = _reshaped(sizes, target.elements, copies=copies)
    return list(known[key])


def _reshaped(
    sizes: Sequence[Element] | None, target: Sequence[Element], *, copies: bool
) -> Dims:
    """Return what is known of the result of a Reshape.

    Args:
        sizes: The dimensions of the data; None if their number is unknown.
        target: The target.
        copies: Whether a 0 copies a dimension.
    """
    elements: list[Element] = []
    for axis, element in enumerate(target):
        if element == 0 and copies:
            elements.append(sizes[axis] if sizes is not None and axis < len(sizes) else None)
        else:
            elements.append(element)
    if elements.count(-1) == 1 and sizes is not None:
        total: Element = 1
        for size in sizes:
            total = multiply(total, size)
        others: Element = 1
        for element in elements:
            others = multiply(others, 1 if element == -1 else element)
        elements[elements.index(-1)] = divide(total, others)
    return [_dim(e) for e in elements]


def _dims(value: ir.Value) -> Dims:
    """Return what is annotated of a value."""
    return [d if isinstance(d, int) else d.value for d in value.shape or ()]


def _dim(element: Element) -> int | str | None:
    """Return what can be annotated of a size.

    A name that inference has invented does not count: the next round may find a better one.
    """
    if isinstance(element, int):
        return element if element >= 0 else None
    name = _name(element)
    return None if name is None or name.startswith(INVENTED) else name


_RULES: Mapping[str, Callable[[ir.Node, Knowledge], Dims | None]] = {
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    "Slice": _slice,
    "Tile": _tile,
}
