"""Convert inputs and outputs to channels last, or first.

Transposes that undo each other are removed across operators that work element by element.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np
import onnx_ir as ir
from pydantic import Field

from onnx_passes import passes
from onnx_passes.errors import PassError
from onnx_passes.ops.operator_class import operator_of
from onnx_passes.passes.common import graph_edits
from onnx_passes.passes.common.graph_edits import inverse
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.context import InterfaceMap, Port
from onnx_passes.passes.convert import _ports as ports
from onnx_passes.passes.replace import Namer
from onnx_passes.plain import PlainMapping


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
    """Take both Transposes out, and turn the constants between them."""
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
    graph_edits.supersede(way.last.outputs[0], value, graph_edits.name_counts(model))
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
    new = ir.val(namer.value(f"{value.name}_turned"), const_value=turned)
    model.graph.register_initializer(new)
    return new


Layout = Literal["nhwc", "nchw", "nwc", "ncw", "ndhwc", "ncdhw"]


@passes.verify.tolerance
@passes.register()
class ConvertLayout(passes.Transformation):
    """Convert inputs and outputs to channels last, or first.

    Before: ``(float[1, 3, 8, 8] image) => ...`` with ``inputs: {image: nhwc}``
    After:  ``(float[1, 8, 8, 3] image) => ... { t = Transpose <perm = [0, 3, 1, 2]> (image)``

    A Transpose is put at the boundary. Where the model has one that undoes it, at once or
    behind operators that work element by element, both go, and the constants between them are
    transposed. It goes for any rank from 3 on: ``nhwc``, ``nwc`` and ``ndhwc`` put axis 1
    last, ``nchw``, ``ncw`` and ``ncdhw`` the last axis to 1.

    Sound because the Transpose gives the model what it had before, and operators that work
    element by element do so in any order of the elements. Engines may compute the end of a
    vector otherwise than its middle, so that moved elements may differ in the last bit.

    Leaves alone: the layout inside of the model, as ONNX knows convolutions with channels
    first only; what has several readers; names, order and types. The user's word decides which
    layout there was. But if only the Transpose that would be put there reads an input, or
    makes an output, it has the layout already.

    Attributes:
        inputs: The new layout of inputs, by name.
        outputs: The new layout of outputs, by name.
    """

    interface_changes = frozenset({"dims"})
    example = MappingProxyType({"inputs": {}})

    inputs: dict[str, Layout] = Field(default_factory=dict)
    outputs: dict[str, Layout] = Field(default_factory=dict)

    @classmethod
    def example_for(cls, model: ir.Model) -> PlainMapping:
        """Put the channels of every input last whose rank has them."""
        ranked = [v for v in model.graph.inputs if v.shape is not None and len(v.shape) > 2]
        free = [v for v in ranked if not (v.is_initializer() or v.is_graph_output())]
        return {"inputs": {str(value.name): "nhwc" for value in free}}

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Transpose inputs and outputs, and close the ways between Transposes."""
        ours = self._insert(model)
        if ours:
            graph_edits.require_free_initializers(model)
        namer = Namer(model)
        for node in list(model.graph):
            way = find_way(node) if order_of(node) is not None else None
            if way is not None and {way.first, way.last} & ours:
                close(model, way, namer)
        return ir.passes.PassResult(model, modified=bool(ours))

    def _insert(self, model: ir.Model) -> set[ir.Node]:
        graph, namer = model.graph, Namer(model)
        ours = set()
        for value in ports.find(graph.inputs, self.inputs, self.name, "input"):
            order = self._order(model, value, self.inputs)
            if _has(value, inverse(order)):
                self.context.notes.append(
                    f"{value.name} has that layout: only a Transpose reads it"
                )
                continue
            node = _transpose(value, inverse(order))
            ports.put_behind_input(model, value, node, namer)
            value.shape = _permuted(value, order)
            ours.add(node)
        for value in ports.find(graph.outputs, self.outputs, self.name, "output"):
            order = self._order(model, value, self.outputs)
            if _makes(value, order):
                self.context.notes.append(
                    f"{value.name} has that layout: a Transpose makes it"
                )
                continue
            node = _transpose(value, order)
            new = ports.put_before_output(model, value, node, namer)
            new.type, new.shape = value.type, _permuted(value, order)
            ours.add(node)
        return ours

    def interface_map(self, before: ir.Model) -> InterfaceMap:
        """Transpose values with numpy."""
        graph = before.graph
        found = ports.find(graph.inputs, self.inputs, self.name, "input")
        orders = {value: self._order(before, value, self.inputs) for value in found}
        inputs = {v.name: order for v, order in orders.items() if not _has(v, inverse(order))}
        found = ports.find(graph.outputs, self.outputs, self.name, "output")
        orders = {value: self._order(before, value, self.outputs) for value in found}
        outputs = {v.name: order for v, order in orders.items() if not _makes(v, order)}
        back = {name: inverse(order) for name, order in inputs.items()}

        def wrap(model: ir.Model) -> None:
            self._insert(model)

        return InterfaceMap(_turn(inputs), _turn(back), _turn(outputs), wrap)

    def _order(
        self, model: ir.Model, value: ir.Value, layouts: Mapping[str, Layout]
    ) -> list[int]:
        """Return the permutation from the old layout to the new one."""
        ports.refuse_pass_through(value, self.name)
        rank = None if value.shape is None else len(value.shape)
        if rank is None or rank < 3:
            raise PassError(
                f"{self.name}: {value.name!r} has "
                + (
                    "no known rank"
                    if rank is None
                    else f"rank {rank}, and no channels to move"
                ),
                help="layouts are of tensors of batch, channels and places: rank 3 or more",
            )
        last = [0, *range(2, rank), 1]
        return last if layouts[value.name or ""].endswith("c") else inverse(last)


def _has(value: ir.Value, order: list[int]) -> bool:
    """Whether an input is read by nothing but such a Transpose, so that it has the layout."""
    uses = list(value.uses())
    return len(uses) == 1 and not value.is_graph_output() and order_of(uses[0].node) == order


def _makes(value: ir.Value, order: list[int]) -> bool:
    """Whether such a Transpose makes an output, so that it has the layout."""
    node = value.producer()
    return node is not None and order_of(node) == order


def _transpose(value: ir.Value, order: list[int]) -> ir.Node:
    return ir.Node("", "Transpose", [value], [ir.AttrInt64s("perm", order)])


def _permuted(value: ir.Value, order: list[int]) -> ir.Shape:
    assert value.shape is not None, "its rank is known"
    return ir.Shape([value.shape[axis] for axis in order])


def _turn(orders: Mapping[str | None, list[int]]) -> Port:
    def port(name: str, value: object) -> tuple[str, object]:
        order = orders.get(name)
        if order is None or not isinstance(value, np.ndarray) or value.ndim != len(order):
            return name, value
        return name, np.ascontiguousarray(value.transpose(order))

    return port
