"""What has to be equal after a change, and which part of it each value vouches for.

An obligation is a pair of values: one of the model before, one of the model after. A part is a
connected piece of what was removed and what is new; values that were compared and agree are
where parts end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_passes.model.walk import captured_values
from onnx_passes.passes.context import Application
from onnx_passes.verify.node_equality import constant_tensor
from onnx_passes.verify.region import Region


@dataclass(frozen=True)
class Obligation:
    """A value of the model before, and the one that must equal it after.

    Attributes:
        old: Name of the value before.
        new: Name of the value after.
        tensor: What the value after always is, where that is known.
    """

    old: str
    new: str
    tensor: ir.TensorProtocol | None = field(default=None, compare=False)


def find_obligations(
    region: Region, before: ir.Model, after: ir.Model, applied: Sequence[Application]
) -> list[Obligation]:
    """Return what must be equal: the frontier, and what each rewrite says that it replaced.

    Args:
        region: What changed.
        before: The model before, without functions.
        after: The model after, without functions.
        applied: The rewrites that the pass recorded.
    """
    found = {name: Obligation(name, name) for name in region.frontier}
    found |= {name: Obligation(name, name, t) for name, t in region.folded.items()}
    if not applied:
        return list(found.values())
    old = _values(before)
    new = _values(after)
    later = {a: b for application in applied for a, b in application.replaced if a != b}
    for name, target in (pair for one in applied for pair in one.replaced):
        seen = {name}
        while target not in new and target in later and target not in seen:
            seen.add(target)
            target = later[target]
        value, known = new.get(target), old.get(name)
        if name in found or value is None or known is None or not _is_read(value):
            continue
        if constant_tensor(known) is not None or known.is_graph_input():
            continue
        if target == name and value.producer() not in region.nodes:
            continue  # it is computed as before
        found[name] = Obligation(name, target, constant_tensor(value))
    return list(found.values())


def find_inner(region: Region, before: ir.Model, known: Collection[str]) -> list[Obligation]:
    """Return the values of new nodes whose names were in use before; they may differ.

    Args:
        region: What changed.
        before: The model before, without functions.
        known: Names that are obligations already.
    """
    names = {str(v.name) for node in before.graph for v in node.outputs if v.name}
    return [
        Obligation(str(value.name), str(value.name))
        for node in region.nodes
        for value in node.outputs
        if value.name in names and value.name not in known
    ]


def _values(model: ir.Model) -> dict[str, ir.Value]:
    graph = model.graph
    found = {str(value.name): value for value in graph.initializers.values()}
    found |= {str(value.name): value for value in graph.inputs}
    return found | {str(v.name): v for node in graph for v in node.outputs if v.name}


def _is_read(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()


@dataclass
class ObligationPart:
    """A connected part of a change.

    Attributes:
        new: Its new nodes.
        old: The nodes that they replace.
        obligations: The values that vouch for it.
        numbers: Numbers of the rewrites that made it.
        rules: Names of their rules.
    """

    new: list[ir.Node] = field(default_factory=list)
    old: list[ir.Node] = field(default_factory=list)
    obligations: list[Obligation] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Its rules, or its operators before and after."""
        if self.rules:
            return ", ".join(dict.fromkeys(self.rules))
        old, new = (_operators(nodes) for nodes in (self.old, self.new))
        return f"{old or 'nothing'} -> {new or 'nothing'}"


def _operators(nodes: Iterable[ir.Node]) -> str:
    counts = Counter(node.op_type for node in nodes)
    named = [f"{n} {name}" if n > 1 else name for name, n in counts.most_common(4)]
    return " + ".join(named) + (" + ..." if len(counts) > len(named) else "")


def split_parts(
    region: Region,
    obligations: Sequence[Obligation],
    agreed: Collection[Obligation],
    applied: Sequence[Application],
) -> tuple[list[ObligationPart], list[Application]]:
    """Split a change into connected parts.

    Args:
        region: What changed.
        obligations: All values that were compared.
        agreed: Those that agree: what reads them on both sides need not be of one part.
        applied: The rewrites that the pass recorded.

    Returns:
        The parts, and the rewrites that left nothing.
    """
    sets = _Sets()
    makers: dict[tuple[bool, str], ir.Node] = {}
    for fresh, nodes in ((False, region.removed), (True, region.nodes)):
        makers |= {(fresh, str(v.name)): n for n in nodes for v in n.outputs if v.name}
    ends = {(False, o.old) for o in agreed} | {(True, o.new) for o in agreed}
    for fresh, nodes in ((False, region.removed), (True, region.nodes)):
        for node in nodes:
            sets.add(node)
            for value in (*node.inputs, *captured_values(node)):
                key = (fresh, str(value.name)) if value is not None else None
                if key in makers and key not in ends:
                    sets.join(node, makers[key])
    for (fresh, name), node in makers.items():
        if not fresh and (True, name) in makers:
            sets.join(node, makers[True, name])
    for one in obligations:
        pair = [makers[k] for k in ((False, one.old), (True, one.new)) if k in makers]
        for node in pair[1:]:
            sets.join(pair[0], node)
    lost = _join_applications(sets, makers, applied)
    parts: dict[Hashable, ObligationPart] = {}
    for fresh, nodes in ((False, region.removed), (True, region.nodes)):
        for node in nodes:
            part = parts.setdefault(sets.find(node), ObligationPart())
            (part.new if fresh else part.old).append(node)
    for one in obligations:
        keys = ((True, one.new), (False, one.old))
        maker = next((makers[key] for key in keys if key in makers), None)
        if maker is not None:
            parts[sets.find(maker)].obligations.append(one)
        else:
            parts.setdefault(one, ObligationPart()).obligations.append(one)
    gone = set(lost)
    for application in applied:
        if application.number not in gone:
            part = parts[sets.find(application.number)]
            part.numbers.append(application.number)
            part.rules.append(application.rule)
    return list(parts.values()), [a for a in applied if a.number in gone]


def _join_applications(
    sets: _Sets, makers: dict[tuple[bool, str], ir.Node], applied: Sequence[Application]
) -> list[int]:
    """Put each rewrite where the nodes are that it removed or made.

    Returns:
        The numbers of those with neither side left.
    """
    names: dict[str, int] = {}
    for application in applied:
        sets.add(application.number)
        for name in (name for pair in application.replaced for name in pair):
            # One that replaced what another one made is of one part with it.
            sets.join(application.number, names.setdefault(name, application.number))
    found: set[Hashable] = set()
    for application in applied:
        for name in (name for pair in application.replaced for name in pair):
            for fresh in (False, True):
                if (fresh, name) in makers:
                    sets.join(application.number, makers[fresh, name])
                    found.add(application.number)
    roots = {sets.find(number) for number in found}
    return [a.number for a in applied if sets.find(a.number) not in roots]


class _Sets:
    """Disjoint sets."""

    def __init__(self) -> None:
        self._above: dict[Hashable, Hashable] = {}

    def add(self, one: Hashable) -> None:
        self._above.setdefault(one, one)

    def find(self, one: Hashable) -> Hashable:
        root = one
        while self._above[root] != root:
            root = self._above[root]
        while self._above[one] != root:
            self._above[one], one = root, self._above[one]
        return root

    def join(self, one: Hashable, other: Hashable) -> None:
        self.add(one)
        self.add(other)
        self._above[self.find(one)] = self.find(other)
