"""Rewriting one node from one version of its operator to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.plain import Plain


class CannotConvertError(Exception):
    """A node has no equivalent in the version wanted; the message says why."""


class FreeNames(Protocol):
    """Gives names that are free."""

    def node(self, stem: str) -> str:
        """Return the name of a new node."""

    def value(self, stem: str) -> str:
        """Return the name of a new value."""


class Edit:
    """A node, and what adapters do with it.

    Attributes:
        node: The node; it keeps its outputs, whatever becomes of its operator.
        added: Nodes put in front of it, in order.
        enlarges: Whether it is known to enlarge, as an Upsample does.
    """

    def __init__(
        self,
        node: ir.Node,
        namer: FreeNames,
        constant_of: Callable[[ir.Value], ir.TensorProtocol | None],
    ) -> None:
        """Change nothing yet.

        Args:
            node: The node.
            namer: Gives names to what is added.
            constant_of: Returns what a value always holds.
        """
        self.constant_of = constant_of
        self.node = node
        self.added: list[ir.Node] = []
        self.enlarges = False
        self._namer = namer

    def fail(self, reason: str) -> CannotConvertError:
        """Return the error to raise."""
        return CannotConvertError(reason)

    def input(self, index: int) -> ir.Value | None:
        """Return an input, None if it is left out."""
        return self.node.inputs[index] if index < len(self.node.inputs) else None

    def data(self) -> ir.Value:
        """Return the first input."""
        value = self.input(0)
        assert value is not None, "the first input of an operator with adapters is required"
        return value

    def output_used(self, index: int) -> bool:
        """Whether somebody reads or returns an output."""
        if index >= len(self.node.outputs):
            return False
        value = self.node.outputs[index]
        return bool(value.uses()) or value.is_graph_output()

    def attribute(self, name: str, default: object = None) -> Plain:
        """Return the value of an attribute.

        Args:
            name: Name of the attribute.
            default: Its value if it is left out.
        """
        attribute = self.node.attributes.get(name)
        if attribute is None:
            return default
        if attribute.is_ref():
            raise self.fail(f"its {name} is an attribute of the function around it")
        return attribute.value

    def take(self, name: str, default: object = None) -> Plain:
        """Remove an attribute and return its value.

        Args:
            name: Name of the attribute.
            default: Its value if it is left out.
        """
        value = self.attribute(name, default)
        self.node.attributes.pop(name, None)
        return value

    def set(self, **attributes: Plain) -> None:
        """Set attributes; the type follows from the value."""
        for name, value in attributes.items():
            self.node.attributes[name] = ir.convenience.convert_attribute(name, value)

    def rank(self, value: ir.Value | None = None) -> int | None:
        """Return the rank of a value, of the first input if none is given."""
        shape = (value or self.data()).shape
        return None if shape is None else len(shape)

    def constant_input(self, index: int, what: str) -> Array | None:
        """Return what an input always holds, None if it is left out.

        Args:
            index: Number of the input.
            what: What it holds, for the message.

        Raises:
            CannotConvertError: The input is computed.
        """
        value = self.input(index)
        if value is None:
            return None
        tensor = self.constant_of(value)
        if tensor is None:
            several = what.endswith("s")
            held = "are computed, and must be attributes"
            held = held if several else "is computed, and must be an attribute"
            raise self.fail(f"its {what} {held} there")
        return tensor.numpy()

    def set_inputs(self, *values: ir.Value | None) -> None:
        """Replace all inputs; trailing ones that are left out go."""
        kept = list(values)
        while kept and kept[-1] is None:
            kept.pop()
        self.node.resize_inputs(len(kept))
        for index, value in enumerate(kept):
            self.node.replace_input_with(index, value)

    def constant(
        self, what: str, array: Array | Sequence[Plain], dtype: npt.DTypeLike | None = None
    ) -> ir.Value:
        """Add a constant in front of the node; int64 unless a dtype is given.

        Args:
            what: What it holds, for its name.
            array: Numbers of any shape.
            dtype: Their numpy type.
        """
        tensor = ir.tensor(np.asarray(array, dtype=dtype or np.int64))
        return self.add("Constant", [], what, value=tensor)

    def add(
        self,
        operator: str,
        inputs: Sequence[ir.Value | None],
        what: str,
        **attributes: Plain,
    ) -> ir.Value:
        """Add a node in front of the node and return its output.

        Args:
            operator: Its operator, of the ONNX domain.
            inputs: Its inputs.
            what: What it computes; part of its name.
            **attributes: Its attributes.
        """
        stem = f"{self.node.outputs[0].name}_{what}"
        converted = ir.convenience.convert_attributes(attributes)
        node = ir.Node("", operator, inputs, converted, name=self._namer.node(stem))
        (value,) = node.outputs
        value.name = self._namer.value(stem)
        graph = self.node.graph
        assert graph is not None, "the node is in a graph"
        graph.insert_before(self.node, node)
        node.metadata_props.update(self.node.metadata_props)
        self.added.append(node)
        return value

    def become(self, operator: str, *inputs: ir.Value | None, **attributes: object) -> None:
        """Make another operator of the node; its outputs stay."""
        self.node.op_type = operator
        self.node.attributes.clear()
        self.set(**attributes)
        self.set_inputs(*inputs)
