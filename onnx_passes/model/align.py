"""Which node of one graph is which of another, whatever their names are."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable

import onnx_ir as ir

from onnx_passes.model.digest import digest, leaf_key, tensor_digest
from onnx_passes.model.walk import captured_values, topological_order

_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def align(a: ir.Graph, b: ir.Graph) -> dict[ir.Node, ir.Node]:
    """Pair the nodes of two graphs, each with one of the same operator, or with none.

    Nodes pair that compute the same from the same inputs. Then pair those with the same
    operators before them, or after them, then those at the same place of a pair. Where several
    fit, the one of the same name is taken, else the first.

    Args:
        a: A graph; its nodes are the keys of the result.
        b: The other graph.

    Raises:
        ModelError: A graph has a cycle, or weights cannot be read.
    """
    pairs: dict[ir.Node, ir.Node] = {}
    for key in (_forward(exact=True), _forward(exact=False), _backward):
        _pair(a, b, key, pairs)
    _spread(b, pairs)
    return pairs


def operator(node: ir.Node) -> str:
    """Name an operator: ``domain::Op``."""
    return "::".join(filter(None, (node.domain, node.op_type, node.overload)))


def constant_of(value: ir.Value | None) -> ir.TensorProtocol | None:
    """Return the tensor of an initializer that is not a graph input."""
    if value is None or not value.is_initializer() or value.is_graph_input():
        return None
    return value.const_value


def _forward(*, exact: bool) -> Callable[[ir.Graph], dict[ir.Node, Hashable]]:
    def keys(graph: ir.Graph) -> dict[ir.Node, Hashable]:
        known: dict[ir.Value, bytes] = {}
        found: dict[ir.Node, Hashable] = {}

        def of(value: ir.Value | None) -> object:
            if value is None or value in known:
                return None if value is None else known[value]
            tensor = constant_of(value)
            if tensor is not None:
                return ("constant", tensor_digest(tensor) if exact else b"")
            return ("outer", str(value.name))

        for node in topological_order(graph):
            leaves = (
                (name, attribute.type in _GRAPHS or leaf_key(attribute))
                for name, attribute in sorted(node.attributes.items())
            )
            mark = digest(
                operator(node),
                tuple(map(of, node.inputs)),
                tuple(of(v) for v in captured_values(node)),
                tuple(leaves) if exact else (),
            )
            found[node] = mark
            known |= {v: digest(mark, i) for i, v in enumerate(node.outputs)}
        return found

    return keys


def _backward(graph: ir.Graph) -> dict[ir.Node, Hashable]:
    found: dict[ir.Node, bytes] = {}
    roles = defaultdict(list)
    for place, value in enumerate(graph.outputs):
        roles[value].append(place)
    for node in reversed(topological_order(graph)):
        uses = tuple(
            (
                tuple(roles[value]),
                tuple(sorted((found.get(u.node, b""), u.idx) for u in value.uses())),
            )
            for value in node.outputs
        )
        found[node] = digest(operator(node), uses)
    return dict(found)


def _pair(
    a: ir.Graph,
    b: ir.Graph,
    keys: Callable[[ir.Graph], dict[ir.Node, Hashable]],
    pairs: dict[ir.Node, ir.Node],
) -> None:
    taken = set(pairs.values())
    free: defaultdict[Hashable, list[ir.Node]] = defaultdict(list)
    for node, key in keys(b).items():
        if node not in taken:
            free[key].append(node)
    left: defaultdict[Hashable, list[ir.Node]] = defaultdict(list)
    for node, key in keys(a).items():
        if node not in pairs:
            left[key].append(node)
    for key, nodes in left.items():
        named = {node.name: node for node in free[key]}
        late = []
        for node in nodes:
            other = named.pop(node.name, None) if node.name else None
            if other is None:
                late.append(node)
            else:
                pairs[node] = other
                free[key].remove(other)
        pairs |= dict(zip(late, free[key], strict=False))


def _spread(b: ir.Graph, pairs: dict[ir.Node, ir.Node]) -> None:
    """Pair neighbours of pairs: makers of the same input, users of the same output."""
    taken = set(pairs.values())
    queue = deque(pairs.items())
    while queue:
        left, right = queue.popleft()
        near = [
            (x.producer(), y.producer())
            for x, y in zip(left.inputs, right.inputs, strict=False)
            if x is not None and y is not None
        ]
        for x, y in zip(left.outputs, right.outputs, strict=False):
            for use in x.uses():
                near += [(use.node, other.node) for other in y.uses() if other.idx == use.idx]
        for one, other in near:
            if one is None or other is None or one in pairs or other in taken:
                continue
            if operator(one) == operator(other) and other.graph is b:
                pairs[one] = other
                taken.add(other)
                queue.append((one, other))
