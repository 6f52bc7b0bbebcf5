"""Count the operations and the memory traffic of each node."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx_ir as ir
from pydantic import Field

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.model.walk import subgraphs_of
from onnx_passes.ops.call import Operands
from onnx_passes.ops.domains.intervals import UNBOUNDED
from onnx_passes.ops.node_queries import flops_of, has_rule
from onnx_passes.passes.analysis._sizes import (
    GIVE_SIZES,
    VIEWS,
    bytes_of,
    label_of,
    listed,
    operator_label,
    scaled,
    sized,
)
from onnx_passes.passes.common.shapes import ints_of, sizes_of
from onnx_passes.passes.constants import constant_of

_PICKS = frozenset(("Gather", "GatherElements", "GatherND", "Slice"))
"""Operators that read of their first input no more than they write."""


@dataclass(frozen=True)
class NodeCost:
    """What one node costs in a run of the model.

    ``flops`` are scalar operations and ``bytes`` are read and written; None where not known.
    ``runs`` multiplies the iterations of the loops around it.
    """

    name: str
    operator: str
    flops: int | None
    bytes: int | None
    runs: int


@dataclass(frozen=True)
class ModelCost:
    """What a run of the model costs.

    ``nodes`` include those of subgraphs, in order. Sums are over the nodes that are not
    missing. Bodies of ``endless`` loops, whose number of iterations is not known, count once.
    """

    nodes: tuple[NodeCost, ...]
    flops: int
    bytes: int
    missing_flops: tuple[str, ...]
    missing_bytes: tuple[str, ...]
    endless: tuple[str, ...]


@passes.register("analysis")
class Cost(passes.Analysis):
    """Count the operations and the memory traffic of each node.

    Finds: scalar operations by the operators' definitions, a multiplication with an addition
    being two and a function such as exp being one; and the bytes that each node reads and
    writes if nothing stays in a cache. That is each input once, each output once, nothing for
    a Reshape and its like, of a Gather or Slice what it takes. Functions are inlined, the body
    of a Loop or Scan counts as often as it runs; of an If both branches are listed, and the
    dearer one counts. Nodes without known sizes or rules are counted apart, by name.

    Attributes:
        dims: Sizes of dynamic dimensions, by name; those that are not named are 1.
        top: How many of the dearest nodes the report lists.
    """

    dims: dict[str, int] = Field(default_factory=dict)
    top: int = 10

    def analyse(self, model: ir.Model) -> ModelCost:
        """Return the costs, and note the dearest nodes for the report."""
        ones = {dim: 1 for dim in _dynamic(model) if dim not in self.dims}
        found = cost_of(model, {**self.dims, **ones}, name=self.name)
        at_least = "at least " if found.missing_flops or found.endless else ""
        self.context.notes.append(
            f"{at_least}{scaled(found.flops, 'FLOP')}, {scaled(found.bytes, 'B')} read and "
            f"written, {len(found.nodes):,} nodes"
            + (f", for {', '.join(f'{dim} = 1' for dim in ones)}" if ones else "")
        )
        self.context.notes += _notes(found, self.top)
        return found


def _dynamic(model: ir.Model) -> list[str]:
    """Return the names of the dynamic dimensions of the inputs."""
    dims = [dim for value in model.graph.inputs for dim in value.shape or ()]
    names = [dim.value for dim in dims if isinstance(dim, ir.SymbolicDim)]
    return list(dict.fromkeys(name for name in names if name))


def cost_of(model: ir.Model, dims: Mapping[str, int], *, name: str = "cost") -> ModelCost:
    """Count what a run of a model costs."""
    endless: list[str] = []
    nodes, flops, moved = _graph_cost(sized(model, dims, name).graph, 1, endless)
    return ModelCost(
        tuple(cost for _, cost in nodes),
        flops,
        moved,
        tuple(_missing(node, cost) for node, cost in nodes if cost.flops is None),
        tuple(cost.name for _, cost in nodes if cost.bytes is None),
        tuple(endless),
    )


_Found = tuple[list[tuple[ir.Node, NodeCost]], int, int]


def _graph_cost(graph: ir.Graph, runs: int, endless: list[str]) -> _Found:
    nodes: list[tuple[ir.Node, NodeCost]] = []
    flops = moved = 0
    for node in graph:
        inner_runs = runs * _iterations(node, endless)
        bodies = [_graph_cost(body, inner_runs, endless) for body in subgraphs_of(node)]
        own, traffic = flops_of(_operands(node)), None if bodies else _traffic(node)
        cost = NodeCost(
            label_of(node),
            operator_label(node),
            None if own is None else own * runs,
            0 if bodies else None if traffic is None else traffic * runs,
            runs,
        )
        nodes.append((node, cost))
        flops, moved = flops + (cost.flops or 0), moved + (cost.bytes or 0)
        for found, _, _ in bodies:
            nodes += found
        # Of the branches of an If one runs; a Loop or Scan has one body.
        flops += max((body[1] for body in bodies), default=0)
        moved += max((body[2] for body in bodies), default=0)
    return nodes, flops, moved


def _operands(node: ir.Node) -> Operands:
    def array_of(value: ir.Value | None) -> Array | None:
        tensor = constant_of(value)
        return None if tensor is None else tensor.numpy()

    return Operands(node, lambda value: UNBOUNDED, array_of)


def _missing(node: ir.Node, cost: NodeCost) -> str:
    return cost.name if has_rule(_operands(node)) else f"{cost.name} (no rule knows it)"


def _iterations(node: ir.Node, endless: list[str]) -> int:
    """Return how often a node runs its bodies, 1 where nothing is known."""
    if node.domain or node.op_type not in ("Loop", "Scan"):
        return 1
    count = _trips(node) if node.op_type == "Loop" else _scan_length(node)
    if count is None:
        endless.append(label_of(node))
    return 1 if count is None else count


def _trips(node: ir.Node) -> int | None:
    """Return the iterations of a Loop that counts to a constant and nothing else ends."""
    most = ints_of(node.inputs[0])
    body = node.attributes["body"].as_graph()
    ends = body.outputs[0].producer()
    if most is None or (node.inputs[1] is not None and ints_of(node.inputs[1]) == [0]):
        return None
    forwards = body.outputs[0] is body.inputs[1]
    while ends is not None and ends.op_type == "Identity" and not forwards:
        forwards = ends.inputs[0] is body.inputs[1]
        ends = ends.inputs[0].producer() if ends.inputs[0] is not None else None
    always = ends is not None and _is_true(ends)
    return max(0, most[0]) if forwards or always else None


def _is_true(node: ir.Node) -> bool:
    tensor = node.attributes.get_tensor("value") if node.op_type == "Constant" else None
    return tensor is not None and bool(tensor.numpy().all())


def _scan_length(node: ir.Node) -> int | None:
    scanned = node.attributes.get_int("num_scan_inputs", 0)
    sizes = sizes_of(node.inputs[len(node.inputs) - scanned]) if scanned else None
    axis = node.attributes.get_ints("scan_input_axes", (0,))[0]
    return sizes[axis] if sizes else None


def _traffic(node: ir.Node) -> int | None:
    if not node.domain and (node.op_type in VIEWS or node.op_type == "Constant"):
        return 0
    written = [bytes_of(value) for value in node.outputs if value.uses() or value.name]
    read = [bytes_of(value) for value in node.inputs]
    if not node.domain and node.op_type in _PICKS:
        read[0] = written[0]
    elif not node.domain and node.op_type in ("Shape", "Size"):
        read = []
    known = [size for size in (*read, *written) if size is not None]
    return sum(known) if len(known) == len(read) + len(written) else None


def _notes(found: ModelCost, top: int) -> Iterator[str]:
    dear = sorted(found.nodes, key=lambda cost: -(cost.flops or 0))[: max(0, top)]
    for cost in dear:
        if cost.flops:
            share = 100 * cost.flops / found.flops if found.flops else 0.0
            moved = "?" if cost.bytes is None else scaled(cost.bytes, "B")
            times = f", runs {cost.runs:,} times" if cost.runs > 1 else ""
            yield f"{share:4.1f} % {cost.name}: {scaled(cost.flops, 'FLOP')}, {moved}{times}"
    if found.missing_flops:
        told = listed(list(found.missing_flops))
        count = f"{len(found.missing_flops):,}"
        yield f"operations not known of {count} nodes: {told}; {GIVE_SIZES}"
    if found.missing_bytes:
        told = listed(list(found.missing_bytes))
        yield f"traffic not known of {len(found.missing_bytes):,} nodes: {told}"
    if found.endless:
        yield f"iterations not known, counted once: {listed(list(found.endless))}"
