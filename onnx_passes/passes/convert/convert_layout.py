"""Convert inputs and outputs to channels last, or first."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import numpy as np
import onnx_ir as ir
from pydantic import Field

from onnx_passes import passes
from onnx_passes.errors import PassError
from onnx_passes.passes.common.graph_edits import inverse
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


Layout = Literal["nhwc", "nchw", "nwc", "ncw", "ndhwc", "ncdhw"]


@passes.verify.equality
@passes.register()
class ConvertLayout(passes.Transformation):
    """Convert inputs and outputs to channels last, or first.

    Before: ``(float[1, 3, 8, 8] image) => ...`` with ``inputs: {image: nhwc}``
    After:  ``(float[1, 8, 8, 3] image) => ... { t = Transpose <perm = [0, 3, 1, 2]> (image)``

    A Transpose is put at the boundary. It goes for any rank from 3 on: ``nhwc``, ``nwc`` and
    ``ndhwc`` put axis 1 last, ``nchw``, ``ncw`` and ``ncdhw`` the last axis to 1.

    Sound because the Transpose gives the model what it had before.

    Leaves alone: the layout inside of the model, as ONNX knows convolutions with channels
    first only; names, order and types. Where the model has a Transpose that undoes it,
    ``eliminate-double-transpose`` removes both, and ``sink-transposes`` moves it there. The
    user's word decides which layout there was. But if only the Transpose that would be put
    there reads an input, or makes an output, it has the layout already.

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
        """Transpose inputs and outputs."""
        return ir.passes.PassResult(model, modified=self._insert(model))

    def _insert(self, model: ir.Model) -> bool:
        graph, namer = model.graph, Namer(model)
        modified = False
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
            modified = True
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
            modified = True
        return modified

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
