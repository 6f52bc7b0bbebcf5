"""Small parts of a model that hold one of each kind of what occurs in it.

Networks repeat themselves. If a kind of node works in a hundred places, a fault is rather in
one that occurs once. If a fault is in all places of a kind, one of them will do. Only
operators, attributes and wiring are looked at: a fault in weights or values is not found.
"""

from __future__ import annotations

from collections import Counter

import onnx_ir as ir

from onnx_passes.model.digest import leaf_key
from onnx_passes.verify.reduce.parts import Nodes, Parts

_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def rare(parts: Parts) -> list[Nodes]:
    """Return the nodes of kinds that occur once, and then ends of one edge of each kind.

    Parts of more than half of the nodes are left out: bisection does as well as these.
    """
    kinds = _kinds(parts)
    counts = Counter(kinds)
    once = frozenset(i for i, kind in enumerate(kinds) if counts[kind] == 1)
    found = [once, _edges(parts, kinds)]
    return [p for p in dict.fromkeys(found) if p and 2 * len(p) <= len(kinds)]


def _edges(parts: Parts, kinds: list[int]) -> Nodes:
    makers = {v: i for i, node in enumerate(parts.nodes) for v in node.outputs}
    kept: set[int] = set()
    seen: set[tuple[int, int, int]] = set()
    for index, read in enumerate(parts.reads):
        for place, value in enumerate(read):
            maker = makers.get(value, -1)
            edge = (kinds[maker] if maker >= 0 else -1, place, kinds[index])
            if edge not in seen:
                seen.add(edge)
                kept |= {index, maker} if maker >= 0 else {index}
    return frozenset(kept)


def _kinds(parts: Parts) -> list[int]:
    """Number the nodes' operators with their attributes; equal ones get equal numbers."""
    numbers: dict[object, int] = {}
    return [numbers.setdefault(_kind(node), len(numbers)) for node in parts.nodes]


def _kind(node: ir.Node) -> object:
    attributes = tuple(
        (name, attribute.type if attribute.type in _GRAPHS else leaf_key(attribute))
        for name, attribute in sorted(node.attributes.items())
    )
    return node.domain, node.op_type, node.overload, len(node.inputs), attributes
