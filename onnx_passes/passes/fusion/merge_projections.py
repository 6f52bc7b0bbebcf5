"""Merge products of one tensor with several weights into one product and a Split."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.model.walk import graphs_within
from onnx_passes.passes.common import graph_edits
from onnx_passes.passes.common.large_tensors import Scratch
from onnx_passes.passes.common.matches import feeds_attention
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.replace import Namer


@dataclass(frozen=True)
class _Projection:
    """A product with a constant matrix, and the sum with a constant row behind it, if any."""

    product: ir.Node
    weight: ir.TensorProtocol
    sum: ir.Node | None = None
    bias: ir.TensorProtocol | None = None

    @property
    def result(self) -> ir.Value:
        return (self.sum or self.product).outputs[0]


@passes.verify.tolerance
@passes.register()
class MergeProjections(passes.Transformation):
    """Merge products of one tensor with several weights into one product and a Split.

    Before: ``k = Add(MatMul(x, u), a)  v = Add(MatMul(x, w), b)``
    After:  ``k, v = Split<axis = -1>(Add(MatMul(x, Concat(u, w)), Concat(a, b)), [64, 64])``

    Fewer nodes, and one larger product, which several threads and accelerators share better.
    ONNX Runtime on one thread takes up to 7 % longer for it, because Split copies.

    Sound because each column of a product follows from one column of the weight alone. The
    contract is a tolerance: an engine may sum in another order.

    Leaves alone: weights that other nodes read too; weights that are not constant matrices;
    projections that would become as many nodes; before opset 13, those of an attention that
    ONNX Runtime knows as a whole; functions.
    """

    preserves = ("shape-inference",)
    always_pays = False
    tested_on = ("smoothed",)
    needed_operators = frozenset({("", "MatMul")})

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Merge within the main graph and within each subgraph."""
        joined = 0
        namer, scratch, names = Namer(model), Scratch(model), graph_edits.name_counts(model)
        opset = model.graph.opset_imports.get("", 1)
        for graph in list(graphs_within(model.graph)):
            for found in list(_groups(graph)):
                if feeds_attention(found[0].product.inputs[0], opset):
                    continue
                nodes = _joined(found, namer, scratch, opset)
                graph.insert_before(found[0].product, nodes)
                for one, value in zip(found, nodes[-1].outputs, strict=True):
                    graph_edits.supersede(one.result, value, names)
                for one in found:
                    graph.remove([n for n in (one.sum, one.product) if n], safe=True)
                joined += 1
        return ir.passes.PassResult(model, modified=joined > 0)


def _groups(graph: ir.Graph) -> Iterator[list[_Projection]]:
    """Yield projections of one value that can be joined, in the order of their products."""
    by_source: defaultdict[tuple[object, ...], list[_Projection]] = defaultdict(list)
    for node in graph:
        one = _projection(node, graph)
        if one is not None:
            rows = one.weight.shape[0]
            kind = (node.inputs[0], rows, one.weight.dtype, one.sum is None)
            by_source[kind].append(one)
    for (*_, plain), found in by_source.items():
        left = 2 if plain else 3  # the product, the sum and the Split
        if len(found) * (left - 1) > left:
            yield found


def _projection(node: ir.Node, graph: ir.Graph) -> _Projection | None:
    if node.op_type != "MatMul" or node.domain:
        return None
    weight, result = _own_constant(node.inputs[1], 2), node.outputs[0]
    noted = any(
        graph_edits.QUANTIZATION in value.meta for value in (*node.inputs, result) if value
    )
    if weight is None or noted or not weight.dtype.is_floating_point():
        return None
    uses = result.uses()
    if len(uses) != 1 or result.is_graph_output():
        return _Projection(node, weight)
    ((reader, index),) = uses
    if reader.op_type == "Add" and not reader.domain and reader.graph is graph:
        bias = _own_constant(reader.inputs[1 - index], 1)
        if bias is not None and bias.shape[0] == weight.shape[1]:
            return _Projection(node, weight, reader, bias)
    return _Projection(node, weight)


def _own_constant(value: ir.Value | None, rank: int) -> ir.TensorProtocol | None:
    """Return the tensor of a constant of some rank that no other node reads."""
    tensor = constant_of(value)
    if value is None or tensor is None or len(tensor.shape) != rank:
        return None
    return tensor if len(value.uses()) == 1 and not value.is_graph_output() else None


def _joined(
    found: Sequence[_Projection], namer: Namer, scratch: Scratch, opset: int
) -> list[ir.Node]:
    """Return nodes that compute several projections at once; the last one parts them."""
    first = found[0].product
    nodes: list[ir.Node] = []

    def constant(array: Array, wish: str) -> ir.Value:
        tensor = scratch.keep(ir.tensor(array, name=namer.value(wish)))
        nodes.append(graph_edits.constant_node(tensor, str(tensor.name)))
        return nodes[-1].outputs[0]

    def compute(operator: str, *operands: ir.Value | None) -> ir.Value:
        node = ir.node(operator, operands)
        node.name = namer.node(f"{first.name or operator}_joined")
        (value,) = node.outputs
        value.name, value.type = namer.value("joined"), first.outputs[0].type
        value.shape = shape
        nodes.append(node)
        return value

    shape, sizes = found[0].result.shape, [int(str(one.weight.shape[1])) for one in found]
    if shape is not None:
        shape = ir.Shape([*shape.dims[:-1], sum(sizes)])
    weight = constant(
        np.concatenate([one.weight.numpy() for one in found], 1), "joined_weight"
    )
    result = compute("MatMul", first.inputs[0], weight)
    biases = [one.bias.numpy() for one in found if one.bias is not None]
    if biases:
        result = compute("Add", result, constant(np.concatenate(biases), "joined_bias"))
    name = f"{first.name or 'Split'}_joined"
    nodes += graph_edits.split_nodes(result, sizes, -1, namer, opset=opset, name=name)
    return nodes
