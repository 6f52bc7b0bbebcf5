"""Find the most memory that activations take at once."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx_ir as ir
from pydantic import Field

from onnx_passes import passes
from onnx_passes.model.walk import captured_values, subgraphs_of, weight_bytes
from onnx_passes.passes.analysis._sizes import (
    GIVE_SIZES,
    VIEWS,
    bytes_of,
    label_of,
    listed,
    scaled,
    sized,
)
from onnx_passes.passes.constants import constant_of

SHOWN = 5


@dataclass(frozen=True)
class Peak:
    """The moment at which activations take the most memory.

    ``bytes`` leaves weights out. ``node`` runs then; None in a graph without nodes. ``alive``
    has the largest value first. Values of ``unknown`` size are not counted.
    """

    bytes: int
    node: str | None
    alive: dict[str, int]
    weights: int
    unknown: tuple[str, ...]


@passes.register("analysis")
class PeakMemory(passes.Analysis):
    """Find the most memory that activations take at once.

    Finds: the largest sum of the sizes of values that are alive together, and the node that
    runs then, if nodes run one after the other as they are listed. A value is alive from the
    node that makes it until the last that reads it; inputs from the beginning, outputs until
    the end. A Reshape and its like share the memory of what they look at; nothing else is
    computed in place. Weights are reported separately. The body of a control-flow node comes
    on top of what is alive around it, of the branches of an If the larger one. Engines that
    reuse buffers need less, those that keep workspaces for their kernels need more.

    Attributes:
        dims: Sizes of dynamic dimensions, by name.
    """

    dims: dict[str, int] = Field(default_factory=dict)

    def analyse(self, model: ir.Model) -> Peak:
        """Return the peak, and note it for the report."""
        found = peak_of(model, self.dims, name=self.name)
        least = "at least " if found.unknown else ""
        at = f" at {found.node}" if found.node else ""
        self.context.notes.append(
            f"activations take {least}{scaled(found.bytes, 'B')} at once{at}, beside "
            f"{scaled(found.weights, 'B')} of weights"
        )
        shown = list(found.alive.items())[:SHOWN]
        if shown:
            told = ", ".join(f"{name} {scaled(size, 'B')}" for name, size in shown)
            more = len(found.alive) - len(shown)
            self.context.notes.append(
                f"alive then: {told}" + (f" and {more:,} more" if more else "")
            )
        if found.unknown:
            told = listed(list(found.unknown))
            self.context.notes.append(
                f"size not known of {len(found.unknown):,} values: {told}; {GIVE_SIZES}"
            )
        return found


def peak_of(model: ir.Model, dims: Mapping[str, int], *, name: str = "peak-memory") -> Peak:
    """Find the peak of a model."""
    unknown: dict[str, None] = {}
    moment = _graph_peak(sized(model, dims, name).graph, unknown)
    alive = dict(sorted(moment.alive.items(), key=lambda item: (-item[1], item[0])))
    total = sum(alive.values())
    return Peak(total, moment.node, alive, weight_bytes(model), tuple(unknown))


@dataclass
class _Moment:
    bytes: int
    node: str | None = None
    alive: dict[str, int] = field(default_factory=dict)


def _graph_peak(graph: ir.Graph, unknown: dict[str, None]) -> _Moment:
    """Walk through a graph in the order of its nodes, which is topological."""
    nodes = list(graph)
    owner = _owners(graph, nodes)
    last = _last_uses(graph, nodes, owner)
    sizes: dict[ir.Value, int] = {}

    def begin(value: ir.Value) -> None:
        if owner.get(value) is not value or constant_of(value) is not None:
            return
        size = bytes_of(value)
        if size is None:
            unknown.setdefault(value.name or "?")
        sizes[value] = size or 0

    for value in graph.inputs:
        if not value.is_initializer():
            begin(value)
    best = _Moment(sum(sizes.values()), None, {v.name or "": s for v, s in sizes.items()})
    for position, node in enumerate(nodes):
        for value in node.outputs:
            if value.name:
                begin(value)
        bodies = [_graph_peak(body, unknown) for body in subgraphs_of(node)]
        inner = max(bodies, key=lambda moment: moment.bytes, default=_Moment(0))
        now = sum(sizes.values()) + inner.bytes
        if now > best.bytes or best.node is None:
            alive = {v.name or "": size for v, size in sizes.items() if size}
            alive |= {f"{label_of(node)}/{k}": size for k, size in inner.alive.items()}
            best = _Moment(now, inner.node or label_of(node), alive)
        for value in [v for v in sizes if last[v] <= position]:
            del sizes[value]
    return best


def _owners(graph: ir.Graph, nodes: list[ir.Node]) -> dict[ir.Value, ir.Value]:
    """Map each value to the one whose memory it shares; its own, but for views."""
    owner: dict[ir.Value, ir.Value] = {value: value for value in graph.inputs}
    for node in nodes:
        owner |= dict(zip(node.outputs, node.outputs, strict=True))
        source = node.inputs[0] if node.inputs else None
        if not node.domain and node.op_type in VIEWS and source is not None:
            # A view of a weight takes nothing either, and is not in the map itself.
            owner[node.outputs[0]] = owner.get(source, source)
    return owner


def _last_uses(
    graph: ir.Graph, nodes: list[ir.Node], owner: dict[ir.Value, ir.Value]
) -> dict[ir.Value, int]:
    last = dict.fromkeys(owner, -1)
    for position, node in enumerate(nodes):
        for value in (*node.inputs, *captured_values(node), *node.outputs):
            if value in owner:
                last[owner[value]] = position
    for value in graph.outputs:
        if value in owner:
            last[owner[value]] = len(nodes)
    return last
