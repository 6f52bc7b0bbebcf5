"""Move Reshapes and Transposes before the Split that they follow."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.model.walk import graphs_within
from onnx_passes.passes.common.graph_edits import (
    QUANTIZATION,
    constant_node,
    name_counts,
    split_nodes,
    supersede,
)
from onnx_passes.passes.common.shapes import Dim, dims_of, ints_of
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.replace import Namer

Perm = tuple[int, ...]
Attribute = int | Sequence[int] | ir.TensorProtocol | ir.Attr
Shape = Iterable[Dim] | ir.Shape | None


@passes.verify.equality
@passes.register()
class MoveBeforeSplit(passes.Transformation):
    """Move Reshapes and Transposes before the Split that they follow.

    Before: ``q, k = Split<axis = 2>(x, [32, 32])``, and behind each
            ``Transpose<perm = [0, 2, 1, 3]>(Reshape(q, [0, 0, 4, 8]))``
    After:  ``q, k = Split<axis = 1>(Transpose(Reshape(x, [0, 0, 8, 8])), [4, 4])``

    So heads are parted once for queries, keys and values. A part that is transposed otherwise
    than most gets a Transpose of its own behind. Parts that several Gathers of one index each
    take are treated like those of a Split.

    Sound because no element changes. A Reshape that divides the last axis into groups of one
    size divides each part as it divides the whole. A Transpose moves the axis of the Split.

    Leaves alone: parts that are outputs, that something else reads, or that are moved in
    different ways; a Split whose sizes are unknown, or along another axis than the last before
    a Reshape; shapes that are computed; what would not have fewer nodes. Functions.
    """

    needs = ("shape-inference",)
    always_pays = False
    tested_on = ("parted",)
    keeps_shapes = True
    needed_operators: ClassVar[frozenset[tuple[str, str]]] = frozenset(
        {("", "Transpose"), ("", "Reshape")}
    )

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Move within the main graph and within each subgraph."""
        edit = _Edit(Namer(model), name_counts(model), model.graph.opset_imports.get("", 1))
        moved = False
        for graph in list(graphs_within(model.graph)):
            for node in [n for n in graph if (n.domain, n.op_type) == ("", "Split")]:
                whole = _reshaped_first(edit, node)
                moved |= whole is not None
                moved |= _transposed_first(edit, [whole or node])
            gathers: defaultdict[tuple[object, object], list[ir.Node]] = defaultdict(list)
            for node in graph:
                if _takes_one(node):
                    gathers[node.inputs[0], node.attributes.get_int("axis", 0)].append(node)
            for nodes in gathers.values():
                moved |= _transposed_first(edit, nodes)
        return ir.passes.PassResult(model, modified=moved)


class _Edit:
    """Makes nodes, and replaces other results by theirs."""

    def __init__(self, namer: Namer, names: Counter[str], opset: int) -> None:
        self.namer, self.names, self.opset = namer, names, opset

    def constant(self, before: ir.Node, numbers: Sequence[int]) -> ir.Value:
        """Return a constant of integers."""
        tensor = ir.tensor(np.asarray(numbers, np.int64))
        node = constant_node(tensor, self.namer.value("moved"))
        assert before.graph is not None, "the node is in no graph"
        before.graph.insert_before(before, node)
        return node.outputs[0]

    def node(
        self,
        before: ir.Node,
        operator: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Attribute],
        shapes: Iterable[Shape] = (None,),
    ) -> ir.Node:
        """Return a new node in front of another, with results of these shapes."""
        shapes = list(shapes)
        made = ir.node(operator, inputs, attributes, num_outputs=len(shapes))
        made.name = self.namer.node(f"{before.name or operator}_moved")
        for value, shape in zip(made.outputs, shapes, strict=True):
            value.name = self.namer.value("moved")
            value.type = inputs[0].type if inputs and inputs[0] is not None else None
            value.shape = None if shape is None else ir.Shape(shape)
        assert before.graph is not None, "the node is in no graph"
        before.graph.insert_before(before, made)
        return made

    def replace(self, old: ir.Node, new: ir.Value) -> None:
        """Replace a node's result by a value, and remove the node."""
        supersede(old.outputs[0], new, self.names)
        assert old.graph is not None, "the node is in no graph"
        old.graph.remove(old, safe=True)


def _readers(values: Sequence[ir.Value], operator: str) -> list[ir.Node] | None:
    """Return the nodes that read some values, each alone, if all are of one operator."""
    found = []
    for value in values:
        uses = value.uses()
        if len(uses) != 1 or value.is_graph_output() or QUANTIZATION in value.meta:
            return None
        ((node, index),) = uses
        here = node.graph is value.graph and index == 0
        if (node.domain, node.op_type) != ("", operator) or not here:
            return None
        found.append(node)
    return found if len(found) > 1 else None


def _reshaped_first(edit: _Edit, split: ir.Node) -> ir.Node | None:
    """Divide the last axis before a Split; return the new Split, or None."""
    x, rank = split.inputs[0], len(dims_of(split.inputs[0]) or ())
    readers = _readers(split.outputs, "Reshape")
    if (
        readers is None
        or x is None
        or split.attributes.get_int("axis", 0) not in (-1, rank - 1)
    ):
        return None
    sizes = [(dims_of(value) or [None])[-1] for value in split.outputs]
    targets = [ints_of(node.inputs[1]) for node in readers]
    if any(node.attributes.get_int("allowzero", 0) for node in readers):
        return None
    first, groups = targets[0], []
    for size, target in zip(sizes, targets, strict=True):
        if not isinstance(size, int) or target is None or first is None:
            return None
        if len(target) != rank + 1 or target[-1] != first[-1] or target[:-2] != first[:-2]:
            return None
        if target[-1] < 1 or size % target[-1] or not size:
            return None
        groups.append(size // target[-1])
        if target[-2] not in (-1, groups[-1]):
            return None
    assert first is not None, "no part has another target"
    shape = edit.constant(split, [*first[:-2], sum(groups), first[-1]])
    ahead = (dims_of(readers[0].outputs[0]) or [None] * (rank + 1))[:-2]
    dims = [*ahead, sum(groups), first[-1]]
    whole = edit.node(split, "Reshape", [x, shape], {}, [dims]).outputs[0]
    name = f"{split.name or 'Split'}_moved"
    made = split_nodes(whole, groups, rank - 1, edit.namer, opset=edit.opset, name=name)
    assert split.graph is not None, "the node is in no graph"
    split.graph.insert_before(split, made)
    for reader, value in zip(readers, made[-1].outputs, strict=True):
        edit.replace(reader, value)
    split.graph.remove(split, safe=True)
    return made[-1]


def _takes_one(node: ir.Node) -> bool:
    """Whether a node is a Gather of one index, which removes an axis."""
    if (node.domain, node.op_type) != ("", "Gather"):
        return False
    index = constant_of(node.inputs[1])
    return index is not None and not index.shape.dims and bool(dims_of(node.inputs[0]))


def _transposed_first(edit: _Edit, takers: list[ir.Node]) -> bool:
    """Transpose what one Split, or several Gathers along one axis, take apart."""
    first = takers[0]
    x, parts = first.inputs[0], [value for node in takers for value in node.outputs]
    dims, readers = dims_of(x), _readers(parts, "Transpose")
    if readers is None or x is None or dims is None:
        return False
    axis = first.attributes.get_int("axis", 0) or 0
    axis += len(dims) if axis < 0 else 0
    perms = [_perm(node, parts[0]) for node in readers]
    most, count = Counter(perms).most_common(1)[0]
    if count < 2:
        return False
    if first.op_type == "Split":
        perm, place = list(most), most.index(axis)
    else:
        rest = [a for a in range(len(dims)) if a != axis]
        perm, place = [axis, *(rest[p] for p in most)], 0
    wholly = [dims[p] for p in perm]
    whole = edit.node(first, "Transpose", [x], {"perm": perm}, [wholly]).outputs[0]
    for taker in takers:
        given: dict[str, Attribute] = {**taker.attributes, "axis": place}
        shapes = [
            None if (before := dims_of(value)) is None else [before[p] for p in most]
            for value in taker.outputs
        ]
        made = edit.node(taker, taker.op_type, [whole, *taker.inputs[1:]], given, shapes)
        for old, new in zip(taker.outputs, made.outputs, strict=True):
            reader = readers[parts.index(old)]
            own = _perm(reader, parts[0])
            if own != most:
                rest = [most.index(p) for p in own]
                result = [reader.outputs[0].shape]
                turned = edit.node(reader, "Transpose", [new], {"perm": rest}, result)
                new = turned.outputs[0]
            edit.replace(reader, new)
    for taker in takers:
        assert taker.graph is not None, "the node is in no graph"
        taker.graph.remove(taker, safe=True)
    return True


def _perm(node: ir.Node, part: ir.Value) -> Perm:
    """Return the permutation of a Transpose, which reverses the axes if it has none."""
    rank = len(dims_of(part) or ())
    return tuple(node.attributes.get_ints("perm") or reversed(range(rank)))
