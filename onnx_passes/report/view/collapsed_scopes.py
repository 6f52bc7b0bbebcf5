"""Groups of nodes that a page collapses: by scope, and by place where a scope is large."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import onnx_ir as ir

_LARGEST = 48  # children of a group that are shown side by side
_PLACES = ("pkg.torch.onnx.name_scopes", "namespace")  # metadata of exporters


@dataclass
class NodeGroup:
    """A group of nodes.

    Attributes:
        name: What the page calls it.
        parent: Its place among the groups; None for the root.
        children: Groups and nodes in it, in topological order: (is a group, place).
    """

    name: str
    parent: int | None
    children: list[tuple[bool, int]] = field(default_factory=list)


@dataclass
class Groups:
    """A tree of groups; the first one is the root.

    Attributes:
        groups: The groups, each after its parent.
    """

    groups: list[NodeGroup] = field(default_factory=lambda: [NodeGroup("", None)])
    _known: dict[tuple[int, str], int] = field(default_factory=dict)

    def add(self, parent: int, name: str) -> int:
        """Make a group, and return its place.

        Args:
            parent: Place of the group around it.
            name: Its name.
        """
        self.groups.append(NodeGroup(name, parent))
        place = len(self.groups) - 1
        self.groups[parent].children.append((True, place))
        return place

    def find(self, parent: int, path: Iterable[str]) -> int:
        """Return the group of a path below another one; groups that lack are made.

        Args:
            parent: Place of the group that the path starts from.
            path: Names of groups, the outermost first.
        """
        place = parent
        for name in path:
            key = (place, name)
            if key not in self._known:
                self._known[key] = self.add(place, name)
            place = self._known[key]
        return place

    def place(self, group: int, node: int) -> None:
        """Put a node into a group.

        Args:
            group: Place of the group.
            node: Number of the node.
        """
        self.groups[group].children.append((False, node))

    def tidy(self) -> None:
        """Lift what is alone in its group, and split groups too large to be seen at once."""
        for place in reversed(range(1, len(self.groups))):
            self._lift(place)
        for place in range(len(self.groups)):
            self._split(place)

    def _lift(self, place: int) -> None:
        """Put the only child of a group into its place; the name of a group keeps both."""
        group = self.groups[place]
        if len(group.children) != 1 or group.parent is None:
            return
        (is_group, child), siblings = group.children[0], self.groups[group.parent].children
        siblings[siblings.index((True, place))] = (is_group, child)
        group.children = []
        if is_group:
            below = self.groups[child]
            below.parent, below.name = group.parent, f"{group.name} / {below.name}"

    def _split(self, place: int) -> None:
        while len(children := self.groups[place].children) > _LARGEST:
            runs = _runs(children)
            self.groups[place].children = []
            start = 1
            for run in runs:
                end = start + sum(self._size(*child) for child in run)
                part = self.add(place, f"nodes {start:,} to {end - 1:,}")
                self.groups[part].children = run
                for is_group, child in run:
                    if is_group:
                        self.groups[child].parent = part
                start = end

    def _size(self, is_group: bool, place: int) -> int:
        if not is_group:
            return 1
        return sum(self._size(*child) for child in self.groups[place].children)


def _runs(children: list[tuple[bool, int]]) -> list[list[tuple[bool, int]]]:
    """Cut a list into parts of about the same length."""
    count = -(-len(children) // _LARGEST)
    ends = [len(children) * i // count for i in range(count + 1)]
    return [children[low:high] for low, high in pairwise(ends)]


def scope_of(node: ir.Node) -> Sequence[str]:
    """Return the scope that an exporter gave a node, from the outside in; empty for none.

    It is read from the metadata of exporters, or from a name such as ``/layer1/conv/Conv``.
    """
    for key in _PLACES:
        text = node.metadata_props.get(key)
        if text:
            return _listed(text)[:-1] if text.startswith("[") else text.split("/")[:-1]
    return [part for part in (node.name or "").split("/")[:-1] if part]


def _listed(text: str) -> list[str]:
    """Return the last parts of a list such as ``['', 'layer1', 'layer1.0', 'relu']``."""
    names = [part.strip(" '\"") for part in text.strip("[]").split(",")]
    found: list[str] = []
    outer = ""
    for name in filter(None, names):
        found.append(name.removeprefix(f"{outer}."))
        outer = name
    return found
