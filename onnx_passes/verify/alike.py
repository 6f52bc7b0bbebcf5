"""Whether two models, or the changed parts of them, compute the same by the same nodes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import onnx_ir as ir

from onnx_passes.model.walk import captured_values, subgraphs_of
from onnx_passes.verify.node_equality import branch_taken, constant_tensor
from onnx_passes.verify.numbering import Numbering, Numbers
from onnx_passes.verify.obligations import Obligation
from onnx_passes.verify.region import Region

_MOST_GROWN = 64
"""Number of unchanged nodes around a region that are looked at, for each side."""
_ROUNDS = 3


def compute_alike(before: ir.Model, after: ir.Model) -> bool:
    """Whether two models compute their outputs alike from inputs in the same places.

    Args:
        before: A model.
        after: The other model.
    """
    if len(before.graph.inputs) != len(after.graph.inputs):
        return False
    table, found = Numbering(), []
    for model in (before, after):
        given = {}
        for index, value in enumerate(model.graph.inputs):
            default = value.const_value
            held = None if default is None else table.of_tensor(default)
            given[value] = table.of(("input", index, held))
        numbers = Numbers(table, model, given)
        numbers.add(model.graph)
        found.append([numbers.of(value) for value in model.graph.outputs])
    return found[0] == found[1]


def find_proved(
    region: Region,
    before: ir.Model,
    after: ir.Model,
    obligations: Sequence[Obligation],
    agreed: Collection[Obligation] = (),
) -> set[Obligation]:
    """Return the obligations whose values are computed alike from the same values.

    By induction over the model after, a name that neither side computes anew is one value.

    Args:
        region: What changed.
        before: The model before.
        after: The model after.
        obligations: What has to be equal.
        agreed: Obligations that are known to hold: values that follow from them are proved.
    """
    held = [one for one in obligations if one.tensor is None]
    old = _Changed(before, region.removed, [one.old for one in obligations])
    new = _Changed(after, region.nodes, [one.new for one in held])
    found: set[Obligation] = set()
    for _ in range(_ROUNDS):
        _grow(old, new)
        found |= _alike(region, old, new, obligations, agreed)
        operators = old.operators | new.operators
        both = {n for n in old.reads.keys() & new.reads.keys() if old.maker(n) in operators}
        if len(found) == len(obligations) or not (old.grow(both) and new.grow(both)):
            break  # what is computed twice may be read from a node that is still there
    return found


def _grow(old: _Changed, new: _Changed) -> None:
    """Follow what only one side reads, up to what both do."""
    for _ in range(_MOST_GROWN):
        left, right = old.reads.keys(), new.reads.keys()
        if not (old.grow(left - right) | new.grow(right - left)):
            return


def _alike(
    region: Region,
    old: _Changed,
    new: _Changed,
    obligations: Sequence[Obligation],
    agreed: Collection[Obligation],
) -> set[Obligation]:
    """Return the obligations whose numbers are equal."""
    table = Numbering()
    # A branch that is never taken may be dropped; where it stays, it is held to its promise.
    inlined = not any(
        node.op_type == "If" and branch_taken(node) is not None
        for outer in region.nodes
        for node in (outer, *(n for graph in subgraphs_of(outer) for n in graph.all_nodes()))
    )
    right_numbers = new.number(table, inlined=inlined)
    pairs = {one.old: right_numbers.get(one.new) for one in agreed if one.tensor is None}
    left_numbers = old.number(table, pairs, inlined=inlined)

    def is_alike(one: Obligation) -> bool:
        held = one.tensor
        right = right_numbers.get(one.new) if held is None else table.of_tensor(held)
        return right is not None and left_numbers.get(one.old) == right

    return set(filter(is_alike, obligations))


class _Changed:
    """What changed in one model, with nodes around it."""

    def __init__(
        self, model: ir.Model, nodes: Sequence[ir.Node], names: Sequence[str]
    ) -> None:
        """Start with the nodes that changed.

        Args:
            model: The model.
            nodes: The nodes.
            names: Names of the values whose numbers are asked for.
        """
        self._model, self._nodes = model, set(nodes)
        self._order: Sequence[ir.Node] = nodes
        self.reads: dict[str, ir.Value] = {}
        made = {str(v.name): v for node in nodes for v in node.outputs if v.name}
        self._asked = {name: made[name] for name in names if name in made}
        if missing := set(names) - made.keys():
            graph = model.graph
            values = (*graph.inputs, *graph.initializers.values())
            values += tuple(v for node in graph for v in node.outputs)
            self._asked |= {str(v.name): v for v in values if v.name in missing}
        self._note(*self._asked.values())
        for node in nodes:
            self._note(*node.inputs, *captured_values(node))

    def _note(self, *values: ir.Value | None) -> None:
        for value in values:
            if value is None or value.producer() in self._nodes:
                continue
            if constant_tensor(value) is None:
                self.reads[str(value.name)] = value

    @property
    def operators(self) -> set[str]:
        """The operators on this side."""
        return {node.op_type for node in self._nodes}

    def maker(self, name: str) -> str | None:
        """Return the operator that computes a value which this side reads."""
        node = self.reads[name].producer()
        return None if node is None else node.op_type

    def grow(self, names: set[str]) -> bool:
        """Add the nodes that compute what only this side reads, in the order of reading."""
        added = False
        for name in [name for name in self.reads if name in names]:
            value = self.reads.get(name)
            node = None if value is None else value.producer()
            if node is None or len(self._nodes) > len(self._order) + _MOST_GROWN:
                continue
            added = True
            self._nodes.add(node)
            for made in node.outputs:
                self.reads.pop(str(made.name), None)
            self._note(*node.inputs, *captured_values(node))
        return added

    def number(
        self,
        table: Numbering,
        taken_as: Mapping[str, int | None] | None = None,
        *,
        inlined: bool,
    ) -> dict[str, int]:
        """Return the numbers of the values that were asked for."""
        known = {
            self._asked[name]: number
            for name, number in (taken_as or {}).items()
            if number is not None and name in self._asked
        }
        numbers = Numbers(table, self._model, inlined=inlined, taken_as=known)
        grown = len(self._nodes) > len(self._order)
        nodes = self._model.graph if grown else self._order
        numbers.add(node for node in nodes if node in self._nodes)
        computed = numbers.computed
        return {
            name: computed[v] if v in computed else numbers.of(v)
            for name, v in self._asked.items()
        }
