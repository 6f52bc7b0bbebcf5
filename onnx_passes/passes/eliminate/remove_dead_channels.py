"""Remove channels between two layers that are zero, or that nothing reads."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.model.walk import graphs_within
from onnx_passes.ops.operator_class import operator_of
from onnx_passes.passes.common.graph_edits import constant_node
from onnx_passes.passes.common.large_tensors import Scratch
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.replace import Namer

_KEEP_ZERO = frozenset({"Relu", "LeakyRelu", "Tanh", "Gelu", "Swish", "HardSwish", "Elu"})
"""Activations that are 0 at 0."""


@dataclass(frozen=True)
class _Layer:
    """A layer with constant weights of its own.

    Its weights have output channels along the axis ``outward`` and input channels along
    ``inward``, the result channels along ``axis``. ``bias`` is the node that adds it, and the
    place of the operand there.
    """

    node: ir.Node
    outward: int
    inward: int
    axis: int
    bias: tuple[ir.Node, int] | None = None

    @property
    def weights(self) -> Array:
        return _array(self.node.inputs[1])

    @property
    def result(self) -> ir.Value:
        return (self.node if self.bias is None else self.bias[0]).outputs[0]


@passes.verify.tolerance
@passes.register()
class RemoveDeadChannels(passes.Transformation):
    """Remove channels between two layers that are zero, or that nothing reads.

    Before: ``MatMul(Relu(MatMul(x, w)), v)``, column 2 of ``w`` or row 2 of ``v`` being zero
    After:  the same without that column of ``w`` and that row of ``v``

    Networks that were pruned have such channels. Heads of an attention whose projection of
    values is zero are among them where one product follows another.

    Sound because a column of zeros, without a bias, gives zeros, which the activation keeps;
    and because a row of zeros takes nothing from its channel. Infinite values of such a
    channel would give NaN, and no longer do: values are assumed to be finite. The contract is
    a tolerance: an engine may sum in another order.

    Leaves alone: weights that other nodes read too; convolutions with groups; other operators
    between the layers than those that work element by element on one operand.
    """

    needed_operators = frozenset({("", "MatMul"), ("", "Gemm"), ("", "Conv")})
    tested_on = ("pruned",)
    finite_only = True

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Remove within the main graph and within each subgraph, from the end to the start."""
        namer, scratch, removed = Namer(model), Scratch(model), 0
        for graph in list(graphs_within(model.graph)):
            for node in reversed(list(graph)):
                first = _layer(node)
                if first is None:
                    continue
                between, second = _next_layer(first)
                alive = None if second is None else _alive(first, between, second)
                if second is None or alive is None or alive.all():
                    continue
                changes = [(first.node, 1, first.outward), (second.node, 1, second.inward)]
                changes += [] if first.bias is None else [(*first.bias, 0)]
                for holder, place, axis in changes:
                    _cut(holder, place, axis, alive, namer, scratch)
                for inner in (first.node, *between, *(first.bias or ())[:1]):
                    inner.outputs[0].shape = None
                removed += int((~alive).sum())
        return ir.passes.PassResult(model, modified=removed > 0)


def _layer(node: ir.Node) -> _Layer | None:
    if node.domain or node.op_type not in ("MatMul", "Gemm", "Conv"):
        return None
    weights = _own_constant(node.inputs[1])
    if weights is None or not weights.dtype.is_floating_point():
        return None
    rank, numbers = len(weights.shape), node.attributes
    if node.op_type == "MatMul":
        return None if rank != 2 else _with_sum(_Layer(node, 1, 0, -1))
    if node.op_type == "Gemm":
        turned = bool(numbers.get_int("transB") or 0)
        if rank != 2 or numbers.get_int("transA"):
            return None
        layer = _Layer(node, 0 if turned else 1, 1 if turned else 0, -1)
    elif rank < 3 or (numbers.get_int("group") or 1) != 1:
        return None
    else:
        layer = _Layer(node, 0, 1, 1)
    if len(node.inputs) < 3 or node.inputs[2] is None:
        return layer
    bias = _own_constant(node.inputs[2])
    if bias is None or len(bias.shape) != 1 or bias.shape[0] != weights.shape[layer.outward]:
        return None
    return _Layer(layer.node, layer.outward, layer.inward, layer.axis, (node, 2))


def _with_sum(layer: _Layer) -> _Layer:
    """Return a product with the constant row that is added to it, if one is."""
    ((reader, index),) = uses if len(uses := layer.result.uses()) == 1 else ((None, 0),)
    if reader is None or layer.result.is_graph_output():
        return layer
    if reader.domain or reader.op_type != "Add" or reader.graph is not layer.node.graph:
        return layer
    row = _own_constant(reader.inputs[1 - index])
    width = _array(layer.node.inputs[1]).shape[1]
    if row is None or tuple(row.shape.numpy()) != (width,):
        return layer
    return _Layer(layer.node, layer.outward, layer.inward, layer.axis, (reader, 1 - index))


def _next_layer(first: _Layer) -> tuple[list[ir.Node], _Layer | None]:
    """Return the nodes up to the layer that alone reads a result, and that layer."""
    between: list[ir.Node] = []
    value = first.result
    while len(value.uses()) == 1 and not value.is_graph_output():
        ((reader, index),) = value.uses()
        if reader.graph is not first.node.graph:
            break
        found = _layer(reader) if index == 0 else None
        if found is not None:
            return between, found if found.axis == first.axis else None
        operator = operator_of(reader)
        if operator is None or not operator.elementwise or len(reader.inputs) != 1:
            break
        between.append(reader)
        value = reader.outputs[0]
    return between, None


def _alive(first: _Layer, between: Sequence[ir.Node], second: _Layer) -> Array | None:
    """Return which channels have to stay; None where the layers do not fit each other."""
    written, read = first.weights, second.weights
    if written.shape[first.outward] != read.shape[second.inward]:
        return None
    others = tuple(a for a in range(written.ndim) if a != first.outward)
    alive = np.any(written != 0, axis=others)
    if first.bias is not None:
        holder, place = first.bias
        alive |= _array(holder.inputs[place]) != 0
    if not all(node.op_type in _KEEP_ZERO and not node.domain for node in between):
        alive[:] = True
    others = tuple(a for a in range(read.ndim) if a != second.inward)
    alive &= np.any(read != 0, axis=others)
    if not alive.any():
        alive[0] = True  # engines want a size of at least 1
    found: Array = alive
    return found


def _cut(
    node: ir.Node, place: int, axis: int, alive: Array, namer: Namer, scratch: Scratch
) -> None:
    """Let a node read only those channels of a constant that are left."""
    old = node.inputs[place]
    assert old is not None, "it has been read"
    array = np.compress(alive, _array(old), axis=axis)
    tensor = scratch.keep(ir.tensor(array, name=namer.value(old.name)))
    constant = constant_node(tensor, str(tensor.name))
    assert isinstance(node.graph, ir.Graph), "functions are left alone"
    node.graph.insert_before(node, constant)
    node.replace_input_with(place, constant.outputs[0])


def _own_constant(value: ir.Value | None) -> ir.TensorProtocol | None:
    """Return the tensor of a constant that no other node reads."""
    tensor = constant_of(value)
    if value is None or tensor is None or value.is_graph_output():
        return None
    return tensor if len(value.uses()) == 1 else None


def _array(value: ir.Value | None) -> Array:
    tensor = constant_of(value)
    assert tensor is not None, "it was a constant just now"
    array: Array = tensor.numpy()
    return array
