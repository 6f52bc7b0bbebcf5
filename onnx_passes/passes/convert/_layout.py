"""Transposes that undo each other across operators that work element by element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.operator_class import operator_of
from onnx_passes.passes._support.edit import supersede
from onnx_passes.passes._support.scopes import name_counts
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.replace import Namer


def inverse(order: Sequence[int]) -> list[int]:
    """Return the permutation that undoes another."""
    return [list(order).index(axis) for axis in range(len(order))]


def order_of(node: ir.Node) -> list[int] | None:
    """Return the permutation of a Transpose; None for other nodes, or where it is not said."""
    if (node.domain, node.op_type) != ("", "Transpose"):
        return None
    attribute = node.attributes.get("perm")
    return None if attribute is None or attribute.is_ref() else list(attribute.as_ints())


@dataclass(frozen=True)
class Way:
    """A Transpose, the nodes behind it, and the Transpose that undoes it."""

    first: ir.Node
    inner: list[tuple[ir.Node, int]]
    last: ir.Node
    order: list[int]


def find_way(first: ir.Node) -> Way | None:
    """Walk from a Transpose to the one that undoes it.

    Every value on the way has one reader, and each operator one operand that is not a
    constant.
    """
    order = order_of(first)
    inner: list[tuple[ir.Node, int]] = []
    value = first.outputs[0]
    while order is not None:
        uses = value.uses()
        if len(uses) != 1 or value.is_graph_output():
            return None
        ((node, index),) = uses
        if node.graph is not first.graph:
            return None
        back = order_of(node)
        if back is not None:
            undone = [order[axis] for axis in back] == list(range(len(order)))
            return Way(first, inner, node, order) if undone else None
        described = None if node.domain else operator_of(node)
        if described is None or not described.elementwise or len(node.outputs) != 1:
            return None
        if any(not _movable(v, len(order)) for i, v in enumerate(node.inputs) if i != index):
            return None
        inner.append((node, index))
        value = node.outputs[0]
    return None


def _movable(value: ir.Value | None, rank: int) -> bool:
    """Whether an operand is a constant that can be transposed, or left out."""
    if value is None:
        return True
    tensor = constant_of(value)
    return tensor is not None and len(tensor.shape) <= rank


def close(model: ir.Model, way: Way, namer: Namer) -> None:
    """Take both Transposes out, and turn the constants between them.

    Args:
        model: The model.
        way: Two Transposes, and the nodes between them.
        namer: Gives names that are free.
    """
    back = inverse(way.order)
    value = way.first.inputs[0]
    assert value is not None, "a Transpose has an input"
    for node, index in way.inner:
        node.replace_input_with(index, value)
        for other, operand in enumerate(node.inputs):
            if other != index and operand is not None:
                node.replace_input_with(other, _turned(model, operand, back, namer))
        value = node.outputs[0]
        # It holds another tensor now, and must not be mistaken for the one before.
        value.name = namer.value(f"{value.name}_turned")
        if value.shape is not None:
            value.shape = ir.Shape([value.shape[axis] for axis in back])
    graph = way.last.graph
    assert graph is not None, "the way is in a graph"
    supersede(way.last.outputs[0], value, name_counts(model))
    graph.remove(way.last, safe=True)
    graph.remove(way.first, safe=True)


def _turned(model: ir.Model, value: ir.Value, back: list[int], namer: Namer) -> ir.Value:
    """Return a constant for operands that are transposed; scalars stay as they are."""
    tensor = constant_of(value)
    assert tensor is not None, "it was seen to be one"
    if tensor.size == 1 and len(tensor.shape) <= 1:
        return value
    array = tensor.numpy()
    wide = array.reshape([1] * (len(back) - array.ndim) + list(array.shape))
    turned = ir.Tensor(np.ascontiguousarray(wide.transpose(back)), dtype=tensor.dtype)
    new = ir.Value(
        name=namer.value(f"{value.name}_turned"),
        type=ir.TensorType(tensor.dtype),
        shape=ir.Shape(turned.shape),
        const_value=turned,
    )
    model.graph.register_initializer(new)
    return new
