"""Shapes that onnx's inference does not find while dimensions are dynamic.

It names sums and products of dimensions, and lengths that the end of a table limits.
"""

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet

import onnx_ir as ir

from onnx_passes.model.walk import graphs_within, topological_order
from onnx_passes.ops.domains.sizes import (
    Element,
    Terms,
    add,
    dimension,
    divide,
    multiply,
    terms_of,
)
from onnx_passes.ops.operator_class import operator_of
from onnx_passes.passes.common.shapes import Knowledge
from onnx_passes.passes.replace import INVENTED, is_invented

Dims = list[int | str | None]

Caps = dict[str, str]
"""The name of a dimension that is the smaller of a number and another: the other's name."""


def caps_of(node: ir.Node, facts: Knowledge) -> Caps:
    """Return the caps that a Slice of axes of fixed sizes makes, from 0 to a dimension."""
    data, result = node.inputs[0], node.outputs[0]
    if node.attributes or data is None or data.shape is None or result.shape is None:
        return {}
    rank = len(data.shape)
    given = [facts.of(value) for value in node.inputs[1:]]
    starts, ends, axes, steps = (given + [None] * 4)[:4]
    if starts is None or ends is None or len(result.shape) != rank:
        return {}
    plain = len(node.inputs) < 5 or (steps is not None and set(steps.numbers or [0]) == {1})
    numbers = list(range(rank)) if len(node.inputs) < 4 else None
    if axes is not None:
        numbers = axes.numbers
    if not plain or numbers is None:
        return {}
    found = {}
    for start, end, axis in zip(starts.elements, ends.elements, numbers, strict=False):
        dim = result.shape[axis]
        cut = dim.value if isinstance(dim, ir.SymbolicDim) else None
        if start != 0 or cut is None or not isinstance(data.shape[axis], int):
            continue
        if isinstance(end, tuple) and end[0] == "name" and end[1] != cut:
            found[cut] = str(end[1])
    return found


def widened(node: ir.Node, caps: Caps) -> Dims | None:
    """Return what is known of a broadcast beyond what inference finds in one run.

    A dimension that an operand has in full and another cut. The two fit only if nothing is
    cut, or either is 1, so that the result has the dimension itself. And one that all have, as
    rules have found meanwhile. None where there is none of that. ``node`` broadcasts.
    """
    result = node.outputs[0].shape
    if result is None or not any(map(is_invented, result.dims)):
        return None  # as of nearly all nodes
    if node.attributes:  # before opset 7 they say how to broadcast
        return None
    known: list[Dims] = []
    for value in node.inputs:
        if value is not None and value.shape is None:
            return None
        if value is not None and value.shape is not None:
            known.append(_dims(value.shape))
    rank, ends = len(result), Dims()
    if node.op_type == "MatMul":
        if min(map(len, known)) < 2:
            return None
        ends = [known[0][-2], known[1][-1]]
        known = [dims[:-2] for dims in known]
    elif (operator := operator_of(node)) is None or not operator.elementwise:
        return None
    if max(map(len, known)) + len(ends) != rank:
        return None
    dims = [_common(known, axis, caps) for axis in range(len(ends) - rank, 0)]
    dims = [d if is_invented(o) else None for d, o in zip(dims + ends, result, strict=True)]
    dims = [None if str(dim).startswith(INVENTED) else dim for dim in dims]
    return None if all(dim is None for dim in dims) else dims


def _common(known: list[Dims], axis: int, caps: Caps) -> int | str | None:
    """Return what operands have in common at an axis, counted from the last."""
    sizes = {dims[axis] for dims in known if len(dims) >= -axis} - {1}
    if len(sizes) == 1:
        return next(iter(sizes))
    for size in sizes:
        whole = caps.get(size) if isinstance(size, str) else None
        if whole is not None and sizes == {size, whole}:
            return whole
    return None


def _dims(shape: ir.Shape) -> Dims:
    return [d if isinstance(d, int) else d.value for d in shape]


SIGN, TIMES = "+", "*"


def spelt(element: Element) -> str | None:
    """Return a name for a sum or a product of dimensions, as ``past+sequence``, ``2*batch``.

    The same for each way to compute it. None for what is neither, for a sum in which a
    dimension is there twice, and for dimensions without a name.
    """
    terms = terms_of(element) or {}
    if len(terms) == 1:
        return _product(terms)
    names = []
    for monomial, factor in terms.items():
        if not monomial:
            return None
        ((size, power), *others) = monomial
        if factor != 1 or power != 1 or others or size[0] != "name":
            return None
        if str(size[1]).startswith(INVENTED) or SIGN in str(size[1]):
            return None
        names.append(str(size[1]))
    return SIGN.join(sorted(names)) if len(names) > 1 else None


def _product(terms: Terms) -> str | None:
    """Return a name for a product; parts that are not plain names stand in parentheses."""
    ((monomial, factor),) = terms.items()
    parts = []
    for size, power in monomial:
        name = str(size[1])
        if size[0] != "name" or name.startswith(INVENTED) or "(" in name or ")" in name:
            return None
        parts += [name if name.isidentifier() else f"({name})"] * power
    if factor < 1 or not parts:
        return None
    return TIMES.join([str(factor)] * (factor > 1) + sorted(parts))


def taken(model: ir.Model) -> set[str]:
    """Return the names that the user gave to dimensions, and that could be made here."""
    values = [*model.graph.inputs, *model.graph.outputs]
    for graph in graphs_within(model.graph):
        values += (v for node in graph if node.domain for v in node.outputs)
    dims = (dim for value in values for dim in value.shape or ())
    names = {d.value for d in dims if isinstance(d, ir.SymbolicDim) and d.value is not None}
    sums = {n for n in names if SIGN in n and SIGN.join(sorted(n.split(SIGN))) == n}
    return sums | {n for n in names if TIMES in n}


class Joined:
    """The sizes of what Concat makes, and of what Transpose makes of that.

    What is declared of an output of the model is not asked: it may be called ``total`` there.
    """

    def __init__(self) -> None:
        """Know of none yet."""
        self._of: dict[ir.Value, Dims] = {}

    def visit(self, node: ir.Node) -> Dims | None:
        """Return the dimensions of a node's output where these are sums."""
        dims: Dims | None = None
        if node.op_type == "Concat":
            dims = self._concat(node)
        elif node.op_type == "Transpose" and node.inputs[0] in self._of:
            dims = self._of[node.inputs[0]]
            order = node.attributes.get_ints("perm") or range(len(dims))[::-1]
            dims = [dims[axis] for axis in order]
        if dims is not None:
            self._of[node.outputs[0]] = dims
        return dims

    def _concat(self, node: ir.Node) -> Dims | None:
        parts = [value for value in node.inputs if value is not None]
        ranks = {None if value.shape is None else len(value.shape) for value in parts}
        axis = node.attributes.get_int("axis")
        rank = ranks.pop() if len(ranks) == 1 else None
        if not rank or axis is None:
            return None
        sizes = [dimension(value, axis % rank) for value in parts]
        name = spelt(functools.reduce(add, sizes))
        if name is None:
            return None
        dims: Dims = [d if isinstance(d, int) else d.value for d in parts[0].shape or ()]
        dims = [None if str(d).startswith(INVENTED) else d for d in dims]
        dims[axis % rank] = name
        return dims


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

    ``orders`` are from :func:`node_orders`. ``facts`` knows nothing yet of what depends on
    shapes; ``ambiguous`` names could be names of sums. Returns what was annotated, by name;
    None for what is left to inference.
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
    dims = _dims_refine(data)
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
    mine = [1] * (rank - len(data.shape)) + _dims_refine(data)
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

    An unknown number of dimensions has no ``sizes``. With ``copies``, a 0 copies a dimension.
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


def _dims_refine(value: ir.Value) -> Dims:
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
