"""Fold the constant nodes of one graph.

Reshape and Expand get constant targets where only some of the dimensions are known.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from onnx_passes.model import walk
from onnx_passes.ops.domains.sizes import Element, dimension
from onnx_passes.passes.common.graph_edits import discard, install, nodes_within
from onnx_passes.passes.common.shapes import Knowledge
from onnx_passes.passes.constants import constant_of, constant_tensor
from onnx_passes.passes.folding._evaluate import Evaluation, estimated_bytes


def constant_target(
    node: ir.Node, facts: Knowledge, *, nonempty: bool
) -> ir.TensorProtocol | None:
    """Return a constant that gives a Reshape or Expand the same result as its computed target.

    Dynamic dimensions stay dynamic: a Reshape infers one (-1) or copies some (0), an Expand
    keeps some (1). With ``nonempty``, dynamic dimensions are above 0: engines refuse to infer
    a dimension beside one that is 0.
    """
    rule = _RULES.get(node.op_type) if node.domain == "" else None
    if rule is None or len(node.inputs) != 2 or node.inputs[0] is None:
        return None
    known = facts.of(node.inputs[1])
    if known is None or known.rank != 1 or known.numbers is not None:
        return None
    target = rule(node, known.elements, nonempty)
    return None if target is None else ir.Tensor(np.array(target, dtype=np.int64))


def _reshape(node: ir.Node, target: tuple[Element, ...], nonempty: bool) -> list[int] | None:
    data = node.inputs[0]
    assert data is not None, "the caller looks"
    unknown = [i for i, element in enumerate(target) if not isinstance(element, int)]
    numbers = [element for element in target if isinstance(element, int)]
    rank = 0 if data.shape is None else len(data.shape)
    # A 0 copies the dimension of the same place, which the target says too, empty or not; the
    # dimension keeps its name behind it, which a -1 loses.
    copied = [
        i
        for i in unknown
        if i < rank and target[i] is not None and target[i] == dimension(data, i)
    ]
    if len(unknown) == 1 and not copied and all(number > 0 for number in numbers):
        return [e if isinstance(e, int) else -1 for e in target]
    if any(n < -1 for n in numbers) or any(i >= rank for i in unknown):
        return None
    allowzero = node.attributes.get_int("allowzero", 0)
    if allowzero and 0 in numbers:
        return None
    if allowzero and copied and -1 in numbers and not nonempty:
        # Engines infer a -1 beside a size of 0 that is asked for, and not beside one copied.
        known = _inferred(data, target, copied)
        if known is None:
            return None
        target = tuple(known if e == -1 else e for e in target)
        numbers = [element for element in target if isinstance(element, int)]
    others = [i for i in unknown if i not in copied]
    if len(others) > 1 or (others and not (nonempty and all(n > 0 for n in numbers))):
        return None
    return [
        e if isinstance(e, int) else -1 if index in others else 0
        for index, e in enumerate(target)
    ]


def _inferred(
    data: ir.Value, target: tuple[Element, ...], copied: Sequence[int]
) -> int | None:
    """Return the size in place of a -1; None if sizes that are not copied are unknown."""
    assert data.shape is not None, "dimensions were copied from it"
    left = [dim for i, dim in enumerate(data.shape) if i not in copied]
    rest = math.prod(e for e in target if isinstance(e, int) and e != -1)
    if not all(isinstance(dim, int) for dim in left) or not rest:
        return None
    size, over = divmod(math.prod(int(str(dim)) for dim in left), rest)
    return None if over else size


def _expand(node: ir.Node, target: tuple[Element, ...], nonempty: bool) -> list[int] | None:
    data = node.inputs[0]
    assert data is not None, "the caller looks"
    if data.shape is None:
        return None
    offset = len(data.shape) - len(target)
    result = []
    for index, element in enumerate(target):
        if isinstance(element, int):
            result.append(element)
        elif element is None or index + offset < 0:
            return None
        elif element == dimension(data, index + offset):
            result.append(1)
        else:
            return None
    return result if all(number >= 0 for number in result) else None


_Rule = Callable[[ir.Node, tuple[Element, ...], bool], list[int] | None]
_RULES: dict[str, _Rule] = {
    "Expand": _expand,
    "Reshape": _reshape,
}


NOTED = 1024
"""Bytes from which on growth is noted: less is the size of a node."""


@dataclass
class GrowthBudget:
    """How much constants may grow.

    ``size_limit`` is in bytes of one new constant that replaces no bigger ones,
    ``growth_left`` in bytes of the model.
    """

    size_limit: int
    growth_left: int

    @classmethod
    def of(
        cls,
        model: ir.Model,
        size_limit: int,
        growth_limit: int,
        share: float,
        original: int | None = None,
    ) -> GrowthBudget:
        """Return what is left after what was folded before, in this run or in others.

        A model may grow by ``growth_limit`` bytes, or by ``share`` of its weights if that is
        more. ``original`` is about the size of its file in bytes, without what earlier runs
        have folded: what passes have saved of it may be used.
        """
        tensors = {id(tensor): tensor for tensor in walk.all_tensors(model)}.values()
        grown = sum(map(walk.tensor_growth, tensors))
        weights = sum(tensor.nbytes for tensor in tensors) - grown
        allowed = max(growth_limit, int(share * weights))
        saved = 0 if original is None else original - walk.bytes_before_folding(model)
        return cls(size_limit, allowed + max(0, saved) - grown)


@dataclass
class Fold:
    """A set of constant nodes; those not ``kept`` are to be replaced by results.

    Nodes are in topological order. Constants with a ``named`` name stay although nothing reads
    them; ``kept`` nodes stay because results are too big or cannot be computed.
    """

    nodes: Sequence[ir.Node]
    named: AbstractSet[str]
    kept: set[ir.Node] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.members = frozenset(self.nodes)

    @property
    def folded(self) -> list[ir.Node]:
        """The nodes that are to go."""
        return [node for node in self.nodes if node not in self.kept]

    def frontier(self) -> list[ir.Value]:
        """Return the values that stay when the folded nodes go."""
        inside = {inner for node in self.folded for inner in nodes_within(node)}
        return [
            value
            for node in self.folded
            for value in node.outputs
            if value.is_graph_output() or any(user not in inside for user in value.consumers())
        ]

    def freed(self, nodes: Iterable[ir.Node]) -> dict[ir.Value, int]:
        """Return the constants that only the given nodes read, with their bytes."""
        inside = {inner for node in nodes for inner in nodes_within(node)}
        sources = {v for node in inside for v in node.inputs if v is not None}
        return {
            value: tensor.nbytes
            for value in sources
            if (tensor := constant_of(value)) is not None
            and not value.is_graph_output()
            and value.name not in self.named
            and all(user in inside for user in value.consumers())
        }

    def cone(self, value: ir.Value) -> list[ir.Node]:
        """Return the folded nodes that a value is computed by."""
        found: dict[ir.Node, None] = {}
        pending = [value.producer()]
        while pending:
            node = pending.pop()
            if node is None or node in found or node not in self.members or node in self.kept:
                continue
            found[node] = None
            read = (v for inner in nodes_within(node) for v in inner.inputs if v is not None)
            pending.extend(v.producer() for v in read)
        return list(found)


def fold(
    nodes: Sequence[ir.Node],
    evaluation: Evaluation,
    budget: GrowthBudget,
    *,
    named: AbstractSet[str],
    in_function: bool,
) -> int:
    """Replace constant nodes by their results, within the budget.

    Nodes read constants and each other, in topological order. ``budget`` is reduced; constants
    with a ``named`` name stay although nothing reads them. Returns the number of nodes
    replaced.
    """
    plan = Fold(nodes, named)
    while True:
        frontier = plan.frontier()
        too_big = [v for v in frontier if not _fits(v, estimated_bytes(v), plan, budget)]
        if not too_big:
            evaluation.run(plan.folded, frontier)
            too_big = [v for v in frontier if not _may_stay(v, plan, evaluation, budget)]
        if not too_big:
            too_big = _over_budget(frontier, plan, evaluation, budget)
        if not too_big:
            break
        plan.kept.update(_producer(value) for value in too_big)
    _replace(plan, frontier, evaluation, in_function=in_function)
    return len(plan.folded)


def _producer(value: ir.Value) -> ir.Node:
    node = value.producer()
    assert node is not None, "constant nodes produce their outputs"
    return node


def _fits(value: ir.Value, size: int | None, plan: Fold, budget: GrowthBudget) -> bool:
    if size is None or size <= budget.size_limit:
        return True
    return size <= sum(plan.freed(plan.cone(value)).values())


def _may_stay(
    value: ir.Value, plan: Fold, evaluation: Evaluation, budget: GrowthBudget
) -> bool:
    tensor = evaluation.results.get(value)
    if tensor is None or (value.dtype is not None and value.dtype is not tensor.dtype):
        return False
    if not _has_shape(tensor, value.shape):
        return False  # the engine and onnx's inference disagree, on empty tensors mostly
    return _fits(value, tensor.nbytes, plan, budget)


def _has_shape(tensor: ir.TensorProtocol, shape: ir.Shape | None) -> bool:
    sizes = tensor.shape.numpy()
    if shape is None:
        return True
    return len(shape) == len(sizes) and all(
        not isinstance(dim, int) or dim == size for dim, size in zip(shape, sizes, strict=True)
    )


def _over_budget(
    frontier: Sequence[ir.Value], plan: Fold, evaluation: Evaluation, budget: GrowthBudget
) -> list[ir.Value]:
    """Return the results that add most if all are too much, and take the sum off if not.

    What a node that stays had read stays as well, so that leaving results out saves at most
    their bytes: as many go at once as are needed for sure. Those that are at most as big as
    what they replace stay, unless constants that several read are all that can be left.
    """
    sizes = {v: t.nbytes for v in frontier if (t := evaluation.results[v]) is not None}
    growth = sum(sizes.values()) - sum(plan.freed(plan.folded).values())
    growth += sum(walk.constant_bytes(str(value.name)) for value in sizes)
    growth -= sum(map(walk.node_bytes, plan.folded))
    excess = growth - max(budget.growth_left, 0)
    if excess <= 0:
        budget.growth_left -= growth
        return []
    net = {v: size - sum(plan.freed(plan.cone(v)).values()) for v, size in sizes.items()}
    growing = [value for value in sizes if net[value] > 0] or list(sizes)
    growing.sort(key=lambda value: (-net[value], -sizes[value]))
    saved = itertools.accumulate((sizes[value] for value in growing), initial=0)
    return [v for v, before in zip(growing, saved, strict=False) if before < excess]


def _note_growth(value: ir.Value, tensor: ir.TensorProtocol, plan: Fold) -> None:
    """Note on a constant by how much the model grew, so that no later run grows it again."""
    freed = plan.freed(plan.cone(value))
    before = sum(walk.tensor_growth(t) for v in freed if (t := constant_of(v)) is not None)
    grown = before + tensor.nbytes - sum(freed.values())
    if grown >= NOTED:
        tensor.metadata_props[walk.GROWTH] = str(grown)


def _replace(
    plan: Fold, frontier: Sequence[ir.Value], evaluation: Evaluation, *, in_function: bool
) -> None:
    folded = plan.folded
    sources = list(plan.freed(folded))
    for value in frontier:
        tensor = evaluation.results[value]
        assert tensor is not None, "the plan holds tensors only"
        if tensor.nbytes >= NOTED:
            _note_growth(value, tensor, plan)
        install(value, tensor, in_function=in_function)
    for node in reversed(folded):
        discard(node)
    for source in sources:
        producer = source.producer()
        if producer is not None and constant_tensor(producer) is not None:
            discard(producer)
        elif source.graph is not None and source.is_initializer():
            source.graph.initializers.pop(str(source.name))
