"""The parts in which two models differ, each as two models of its own, with its neighbours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.errors import EngineError
from onnx_passes.passes.context import Application
from onnx_passes.pipeline.region_parts import make_part
from onnx_passes.runtime.engine_base import Engine, Feeds
from onnx_passes.verify.cut import values_of
from onnx_passes.verify.obligations import ObligationPart, find_obligations, split_parts
from onnx_passes.verify.region import boundary_of, changed_region, is_constant_node

Models = tuple[ir.Model, ir.Model | None, Feeds]
"""Both sides of a part and the inputs of both; None for a side that computes nothing."""


@dataclass(frozen=True)
class Sides:
    """A connected part in which two models differ.

    Attributes:
        numbers: Numbers of the rewrites that made it.
        old: Its nodes in the first model.
        new: Its nodes in the second model.
        ends: Pairs of names of values, in the first model and in the second, that are equal.
    """

    numbers: tuple[int, ...]
    old: tuple[ir.Node, ...]
    new: tuple[ir.Node, ...]
    ends: tuple[tuple[str, str], ...]


class Beside:
    """Two models of the same computation, side by side.

    Args:
        before: The first model, without functions.
        after: The second model, without functions.
    """

    def __init__(self, before: ir.Model, after: ir.Model) -> None:
        self.before, self.after = before, after
        self._changed: set[ir.Node] = set()
        self._places = [{node: i for i, node in enumerate(m.graph)} for m in (before, after)]
        self._makers = [
            {str(v.name): node for node in m.graph for v in node.outputs if v.name}
            for m in (before, after)
        ]

    def parts(self, applied: Sequence[Application]) -> list[Sides] | None:
        """Return the parts that rewrites have made.

        Args:
            applied: The rewrites; empty where none are recorded.

        Returns:
            None where values cannot be matched by name, or a rewrite or a change belongs to
            no part.
        """
        region = changed_region(self.before, self.after)
        if region is None:
            return None
        required = find_obligations(region, self.before, self.after, applied)
        found, lost = split_parts(region, required, required, applied)
        if applied:
            others = [part for part in found if not part.numbers]
            found = [part for part in found if part.numbers]
            if not all(map(_only_reads, others)):
                return None
        if lost or not found:
            return None
        self._changed = {*region.nodes, *region.removed}
        return [
            Sides(
                tuple(part.numbers),
                tuple(part.old),
                tuple(part.new),
                tuple((o.old, o.new) for o in part.obligations if o.tensor is None),
            )
            for part in found
        ]

    def models(
        self, parts: Sequence[Sides], samples: Sequence[Feeds], engine: Engine
    ) -> list[Models] | None:
        """Return each part as two models, its neighbours included, with recorded inputs.

        An engine fuses nodes with their neighbours: without these, a part that keeps it from
        doing so would look as if it made no difference.

        Args:
            parts: The parts, from :meth:`parts`.
            samples: Inputs of the models.
            engine: What runs the first model for the values at the borders.

        Returns:
            None where a value at a border cannot be recorded, or is not a tensor.
        """
        wide = [self._with_neighbours(part) for part in parts]
        names = {n for part in wide for n in (*boundary_of(part.old), *boundary_of(part.new))}
        names |= {old for part in wide for old, _ in part.ends}
        static = all(
            v.shape is not None and v.shape.is_static() for v in self.before.graph.inputs
        )
        try:
            recorded = [values_of(self.before, names, feeds, engine) for feeds in samples]
        except EngineError:
            return None
        rows = [{n: v for n, v in r.items() if isinstance(v, np.ndarray)} for r in recorded]
        found: list[Models] = []
        for part in wide:
            for row in rows:
                for old, new in part.ends:
                    if old in row:
                        row.setdefault(new, row[old])
            made = self._computed(part.new)
            ends = [(old, new) for old, new in part.ends if new in made]
            cut = part.old, boundary_of(part.old), [old for old, _ in part.ends]
            one = make_part(self.before, cut, rows, static=static)
            fresh = part.new, boundary_of(part.new), [new for _, new in ends]
            other = make_part(self.after, fresh, rows, static=static) if ends else None
            if one is None or (ends and other is None):
                return None
            feeds = {**one.rows[0], **(other.rows[0] if other is not None else {})}
            for model in (one.model, *([] if other is None else [other.model])):
                _take_same_inputs(model, feeds, static=static)
            found.append((one.model, None if other is None else other.model, feeds))
        return found

    def _with_neighbours(self, part: Sides) -> Sides:
        """Add the nodes that a part reads from, and those that read it."""
        names: set[str] = set()
        for nodes in (part.old, part.new):
            for node in nodes:
                near = [v.producer() for v in node.inputs if v is not None]
                near += [user for value in node.outputs for user in value.consumers()]
                names |= {
                    str(n.outputs[0].name)
                    for n in near
                    if n is not None and n not in self._changed and not is_constant_node(n)
                }
        old, new = (self._wider(s, names) for s in enumerate((part.old, part.new)))
        both = self._computed(old) & self._computed(new)
        read = {n for n in both if self._is_read_outside(n, old, new)}
        ends = dict.fromkeys(pair for pair in part.ends if pair[0] in self._computed(old))
        ends |= dict.fromkeys((name, name) for name in sorted(read))
        return Sides(part.numbers, old, new, tuple(ends))

    def _wider(
        self, side: tuple[int, Sequence[ir.Node]], names: set[str]
    ) -> tuple[ir.Node, ...]:
        index, nodes = side
        found = {*nodes}
        for name in names:
            pair = [makers.get(name) for makers in self._makers]
            # Nodes of a subgraph have no place in the main graph.
            if None not in pair and not self._changed.intersection(pair):
                node = pair[index]
                assert node is not None
                found.add(node)
        return tuple(sorted(found, key=self._places[index].__getitem__))

    def _is_read_outside(
        self, name: str, old: Sequence[ir.Node], new: Sequence[ir.Node]
    ) -> bool:
        for index, nodes in enumerate((old, new)):
            inside = {*nodes}
            for value in self._makers[index][name].outputs:
                used = value.is_graph_output() or any(
                    u not in inside for u in value.consumers()
                )
                if value.name == name and used:
                    return True
        return False

    @staticmethod
    def _computed(nodes: Sequence[ir.Node]) -> set[str]:
        return {str(v.name) for node in nodes for v in node.outputs if v.name}


def _only_reads(part: ObligationPart) -> bool:
    """Whether both sides of a part have the same operators: nodes that read other values."""
    old, new = ([n.op_identifier() for n in nodes] for nodes in (part.old, part.new))
    return Counter(old) == Counter(new)


def _take_same_inputs(model: ir.Model, feeds: Feeds, *, static: bool) -> None:
    """Declare inputs that only the other side reads, so that both are run in one way."""
    known = {value.name for value in model.graph.inputs}
    for name, array in feeds.items():
        if name in known or not isinstance(array, np.ndarray):
            continue
        sizes = array.shape if static else [None] * array.ndim
        dtype = ir.DataType.from_numpy(array.dtype)
        value = ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(sizes))
        model.graph.inputs.append(value)
